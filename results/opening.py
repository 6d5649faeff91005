"""The beginning of docs/results.md: one picture and five sentences, computed from the records."""

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

import files_table as table
from files_table import Files, Times

from skinny.experiments.report.drawing import Drawing
from skinny.experiments.report.palette import LIGHT, SERIES
from skinny.experiments.study import Result, Study

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_PLACES = {  # offset, alignment
    "right": ((5, -3), "left"),
    "above": ((0, 9), "center"),
    "below": ((2, -11), "left"),
    "left": ((-5, -4), "right"),
    "above left": ((-4, 5), "right"),
    "under": ((3, -11), "center"),
}
_CROSSES = {  # where names of published files stand; those without one stand on the right
    "entropy-penalised 2020, quantised, 8.56 kB": "below",
    "Deep Compression 2016, quantised, 44 kB": "above",
    "Weightless 2018, quantised, 4.52 kB": "left",
    "entropy-penalised 2020, quantised, 2.84 kB": "above left",
    "Bayesian Compression 2017, quantised, 2.3 kB": "under",
}
_BELOW = {("LeNet-5", "SDNN-108x")}  # whose labels would stand on a cross
_UNNAMED = {"SDNN-20x", "SDNN-100x"}  # whose labels would stand on their neighbours'
_STEEP = 0.95
CAPTION = """\
Test errors of LeNets on MNIST against the size of the packed file, which shrinks to the right: \
the lower and the further right, the better. Means over seeds. Labels at circles say how many \
times fewer weights there are and how long an image takes on one core. Squares: rounded to 16 \
values a layer after training. Diamonds: trained with 8 or 16 values a layer, the small ones three \
times as long. Crosses: published results."""


def picture(
    studies: Mapping[str, Study],
    books: Mapping[str, Study],
    longer: Mapping[str, Study],
    files: Files,
    times: Times,
) -> Drawing:
    """{network: its study}: test error against the size of the file, dense and skinny. books: the
    studies of the same networks with trained codebooks; longer: those with more epochs."""

    def paint(axes: "Axes") -> None:
        for (network, study), colour in zip(studies.items(), SERIES, strict=False):
            _draw(axes, network, study, files, times, colour)
            few = [*_few_bits(books[network], files)]
            axes.plot([x for x, _ in few], [y for _, y in few], "D", ms=4.5, color=colour,
                      label=f"{network}, trained with 3 or 4 bits")  # fmt: skip
            exact = [arm for arm in longer[network].arms if arm.runs and ", " not in arm.label]
            long = [(table.kilobytes(arm, files), table.error(arm)) for arm in exact
                    if arm.config.method == "sdnn"]  # fmt: skip
            axes.plot([x for x, _ in long], [y for _, y in long], "--o", lw=1, ms=3, color=colour)
            few = [*_few_bits(longer[network], files)]
            axes.plot([x for x, _ in few], [y for _, y in few], "D", ms=2.5, color=colour)
            for row in study.cited:
                if row.kilobytes is None:
                    continue
                offset, align = _PLACES[_CROSSES.get(row.model, "right")]
                point = (row.kilobytes, row.error)
                axes.plot(*point, "x", color=colour)
                axes.annotate(
                    row.model.split(" 20")[0], point, xytext=offset, textcoords="offset points",
                    ha=align, fontsize=7, color=LIGHT["dense"],
                )  # fmt: skip
        for marks, label in (("--o", "trained three times as long"), ("x", "published")):
            axes.plot([], [], marks, lw=1, ms=3 if "o" in marks else 6, color=LIGHT["dense"],
                      label=label)  # fmt: skip
        axes.set_xscale("log")
        axes.set_xlim(2900, 0.75)  # from large to small
        axes.set_ylim(0, max(2.4, 0.3 + max(axes.dataLim.y1, 0)))
        axes.set_xticks(
            [1000, 300, 100, 30, 10, 3, 1], ["1,000", "300", "100", "30", "10", "3", "1"]
        )
        axes.minorticks_off()
        axes.set_xlabel("size of the file, kB")
        axes.set_ylabel("wrong on MNIST's test images, %")
        figure = axes.get_figure()
        assert figure is not None
        handles, _ = axes.get_legend_handles_labels()
        half = (len(handles) - 2) // 2  # a column for each network, and one of the last two below
        ordered = [*handles[:half], handles[-2], *handles[half:-2], handles[-1]]
        figure.legend(handles=ordered, loc="outside lower center", ncols=2)

    return Drawing(
        "opening",
        "Errors and sizes of dense and skinny networks",
        CAPTION,
        paint,
        size=(6.6, 4.2),
    )


