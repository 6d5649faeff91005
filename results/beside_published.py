"""One table: published results on the LeNets, and ours at the same compression or file size."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import files_table
from files_table import Files

from skinny.experiments.study import Result, Study


class Rival(NamedTuple):
    """A published row (the name of its `Cited`), and the arms of ours that stand beside it: the
    ends of their studies' titles, and their labels. kB: its file's size, for rows about size."""

    network: str
    cited: str
    ours: tuple[tuple[str, str], ...]
    kilobytes: float | None = None


RIVALS = (
    Rival("LeNet-300-100", "Han et al. 2015, 12x", (("LeNet-300-100", "SDNN-12x"),)),
    Rival("LeNet-300-100", "Sparse Momentum 2019, 5 %", (("LeNet-300-100", "SDNN-20x"),)),
    Rival(
        "LeNet-300-100",
        "Dynamic Network Surgery 2016, 56x",
        (("LeNet-300-100", "SDNN-56x"), ("LeNet-300-100, 90 epochs", "SDNN-56x")),
    ),
    Rival(
        "LeNet-300-100",
        "Sparse VD 2017, 68x",
        (("LeNet-300-100", "SDNN-68x"), ("LeNet-300-100, 90 epochs", "SDNN-68x")),
    ),
    Rival(
        "LeNet-300-100",
        "Sparse Momentum 2019, 1 %",
        (("LeNet-300-100", "SDNN-100x"), ("LeNet-300-100, 90 epochs", "SDNN-100x")),
    ),
    Rival("LeNet-5", "Han et al. 2015, 12x", (("LeNet-5", "SDNN-12x"),)),
    Rival("LeNet-5", "Sparse Momentum 2019, 5 %", (("LeNet-5", "SDNN-20x"),)),
    Rival("LeNet-5", "Sparse Momentum 2019, 1 %", (("LeNet-5", "SDNN-100x"),)),
    Rival("LeNet-5", "Dynamic Network Surgery 2016, 108x", (("LeNet-5", "SDNN-108x"),)),
    Rival(
        "LeNet-5",
        "Sparse VD 2017, 280x",
        (("LeNet-5", "SDNN-280x"), ("LeNet-5, smallest in 63 epochs", "SDNN-280x")),
    ),
    Rival(
        "LeNet-300-100",
        "Deep Compression 2016, quantised, 27 kB",
        (("LeNet-300-100, codebooks", "SDNN-12x, codebook4"),),
        27.0,
    ),
    Rival(
        "LeNet-300-100",
        "entropy-penalised 2020, quantised, 8.6 kB",
        (
            ("LeNet-300-100, codebooks", "SDNN-56x, codebook4"),
            ("LeNet-300-100, 90 epochs", "SDNN-56x, codebook4"),
        ),
        8.6,
    ),
    Rival(
        "LeNet-5",
        "Deep Compression 2016, quantised, 44 kB",
        (("LeNet-5, codebooks", "SDNN-12x, codebook4"),),
        44.0,
    ),
    Rival(
        "LeNet-5",
        "entropy-penalised 2020, quantised, 2.8 kB",
        (("LeNet-5, smallest in 63 epochs", "SDNN-320x, codebook4"),),
        2.8,
    ),
)


def table(studies: Sequence[Study], files: Files) -> str:
    """studies: those of the experiment `lenet`. Arms that have no run are left out."""
    head = ["network", "published", "error, %", "Skinny", "error, %", "n", "epochs", "lower error"]
    rows = [head, ["---", "---", "---:", "---", "---:", "---:", "---:", "---"]]
    for rival in RIVALS:
        cited = next(c for c in _study(studies, rival.network).cited if c.model == rival.cited)
        for title, label in rival.ours:
            arm = next(arm for arm in _study(studies, title).arms if arm.label == label)
            if arm.runs:
                ours = _ours(arm, files, rival.kilobytes)
                rows.append([rival.network, rival.cited, f"{cited.error:.2f}", *ours])
                rows[-1].append(_fewer(float(ours[1]), cited.error))
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _ours(arm: Result, files: Files, limit: float | None) -> list[str]:
    label, epochs = arm.label, str(arm.config.epochs)
    if limit is None:
        return [label, f"{files_table.error(arm):.2f}", str(len(arm.runs)), epochs]
    size, error = files_table.kilobytes(arm, files), files_table.error(arm)
    if size > limit:  # then packed within the limit
        arm = files_table.those_in(arm, files)
        found = files_table.point(arm, files, "smallest")
        assert found is not None
        size, error = found
    return [f"{label}, {size:.1f} kB", f"{error:.2f}", str(len(arm.runs)), epochs]


def _fewer(ours: float, theirs: float) -> str:
    return "equal" if ours == theirs else "Skinny" if ours < theirs else "published"


def _study(studies: Iterable[Study], title: str) -> Study:
    return next(study for study in studies if study.title.split(", ", 1)[1] == title)
