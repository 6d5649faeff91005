"""What the README says of the results: the picture, the sentences, and one table, wins and losses.

It stands between two comments in README.md, so that its numbers are those of docs/results.md.
"""

from collections.abc import Iterable
from typing import NamedTuple

import files_table

from skinny.experiments.comparison import ALPHA, Row, compare, contrasts
from skinny.experiments.statistics import Difference
from skinny.experiments.study import Result, Study

BEGIN = "<!-- made by results/write.py from the records: begin -->"
END = "<!-- end -->"
_LEGEND = """\
Errors are means over n seeds, on test images (MobileNetV2: on Imagenette's validation \
photographs, most of which its published weights were trained on); all trainings of a row have \
equal epochs.

- **Budget**: how the weights are shared out among layers. Global is one threshold for all, ERK \
(the default) spares narrow layers, uniform is the same share of each.
- **Points against dense**: points of accuracy, paired by seed. *Worse*: p \\< 0.05 in a paired t \
test with Holm's correction. *Equivalent*: within the points in brackets, by two one-sided tests. \
*Undecided*: too few seeds to tell, however large the difference. *One seed*: no test.
- **Best other method**: of one-shot, iterative and gradual pruning and AC/DC (LeNet-300-100 in 90 \
epochs: gradual pruning and AC/DC; MobileNetV2: one-shot and gradual pruning; –: none was tried). \
On the LeNets settings were searched for almost only with IHT; the other methods share its \
learning rate. With settings of its own for each method, on CIFAR-10, gradual pruning is ahead, \
too ([methods tuned one by one]({results}#methods-tuned-one-by-one-on-cifar-10-at-90--sparsity)).
"""
_MORE = """\
[docs/results.md](docs/results.md) has the intervals, [where it \
wins](docs/results.md#where-it-wins) and [loses](docs/results.md#where-it-loses), and published \
results beside ours; [docs/settings.md](docs/settings.md) says how the settings were found."""
_BUDGETS = {"erk": "ERK", "global": "global", "uniform": "uniform"}


class Rival(NamedTuple):
    """The other method of fewest errors at the same sparsity."""

    name: str
    ahead: float  # points of accuracy that it is ahead of IHT
    seeds: int
    p: float  # of the difference, corrected for the number of methods

    @classmethod
    def of(cls, name: str, difference: Difference, p: float) -> "Rival":
        """difference: IHT's accuracy minus that of the method so named."""
        return cls(name, -difference.mean, difference.n, p)

    def __str__(self) -> str:
        where = "behind" if self.ahead < 0 else "ahead"
        return f"{self.name}, {abs(self.ahead):.2f} {where} (n = {self.seeds}, {p_text(self.p)})"


class Line(NamedTuple):
    """A row of the table."""

    network: str  # and data
    left: str  # which weights
    errors: tuple[float, float]  # in per cent: of IHT, and of the dense network
    seeds: int
    points: float  # of accuracy that IHT is ahead of the dense network
    verdict: str
    rival: Rival | None  # None: no other method was tried
    beaten: bool  # is any other method significantly better?
    kilobytes: tuple[float, float]  # of IHT's file, and of the dense network's

    def __str__(self) -> str:
        cells = [
            self.network,
            self.left,
            *(f"{error:.2f}" for error in self.errors),
            str(self.seeds),
            f"{signed(self.points)}: {self.verdict}",
            str(self.rival or "–"),
            f"{self.kilobytes[0]:,.0f} ({self.kilobytes[1]:,.0f})",
        ]
        return f"| {' | '.join(cells)} |"


def table(lines: Iterable[Line], results: str) -> str:
    """results: the page of results, seen from where the table stands."""
    rows = [
        "| network, data | weights left, budget | error, % | dense, % | n | "
        "points against dense | best other method | kB (dense) |",
        "| --- | --- | ---: | ---: | ---: | --- | --- | ---: |",
        *map(str, lines),
    ]
    return "\n".join([*rows, "", _LEGEND.format(results=results)])


def block(picture: str, words: str, lines: Iterable[Line]) -> str:
    made = table(lines, "docs/results.md")
    return f"{BEGIN}\n\n{picture}\n\n{words}\n\n{made}\n{_MORE}\n\n{END}"


def line(
    name: str,
    study: Study,
    label: str,
    margin: float,
    files: files_table.Files,
    others: Study | None = None,
) -> Line:
    """The row of the arm so labelled. margin: points that count as equal; others: the study of
    other methods, whose arm of the same label is the same training."""
    row = next(row for row in compare(study, margin) if row.arm.label == label)
    assert row.error is not None
    assert row.against is not None
    assert row.difference is not None
    run = row.arm.runs[0]
    rival, beaten = (None, False) if others is None else _rival(others, label)
    return Line(
        name,
        f"1/{round(run.size / run.kept)}, {_BUDGETS[run.config.budget]}",
        (row.error.mean, files_table.error(row.against)),
        row.difference.n,
        row.difference.mean,
        _verdict(row, margin),
        rival,
        beaten,
        (files_table.kilobytes(row.arm, files), files_table.kilobytes(row.against, files)),
    )


def replaced(text: str, made: str) -> str:
    """The README with the block in it anew."""
    before, rest = text.split(BEGIN)
    return before + made + rest.split(END, 1)[1]


def signed(points: float, digits: int = 2) -> str:
    return f"{round(points, digits) + 0.0:+.{digits}f}".replace("-", "−")  # + 0.0: no minus zero


def _verdict(row: Row, margin: float) -> str:
    within = row.equivalence is not None and row.equivalence.p < ALPHA
    if row.verdict in ("equivalent", "no worse"):
        return f"{row.verdict} (±{margin:g})"
    return f"{row.verdict}, but within {margin:g}" if within else row.verdict


def _rival(study: Study, label: str) -> tuple[Rival, bool]:
    """The best, and whether any is significantly better."""
    ours = next(arm for arm in study.arms if arm.label == label)
    arms = {arm.label: arm for arm in study.arms if _comparable(arm, ours)}
    found = [one for one in contrasts(study) if one.first == label and one.second in arms]
    best = min(found, key=lambda one: files_table.error(arms[one.second]))
    beaten = any(one.p < ALPHA and one.difference.mean < 0 for one in found)
    return Rival.of(best.second.split(",")[0], best.difference, best.p), beaten


def p_text(p: float) -> str:
    return "p \\< 0.001" if p < 0.001 else f"p = {p:.3f}"


def _comparable(arm: Result, ours: Result) -> bool:
    """Is it another method that ends as sparse, without a search for each layer's sparsity?"""
    config = arm.config
    other = config.method not in ("dense", "sdnn", "dsd")
    alike = config.sparsity == ours.config.sparsity and not config.layers
    return bool(arm.runs) and other and alike
