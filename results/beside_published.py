"""One table: published results on the LeNets, and ours at the same compression or file size."""

from collections.abc import Sequence
from typing import NamedTuple

import files_table
from files_table import Files
from loading import titled

from skinny.experiments.published import Cited
from skinny.experiments.statistics import Summary, summarise
from skinny.experiments.study import Result, Study


class Rival(NamedTuple):
    """A published row (the name of its `Cited`), and the arms of ours that stand beside it: the
    ends of their studies' titles, and their labels. dense: the name of its dense network's row, if
    that is known."""

    network: str
    cited: str
    ours: tuple[tuple[str, str], ...]
    dense: str | None = None


_MLP, _CONV = "LeNet-300-100", "LeNet-5"
_LONG = f"{_MLP}, 90 epochs"
_HAN, _DNS = "dense, Han et al. 2015", "dense, Dynamic Network Surgery 2016"
_SNIP, _MOMENTUM = "dense, SNIP 2019", "dense, Sparse Momentum 2019"
_ENTROPY, _MIRACLE = "dense, entropy-penalised 2020", "dense, MIRACLE 2019"
_SMALLEST = f"{_CONV}, smallest in 63 epochs"
_280X = ((_CONV, "SDNN-280x"), (_SMALLEST, "SDNN-280x"))
_320X = ((_SMALLEST, "SDNN-320x, codebook4"),)


def _in_both(label: str) -> tuple[tuple[str, str], ...]:
    """LeNet-300-100 in 30 epochs and in 90."""
    return ((_MLP, label), (_LONG, label))


RIVALS = (
    Rival(_MLP, "Han et al. 2015, 12x", ((_MLP, "SDNN-12x"),), _HAN),
    Rival(_MLP, "Sparse Momentum 2019, 8.3 %", ((_MLP, "SDNN-12x"),), _MOMENTUM),
    Rival(_MLP, "SNIP 2019, 5 %", ((_MLP, "SDNN-20x"),), _SNIP),
    Rival(_MLP, "Sparse Momentum 2019, 5 %", ((_MLP, "SDNN-20x"),), _MOMENTUM),
    Rival(_MLP, "SNIP 2019, 2 %", _in_both("SDNN-56x"), _SNIP),
    Rival(_MLP, "Sparse Momentum 2019, 1.8 %", _in_both("SDNN-56x"), _MOMENTUM),
    Rival(_MLP, "Dynamic Network Surgery 2016, 56x", _in_both("SDNN-56x"), _DNS),
    Rival(_MLP, "Sparse Momentum 2019, 1.5 %", _in_both("SDNN-68x"), _MOMENTUM),
    Rival(_MLP, "Sparse VD 2017, 68x", _in_both("SDNN-68x")),
    Rival(_MLP, "Sparse Momentum 2019, 1 %", _in_both("SDNN-100x"), _MOMENTUM),
    Rival(_CONV, "Han et al. 2015, 12x", ((_CONV, "SDNN-12x"),), _HAN),
    Rival(_CONV, "Sparse Momentum 2019, 9.3 %", ((_CONV, "SDNN-12x"),), _MOMENTUM),
    Rival(_CONV, "Sparse Momentum 2019, 5 %", ((_CONV, "SDNN-20x"),), _MOMENTUM),
    Rival(_CONV, "SNIP 2019, 2 %", ((_CONV, "SDNN-100x"),), _SNIP),
    Rival(_CONV, "Sparse Momentum 2019, 2 %", ((_CONV, "SDNN-100x"),), _MOMENTUM),
    Rival(_CONV, "SNIP 2019, 1 %", ((_CONV, "SDNN-100x"),), _SNIP),
    Rival(_CONV, "Sparse Momentum 2019, 1 %", ((_CONV, "SDNN-100x"),), _MOMENTUM),
    Rival(_CONV, "Dynamic Network Surgery 2016, 108x", ((_CONV, "SDNN-108x"),), _DNS),
    Rival(_CONV, "Sparse Momentum 2019, 0.5 %", _280X, _MOMENTUM),
    Rival(_CONV, "Sparse Momentum 2019, 0.4 %", _280X, _MOMENTUM),
    Rival(_CONV, "Sparse VD 2017, 280x", _280X),
    Rival(
        _MLP,
        "Deep Compression 2016, quantised, 27 kB",
        ((f"{_MLP}, codebooks", "SDNN-12x, codebook4"),),
        _HAN,
    ),
    Rival(
        _MLP,
        "entropy-penalised 2020, quantised, 8.56 kB",
        ((f"{_MLP}, codebooks", "SDNN-56x, codebook4"), (_LONG, "SDNN-56x, codebook4")),
        _ENTROPY,
    ),
    Rival(
        _CONV,
        "Deep Compression 2016, quantised, 44 kB",
        ((f"{_CONV}, codebooks", "SDNN-12x, codebook4"),),
        _HAN,
    ),
    Rival(_CONV, "Weightless 2018, quantised, 4.52 kB", _320X),
    Rival(_CONV, "MIRACLE 2019, random codes, 3.03 kB", _320X, _MIRACLE),
    Rival(_CONV, "entropy-penalised 2020, quantised, 2.84 kB", _320X, _ENTROPY),
    Rival(_CONV, "Bayesian Compression 2017, quantised, 2.3 kB", _320X),
    Rival(_CONV, "MIRACLE 2019, random codes, 1.52 kB", _320X, _MIRACLE),
)
_HEAD = (
    *("network", "published", "error (dense), %", "Skinny", "error (dense), %"),
    *("95 % interval", "n", "epochs", "lower error"),
)


