"""What the README says of the results: the picture, the sentences, and one table, wins and losses.

It stands between two comments in README.md, so that its numbers are those of docs/results.md.
"""

from collections.abc import Iterable
from typing import NamedTuple

import files_table

from skinny.experiments.comparison import ALPHA, Row, compare
from skinny.experiments.statistics import Difference, paired
from skinny.experiments.study import Result, Study

BEGIN = "<!-- made by results/write.py from the records: begin -->"
END = "<!-- end -->"
_BUDGETS = {"erk": "ERK", "global": "global", "uniform": "uniform"}


class Line(NamedTuple):
    """A row of the table."""

    network: str  # and data
    left: str  # which weights
    errors: tuple[float, float]  # in per cent: of IHT, and of the dense network
    seeds: int
    points: float  # of accuracy that IHT is ahead of the dense network
    verdict: str
    rival: str  # the best of the other methods
    kilobytes: tuple[float, float]  # of IHT's file, and of the dense network's

    def __str__(self) -> str:
        cells = [
            self.network,
            self.left,
            *(f"{error:.2f}" for error in self.errors),
            str(self.seeds),
            f"{signed(self.points)}: {self.verdict}",
            self.rival,
            f"{self.kilobytes[0]:,.0f} ({self.kilobytes[1]:,.0f})",
        ]
        return f"| {' | '.join(cells)} |"


def block(picture: str, words: str, lines: Iterable[Line]) -> str:
    table = "\n".join(
        [
            "| network, data | weights left, budget | error, % | dense, % | n | "
            "points ahead of dense | best other method | kB (dense) |",
            "| --- | --- | ---: | ---: | ---: | --- | --- | ---: |",
            *map(str, lines),
        ]
    )
    return (
        f"{BEGIN}\n\n{picture}\n\n{words}\n\nWhat iterative hard thresholding gives, and where "
        "it loses: test errors, means over n seeds, beside dense training and the best of the "
        "other methods that were tried (one-shot, iterative and gradual pruning and AC/DC; with "
        "LeNet-300-100 in 90 epochs gradual pruning and AC/DC, with MobileNetV2 one-shot and "
        "gradual pruning; –: none was tried), all with equal epochs. Settings were searched for "
        "with IHT, hardly with the other methods, which share its learning rates. Points of "
        "accuracy are paired by seed. Worse: p \\< 0.05 in a paired t test with Holm's "
        "correction. Equivalent: within the points in brackets, by two one-sided tests. "
        "Undecided: too few seeds to tell, however large the difference. The budget says how "
        "the weights are shared out among layers: global is one threshold for all, ERK spares "
        "narrow layers, uniform is the same share of each. [docs/results.md](docs/results.md) "
        "has the intervals, published results beside ours, and the rest, "
        f"[docs/settings.md](docs/settings.md) how the settings were found:\n\n{table}\n\n{END}"
    )


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
    return Line(
        name,
        f"1/{round(run.size / run.kept)}, {_BUDGETS[run.config.budget]}",
        (row.error.mean, files_table.error(row.against)),
        row.difference.n,
        row.difference.mean,
        _verdict(row, margin),
        _rival(others, label) if others is not None else "–",
        (files_table.kilobytes(row.arm, files), files_table.kilobytes(row.against, files)),
    )


def replaced(text: str, made: str) -> str:
    """The README with the block in it anew."""
    before, rest = text.split(BEGIN)
    return before + made + rest.split(END, 1)[1]


def signed(points: float, digits: int = 2) -> str:
    return f"{points:+.{digits}f}".replace("-", "−")


def _verdict(row: Row, margin: float) -> str:
    within = row.equivalence is not None and row.equivalence.p < ALPHA
    if row.verdict in ("equivalent", "no worse"):
        return f"{row.verdict} (±{margin:g})"
    return f"{row.verdict}, but within {margin:g}" if within else row.verdict


def _rival(study: Study, label: str) -> str:
    """The other method of fewest errors at the same sparsity, and how far it is ahead of IHT."""
    ours = next(arm for arm in study.arms if arm.label == label)
    best = best_other(study, ours)
    difference = paired(ours.values("top1"), best.values("top1"))
    assert difference is not None
    return told_rival(best.label.split(",")[0], difference)


def told_rival(name: str, difference: Difference) -> str:
    """difference: IHT's accuracy minus that of the method so named."""
    where = "behind" if difference.mean > 0 else "ahead"
    return f"{name}, {abs(difference.mean):.2f} {where} (n = {difference.n})"


def best_other(study: Study, ours: Result) -> Result:
    return min((arm for arm in study.arms if _comparable(arm, ours)), key=files_table.error)


def _comparable(arm: Result, ours: Result) -> bool:
    """Is it another method that ends as sparse, without a search for each layer's sparsity?"""
    config = arm.config
    other = config.method not in ("dense", "sdnn", "dsd")
    alike = config.sparsity == ours.config.sparsity and not config.layers
    return bool(arm.runs) and other and alike
