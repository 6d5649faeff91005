"""The small studies of docs/results.md in one picture and five sentences, from the records."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from skinny.experiments.comparison import Row, compare
from skinny.experiments.report.drawing import Drawing
from skinny.experiments.report.palette import LIGHT, SERIES
from skinny.experiments.runs import Run
from skinny.experiments.study import Result, Study

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# What a search compares budgets with: all else equal, at 90 % and thresholded directly.
_ALIKE = {"method": "sdnn", "sparsity": 0.9, "r0": 0.9, "dense": 3, "restart_lr": False, "lr": 0.05}


def picture(studies: Mapping[str, Study]) -> Drawing:
    """{name of a line: its study}: what removing weights costs, each against its dense network."""
    lines = {name: _points(study) for name, study in studies.items()}

    def paint(axes: "Axes") -> None:
        axes.axhline(0, color=LIGHT["dense"], ls="--", lw=1.2, zorder=1)
        axes.annotate(
            "as good as the dense network", (0.99, 0), xycoords=("axes fraction", "data"),
            xytext=(0, 4), textcoords="offset points", ha="right", fontsize=8, color=LIGHT["dense"],
        )  # fmt: skip
        for (name, rows), colour in zip(lines.items(), SERIES, strict=False):
            lost = [-row.difference.mean for row in rows if row.difference]
            half = [row.difference.high - row.difference.mean for row in rows if row.difference]
            x = [_smaller(row.arm) for row in rows]
            axes.errorbar(x, lost, yerr=half, fmt="-o", capsize=3, color=colour, label=name)
        fewest = max(_smaller(row.arm) for rows in lines.values() for row in rows)
        ticks = [tick for tick in (1, 1.5, 2, 3, 5, 10, 20, 50, 100, 200) if tick <= fewest]
        axes.set_xscale("log")
        axes.set_xlim(1, 1.4 * fewest)
        axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
        axes.minorticks_off()
        axes.invert_yaxis()
        axes.set_xlabel("how many times fewer weights than the dense network has")
        axes.set_ylabel("accuracy lost, points")
        figure = axes.get_figure()
        assert figure is not None
        figure.legend(loc="outside lower center", ncols=len(lines))

    return Drawing(
        "small",
        "What it costs to remove weights",
        "Test accuracy lost against dense training of the same network with the same epochs: means "
        "over seeds with 95 % t intervals. To the right, fewer weights are left.",
        paint,
        size=(6.2, 3.6),
    )


def sentences(mnist: list[Study], cifar: list[Study], searches: Sequence[Iterable[Run]]) -> str:
    """What a newcomer should take away. searches: held-out runs on MNIST, and on CIFAR-10."""
    digits, pictures = (
        {arm.config.sparsity: arm for arm in study_of(studies, "Figure 1").arms}
        for studies in (mnist, cifar)
    )
    gradual = [
        _error(arm)
        for studies in (mnist, cifar)
        for arm in study_of(studies, "Baselines").arms
        if arm.config.method == "gradual"
    ]
    budgets = {
        budget: [_held_out_error(runs, budget) for runs in searches]
        for budget in ("erk", "uniform")
    }
    said = [
        f"A small NIN without half of its weights makes {_error(digits[0.5]):.1f} % errors on "
        f"MNIST, where the dense network makes {_error(digits[0.0]):.1f} %, and "
        f"{_error(pictures[0.5]):.1f} % on CIFAR-10 instead of {_error(pictures[0.0]):.1f} %; "
        "these are short trainings on 1,000 images.",
        f"Without nine tenths of them it makes {_error(digits[0.9]):.1f} and "
        f"{_error(pictures[0.9]):.1f} % errors, and its file shrinks from "
        f"{_kilobytes(digits[0.0]):.0f} to {_kilobytes(digits[0.9]):.0f} kB.",
        "These networks lose the same share in every layer, as in the paper; sparing narrow "
        "layers, which is Skinny's default, brought errors on held-out images at 90 % from "
        f"{budgets['uniform'][0]:.1f} to {budgets['erk'][0]:.1f} % on MNIST and from "
        f"{budgets['uniform'][1]:.1f} to {budgets['erk'][1]:.1f} % on CIFAR-10.",
        "In none of these studies is a skinny network better than the dense one by more than "
        "chance, and the strongest rival, gradual pruning, makes "
        f"{gradual[0]:.1f} and {gradual[1]:.1f} % errors at 90 %: the tables below say where the "
        "method wins and where it loses.",
    ]
    return " ".join(said)


def study_of(studies: Iterable[Study], name: str) -> Study:
    return next(study for study in studies if study.title.startswith(name))


def _points(study: Study) -> list[Row]:
    """The pruned arms that can be compared with dense training, the largest first."""
    rows = [row for row in compare(study, margin=1.0) if row.difference is not None]
    pruned = [row for row in rows if row.arm.config.method != "dense"]
    return sorted(pruned, key=lambda row: _smaller(row.arm))


def _smaller(arm: Result) -> float:
    return float(np.mean([run.size / run.kept for run in arm.runs]))


def _error(arm: Result) -> float:
    return 100 - float(np.mean(list(arm.values("top1").values())))


def _kilobytes(arm: Result) -> float:
    return float(np.mean([run.packed_bytes for run in arm.runs])) / 1000


def _held_out_error(runs: Iterable[Run], budget: str) -> float:
    wanted = _ALIKE | {"budget": budget}
    alike = [
        run
        for run in runs
        if all(getattr(run.config, name) == value for name, value in wanted.items())
    ]
    return 100 - float(np.mean([100 * run.result["test_accuracy"] for run in alike]))