def table(studies: Sequence[Study], files: Files) -> str:
    """studies: those of the experiment `lenet`. Arms that have no run are left out."""
    rows = [_HEAD, ("---", "---", "---:", "---", "---:", "---:", "---:", "---:", "---")]
    for rival in RIVALS:
        printed = {row.model: row for row in titled(studies, rival.network).cited}
        theirs = printed[rival.cited]
        dense = f"{printed[rival.dense].error:.2f}" if rival.dense else "–"
        for title, label in rival.ours:
            study = titled(studies, title)
            arm = next(arm for arm in study.arms if arm.label == label)
            if arm.runs:
                name, errors, fits = _ours(arm, files, theirs.kilobytes)
                rows.append(
                    (
                        *(rival.network, rival.cited, f"{_printed(theirs)} ({dense})", name),
                        *_cells(errors, _dense(study)),
                        *(str(errors.n), str(arm.config.epochs)),
                        _lower(errors, theirs) + ("" if fits else "; published in fewer bytes"),
                    )
                )
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _ours(arm: Result, files: Files, limit: float | None) -> tuple[str, Summary, bool]:
    """The arm's name, its errors, and whether its files are within a limit (kB), if there is one:
    those as trained, or else the smallest that they were packed into."""
    errors = [100 - value for value in arm.values("top1").values()]
    if limit is None:
        return arm.label, summarise(errors), True
    size = files_table.kilobytes(arm, files)
    if size > limit:
        entries = files_table.entries(arm, files, "smallest")
        errors = [entry["error"] for entry in entries]
        size = sum(entry["bytes"] for entry in entries) / len(entries) / 1000
    return f"{arm.label}, {size:.2f} kB", summarise(errors), size <= limit


def _printed(theirs: Cited) -> str:
    return f"{theirs.error:.2f}" + (f" ± {theirs.se:.2f}" if theirs.se else "")


def _dense(study: Study) -> str:
    dense = next((arm for arm in study.arms if arm.label == "dense" and arm.runs), None)
    return "–" if dense is None else f"{files_table.error(dense):.2f}"


def _cells(errors: Summary, dense: str) -> tuple[str, str]:
    return f"{errors.mean:.2f} ({dense})", f"{errors.low:.2f} to {errors.high:.2f}"


def _lower(ours: Summary, theirs: Cited) -> str:
    """Whose error is lower, if our interval and theirs, of two standard errors, are apart."""
    reach = 2 * (theirs.se or 0.0)
    if theirs.error + reach < ours.low:
        return "published"
    return "Skinny" if ours.high < theirs.error - reach else "not told apart"