def _draw(
    axes: "Axes", network: str, study: Study, files: Files, times: Times, colour: str
) -> None:
    """A network's line, with names at its points, and the same rounded after training."""
    # variants of an arm, which have a comma in their label, are in the tables only
    arms = [arm for arm in study.arms if arm.runs and ", " not in arm.label]
    exact = sorted(((table.kilobytes(a, files), table.error(a), a) for a in arms), key=_size)
    axes.plot([x for x, _, _ in exact], [y for _, y, _ in exact], "-o", color=colour, label=network)
    for x, y, arm in exact:
        if arm.label in _UNNAMED:
            continue
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
        axes.plot([x for x, _ in rounded], [y for _, y in rounded], "s", ms=4, mfc="none",
                  color=colour, label=f"{network}, rounded to 4 bits")  # fmt: skip


def _rounded(arms: Iterable[Result], files: Files) -> Iterator[tuple[float, float]]:
    for arm in arms:
        rounded, exact = (table.point(arm, files, way) for way in ("codebook4", "exact"))
        if rounded is not None and exact is not None:  # not all seeds have been packed
            yield rounded[0], table.error(arm) + rounded[1] - exact[1]


def _few_bits(study: Study, files: Files) -> Iterator[tuple[float, float]]:
    for arm in study.arms:
        if arm.runs and arm.config.quantize is not None:
            smallest = table.point(arm, files, "smallest")
            yield smallest or (table.kilobytes(arm, files), table.error(arm))


def _size(point: tuple[float, float, Result]) -> float:
    return point[0]


def _name(arm: Result, times: Times, comma: str) -> str:
    taken = table.milliseconds(arm, times)
    return table.short(arm) + (f"{comma}{1000 * taken['skinny']:.0f} µs" if taken else "")


def sentences(
    lenet: Study, longest: Study, files: Files, times: Times, machine: str, lost: str
) -> str:
    """Five sentences that a newcomer should take away: four from LeNet-300-100's study and the one
    of most epochs, which has its codebook, and what is `lost`. machine: on which
    the times were measured."""
    arms = {arm.label: arm for arm in lenet.arms if arm.runs}
    three = tuple(arms[label] for label in ("dense", "SDNN-12x", "SDNN-56x"))
    whole, twelfth, fewest = three
    counts = sorted({len(arm.runs) for arm in three})
    seeds = str(counts[0]) if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    sizes = [table.kilobytes(arm, files) for arm in three]
    small = next((a for a in longest.arms if a.label == "SDNN-56x, codebook4" and a.runs), None)
    least = (
        f", and to {table.kilobytes(small, files):.1f} kB, at {table.error(small):.2f} %, with "
        f"{small.config.epochs} epochs and only 16 different values in each layer"
        if small
        else ""
    )
    said = [
        "Skinny trains a neural network so that most of its weights end as zero, stores the others "
        "in a small file, and runs that file on an ordinary CPU.",
        "LeNet-300-100, which reads handwritten digits (MNIST), gets "
        f"{table.error(whole):.2f} % of the test images wrong with all of its "
        f"{whole.runs[0].size:,} weights, {table.error(twelfth):.2f} % with a twelfth of them, and "
        f"{table.error(fewest):.2f} % with a 56th (means of {seeds} trainings of "
        f"{whole.config.epochs} epochs).",
        f"Its file shrinks from {sizes[0]:,.0f} kB to {sizes[1]:.0f} and {sizes[2]:.0f} kB{least}.",
        *_milliseconds(three, times, machine),
        lost,
    ]
    return " ".join(said)


def _milliseconds(arms: Iterable[Result], times: Times, machine: str) -> list[str]:
    found = [table.milliseconds(arm, times) for arm in arms]
    if any(ms is None for ms in found):
        return []
    dense, *skinny = ([1000 * ms[key] for key in ("skinny", *table.ENGINES)] for ms in found if ms)
    fastest, engine = min(zip(dense[1:], table.ENGINES.values(), strict=True))
    return [
        f"One image takes {skinny[0][0]:.0f} and {skinny[1][0]:.0f} µs on one core, where the "
        f"dense network takes {dense[0]:.0f} µs, and {fastest:.0f} µs in {engine}, the fastest of "
        f"three other engines ({machine})."
    ]
