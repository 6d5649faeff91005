"""The beginning of docs/results.md: one picture and five sentences, computed from the records."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import files_table as table
from files_table import Files, Times

from skinny.experiments.comparison import compare
from skinny.experiments.report.drawing import Drawing
from skinny.experiments.report.palette import LIGHT, SERIES
from skinny.experiments.study import Result, Study

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Sizes with a known error, as published: (kB, error in per cent, who, where the name stands)
_PLACES = {  # offset, alignment
    "right": ((5, -3), "left"),
    "above": ((0, 9), "center"),
    "below": ((2, -11), "left"),
}
_PUBLISHED = {
    "LeNet-300-100": (
        (27.0, 1.58, "Deep Compression", "right"),
        (8.6, 1.9, "entropy-penalised", "below"),
    ),
    "LeNet-5": (
        (44.0, 0.74, "Deep Compression", "above"),
        (2.8, 1.0, "entropy-penalised", "below"),
    ),
}
_BELOW = {("LeNet-5", "SDNN-108x")}  # whose labels would stand on a cross
_STEEP = 0.95


def picture(
    studies: Mapping[str, Study],
    small: Mapping[str, Sequence[Study]],
    files: Files,
    times: Times,
) -> Drawing:
    """{network: its study}: test error against the size of the file, dense and skinny. small: the
    studies of the same networks with trained codebooks."""

    def paint(axes: "Axes") -> None:
        for (network, study), colour in zip(studies.items(), SERIES, strict=False):
            # variants of an arm, which its label tells, are in the tables
            arms = [arm for arm in study.arms if arm.runs and ", " not in arm.label]
            exact = sorted(
                ((table.kilobytes(a, files), table.error(a), a) for a in arms), key=_size
            )
            axes.plot([x for x, _, _ in exact], [y for _, y, _ in exact], "-o", color=colour,
                      label=network)  # fmt: skip
            for x, y, arm in exact:
                steep = arm.config.sparsity > _STEEP  # the line rises: there is room on its left
                offset, align = (-3, 7), "center"
                if (network, arm.label) in _BELOW:
                    offset, align = _PLACES["below"]
                elif steep and arm is not exact[0][2]:
                    offset, align = (-6, 2), "right"
                axes.annotate(
                    _name(arm, times, ", " if steep else "\n"), (x, y), xytext=offset,
                    textcoords="offset points", ha=align, fontsize=8, color=colour,
                )  # fmt: skip
            if rounded := list(_rounded(arms, files)):
                axes.plot([x for x, _ in rounded], [y for _, y in rounded], "s", ms=4,
                          mfc="none", color=colour,
                          label=f"{network}, rounded to 4 bits")  # fmt: skip
            if few := list(_few_bits(small[network], files)):
                axes.plot([x for x, _ in few], [y for _, y in few], "D", ms=4, color=colour,
                          label=f"{network}, trained with 3 or 4 bits")  # fmt: skip
            for x, y, who, place in _PUBLISHED[network]:
                offset, align = _PLACES[place]
                axes.plot([x], [y], "x", color=LIGHT["dense"])
                axes.annotate(
                    who, (x, y), xytext=offset, textcoords="offset points", ha=align, fontsize=7,
                    color=LIGHT["dense"],
                )  # fmt: skip
        axes.set_xscale("log")
        axes.set_xlim(2900, 1.2)  # from large to small
        axes.set_ylim(0, max(2.4, 0.3 + max(axes.dataLim.y1, 0)))
        axes.set_xticks([1000, 300, 100, 30, 10, 3], ["1,000", "300", "100", "30", "10", "3"])
        axes.minorticks_off()
        axes.set_xlabel("size of the file, kB")
        axes.set_ylabel("wrong on MNIST's test images, %")
        figure = axes.get_figure()
        assert figure is not None
        figure.legend(loc="outside lower center", ncols=2)

    return Drawing(
        "opening",
        "Errors and sizes of dense and skinny networks",
        "Means over seeds; how many times fewer weights, and how long an image takes on one core. "
        "To the right, files are smaller. Squares: the same networks with their weights rounded "
        "to 16 values a layer after training (what that costs the seeds that were packed so is "
        "added to the mean over all); diamonds: trained with 8 or 16 values a layer (LeNet-5's "
        "then packed within 2.8 kB); crosses: as published.",
        paint,
        size=(6.6, 4.0),
    )


def _rounded(arms: Iterable[Result], files: Files) -> Iterator[tuple[float, float]]:
    for arm in arms:
        rounded, exact = (table.point(arm, files, way) for way in ("codebook4", "exact"))
        if rounded is not None and exact is not None:  # not all seeds have been packed
            yield rounded[0], table.error(arm) + rounded[1] - exact[1]


def _few_bits(studies: Iterable[Study], files: Files) -> Iterator[tuple[float, float]]:
    for arm in (arm for study in studies for arm in study.arms):
        if arm.runs and arm.config.quantize is not None:
            smallest = table.point(arm, files, "smallest")
            yield smallest or (table.kilobytes(arm, files), table.error(arm))


def _size(point: tuple[float, float, Result]) -> float:
    return point[0]


def _name(arm: Result, times: Times, comma: str) -> str:
    taken = table.milliseconds(arm, times)
    return table.short(arm) + (f"{comma}{1000 * taken['skinny']:.0f} µs" if taken else "")


def has_dense(study: Study) -> bool:
    """Has its dense network been trained, and one that is skinny?"""
    return {"dense", "sdnn"} <= {arm.config.method for arm in study.arms if arm.runs}


def sentences(lenet: Study, few_bits: Study, smallest: Study, files: Files, times: Times) -> str:
    """What a newcomer should take away, from LeNet-300-100's study and that of its codebooks, and
    from the smallest files of LeNet-5."""
    arms = {arm.label: arm for arm in lenet.arms if arm.runs}
    whole, twelfth, fewest = arms["dense"], arms["SDNN-12x"], arms["SDNN-56x"]
    counts = sorted({len(arm.runs) for arm in (whole, twelfth, fewest)})
    seeds = str(counts[0]) if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    sizes = [table.kilobytes(arm, files) for arm in (whole, twelfth, fewest)]
    small = next((a for a in few_bits.arms if a.label == "SDNN-56x, codebook4" and a.runs), None)
    said = [
        "Skinny removes most of a network's weights while it trains; what that costs is measured "
        "here on test images.",
        "LeNet-300-100, the network that most papers on pruning report, has "
        f"{table.error(whole):.2f} % errors on MNIST when it is dense, "
        f"{table.error(twelfth):.2f} % with 12 times and {table.error(fewest):.2f} % with 56 times "
        f"fewer weights (means over {seeds} seeds, {whole.config.epochs} epochs each).",
        f"Its file shrinks from {sizes[0]:,.0f} kB to {sizes[1]:.0f} and {sizes[2]:.0f} kB"
        + (
            f", and to {table.kilobytes(small, files):.1f} kB at {table.error(small):.2f} % where "
            "the weights of a layer are trained to share 16 values (56 times fewer weights, "
            f"{small.config.epochs} epochs, n = {len(small.runs)})"
            if small
            else ""
        )
        + _least(smallest, files)
        + ".",
        *_milliseconds(whole, twelfth, fewest, times),
        _verdict(lenet),
    ]
    return " ".join(said)


def _least(study: Study, files: Files) -> str:
    """What the longest training has within the size of entropy-penalised networks."""
    arm = table.those_in(study.arms[-1], files)
    point = table.point(arm, files, "smallest")
    if point is None:
        return ""
    size, error = point
    n = len(arm.runs)
    return (
        f"; a LeNet-5 for the same images fits into {size:.1f} kB at {error:.2f} % errors (n = "
        f"{n}; entropy-penalised networks, 2020: 2.8 kB at 1.0 %)"
    )


def _milliseconds(whole: Result, twelfth: Result, fewest: Result, times: Times) -> list[str]:
    found = [table.milliseconds(arm, times) for arm in (whole, twelfth, fewest)]
    if any(ms is None for ms in found):
        return []
    dense, *skinny = (ms for ms in found if ms is not None)
    engine, fastest = min((dense[key], name) for key, name in table.ENGINES.items())[::-1]
    return [
        f"One image takes {skinny[0]['skinny']:.3f} and {skinny[1]['skinny']:.3f} ms on one core; "
        f"the dense network takes {dense['skinny']:.3f} ms, and {fastest:.3f} ms in {engine}, the "
        "fastest of three other engines."
    ]


def _verdict(lenet: Study) -> str:
    rows = {row.arm.label: row for row in compare(lenet, margin=0.2)}
    better = [label for label, row in rows.items() if row.verdict == "better"]
    worse = [label for label, row in rows.items() if row.verdict == "worse"]
    skinny = [label for label in better if label.startswith("SDNN")]
    first = (
        f"Of LeNet-300-100's, significantly better than dense: {', '.join(skinny)}"
        if skinny
        else "Of LeNet-300-100's skinny networks none is significantly better than the dense one"
    )
    return (
        f"{first}; significantly worse: {', '.join(worse) or 'none'}; the tables show "
        "published results beside ours, what else was tried, and where the method loses."
    )
