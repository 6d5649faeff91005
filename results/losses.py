"""Where the method loses, in one sentence, computed from the records."""

from collections.abc import Iterable

import files_table
from readme import best_other

from skinny.experiments.comparison import compare
from skinny.experiments.statistics import paired
from skinny.experiments.study import Result, Study


def sentence(
    lenet: Study,
    methods: Study,
    conv: Study,
    fewest: Result,
    smallest: tuple[float, float] | None,
    pretrained: dict[float, float],
) -> str:
    """lenet: LeNet-300-100's study; methods: one that has other methods, too; conv: LeNet-5's, with
    published rows; fewest: LeNet-5 at 280x; smallest: (kB, error in per cent) of the smallest
    LeNet-5; pretrained: {sparsity: points of accuracy that IHT costs MobileNetV2}."""
    clauses = [*_against_dense(lenet), *_against_methods(methods, "SDNN-56x")]
    clauses += _against_published(conv, fewest, "Sparse VD 2017, 280x")
    clauses += _against_size(conv, smallest, "MIRACLE 2019, random codes, 1.52 kB")
    points, sparsities = sorted(pretrained.values()), sorted(pretrained)
    clauses.append(
        f"MobileNetV2, fine-tuned on photographs, loses {points[0]:.1f} to {points[-1]:.1f} points "
        f"of accuracy at {100 * sparsities[0]:.0f} to {100 * sparsities[-1]:.0f} % sparsity"
    )
    return f"It also loses: {'; '.join(clauses)}."


def _against_dense(lenet: Study) -> list[str]:
    rows = [row for row in compare(lenet, margin=0.2) if row.arm.config.method == "sdnn"]
    worse = [files_table.short(row.arm) for row in rows if row.verdict == "worse"]
    if not worse:
        return []
    return [
        "LeNet-300-100 makes significantly more errors than dense with "
        f"{_listed(name.removesuffix('x') for name in worse)} times fewer weights"
    ]


def _against_methods(methods: Study, label: str) -> list[str]:
    ours = next(arm for arm in methods.arms if arm.label == label)
    theirs = best_other(methods, ours)
    difference = paired(ours.values("top1"), theirs.values("top1"))
    if difference is None or difference.mean >= 0:
        return []
    return [
        f"with {files_table.short(ours).removesuffix('x')} times fewer, in "
        f"{ours.config.epochs} epochs, {theirs.label.split(',')[0]} has {-difference.mean:.2f} "
        f"points of accuracy more ({difference.n} trainings of each)"
    ]


def _against_published(study: Study, ours: Result, cited: str) -> list[str]:
    theirs = next(row for row in study.cited if row.model == cited)
    error = files_table.error(ours)
    if theirs.error >= error:
        return []
    times = files_table.short(ours).removesuffix("x")
    return [
        f"LeNet-5 makes {error:.2f} % errors with {times} times fewer weights, where "
        f"{cited.split(',')[0]} has {theirs.error:.2f} %"
    ]


def _against_size(study: Study, ours: tuple[float, float] | None, cited: str) -> list[str]:
    theirs = next(row for row in study.cited if row.model == cited)
    if ours is None or theirs.error >= ours[1]:
        return []
    name, size = cited.split(",")[0], cited.split(", ")[-1]
    return [
        f"its smallest file, {ours[0]:.2f} kB at {ours[1]:.2f} %, is behind the {size} at "
        f"{theirs.error:.2f} % of {name}"
    ]


def _listed(words: Iterable[str]) -> str:
    *others, last = words
    return f"{', '.join(others)} and {last}" if others else last
