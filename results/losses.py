"""Where the method loses, in one sentence, computed from the records."""

from collections.abc import Iterable, Mapping

import files_table
from readme import best_other

from skinny.experiments.comparison import compare
from skinny.experiments.statistics import Difference, paired
from skinny.experiments.study import Result, Study


def sentence(
    claims: Mapping[str, Study],
    methods: Study,
    narrow: Mapping[str, Study],
    fewest: Result,
    smallest: tuple[float, float] | None,
    pretrained: Mapping[float, float],
) -> str:
    """claims: the LeNets' studies, with published rows; methods: LeNet-300-100's that has other
    methods, too; narrow: {data: the study of methods on narrow NINs}; fewest: LeNet-5 at 280x;
    smallest: (kB, error in per cent) of the smallest LeNet-5; pretrained: {sparsity: points of
    accuracy that IHT costs MobileNetV2}."""
    clauses = [*_against_dense(claims), *_against_methods(methods, "SDNN-56x")]
    clauses += _against_methods_on_narrow(narrow, "SDNN-10x")
    clauses += _against_published(claims["LeNet-5"], fewest, "Sparse VD 2017, 280x")
    clauses += _against_size(claims["LeNet-5"], smallest)
    points, sparsities = sorted(pretrained.values()), sorted(pretrained)
    clauses.append(
        f"MobileNetV2, fine-tuned on photographs, loses {points[0]:.1f} to {points[-1]:.1f} points "
        f"of accuracy against dense fine-tuning at {100 * sparsities[0]:.0f} to "
        f"{100 * sparsities[-1]:.0f} % sparsity"
    )
    return f"It also loses: {'; '.join(clauses)}."


def _against_dense(claims: Mapping[str, Study]) -> list[str]:
    told = []
    for network, study in claims.items():
        # variants of an arm, which have a comma in their label, are in the tables only
        rows = [row for row in compare(study, margin=0.2) if ", " not in row.arm.label]
        worse = [files_table.short(row.arm) for row in rows if row.verdict == "worse"]
        if worse:
            times = _listed(name.removesuffix("x") for name in worse)
            told.append(f"{network} with {times} times fewer weights")
    if not told:
        return []
    return [f"{_listed(told)} make significantly more errors than dense training"]


def _against_methods(methods: Study, label: str) -> list[str]:
    ours, theirs, difference = _beside_best(methods, label)
    if difference is None or difference.mean >= 0:
        return []
    return [
        f"LeNet-300-100 with {files_table.short(ours).removesuffix('x')} times fewer, in "
        f"{ours.config.epochs} epochs, is {-difference.mean:.2f} points of accuracy behind "
        f"{theirs} ({difference.n} trainings of each)"
    ]


def _against_methods_on_narrow(narrow: Mapping[str, Study], label: str) -> list[str]:
    told = []
    for data, study in narrow.items():
        _, theirs, difference = _beside_best(study, label)
        if difference is not None and difference.mean < 0:
            told.append(f"{-difference.mean:.2f} points behind {theirs} on {data}")
    if not told:
        return []
    return [
        f"a narrow NIN with a tenth of its weights, trained on 1,000 images, is {_listed(told)}"
    ]


def _beside_best(study: Study, label: str) -> tuple[Result, str, Difference | None]:
    """The arm so labelled, the best other method, and how far the arm is ahead of it."""
    ours = next(arm for arm in study.arms if arm.label == label)
    theirs = best_other(study, ours)
    return ours, theirs.label.split(",")[0], paired(ours.values("top1"), theirs.values("top1"))


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


def _against_size(study: Study, ours: tuple[float, float] | None) -> list[str]:
    """Against the smallest published file that makes fewer errors."""
    if ours is None:
        return []
    better = [
        (row.kilobytes, row.error, row.model.split(",")[0])
        for row in study.cited
        if row.kilobytes is not None and row.kilobytes <= ours[0] and row.error <= ours[1]
    ]
    if not better:
        return []
    size, error, name = min(better)
    return [
        f"its smallest file, {ours[0]:.2f} kB at {ours[1]:.2f} %, is behind the {size:.2f} kB at "
        f"{error:.2f} % of {name}"
    ]


def _listed(words: Iterable[str]) -> str:
    *others, last = words
    return f"{', '.join(others)} and {last}" if others else last
