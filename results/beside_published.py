"""One table: published results on the LeNets, and ours at the same compression or file size."""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import files_table
from files_table import Files
from loading import titled

from skinny.experiments.published import Cited
from skinny.experiments.statistics import Summary, summarise
from skinny.experiments.study import Result, Study


class Pair(NamedTuple):
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


def _plain(network: str, ratio: int) -> tuple[str, str]:
    """With the defaults of `skinny.IHT` in place of the settings that were searched for."""
    return f"{network}, defaults", f"SDNN-{ratio}x, defaults"


PAIRS = (
    Pair(_MLP, "Han et al. 2015, 12x", ((_MLP, "SDNN-12x"), _plain(_MLP, 12)), _HAN),
    Pair(_MLP, "Sparse Momentum 2019, 8.3 %", ((_MLP, "SDNN-12x"),), _MOMENTUM),
    Pair(_MLP, "SNIP 2019, 5 %", ((_MLP, "SDNN-20x"),), _SNIP),
    Pair(_MLP, "Sparse Momentum 2019, 5 %", ((_MLP, "SDNN-20x"),), _MOMENTUM),
    Pair(_MLP, "SNIP 2019, 2 %", _in_both("SDNN-56x"), _SNIP),
    Pair(_MLP, "Sparse Momentum 2019, 1.8 %", _in_both("SDNN-56x"), _MOMENTUM),
    Pair(
        _MLP,
        "Dynamic Network Surgery 2016, 56x",
        (*_in_both("SDNN-56x"), _plain(_MLP, 56)),
        _DNS,
    ),
    Pair(_MLP, "Sparse Momentum 2019, 1.5 %", _in_both("SDNN-68x"), _MOMENTUM),
    Pair(_MLP, "Sparse VD 2017, 68x", _in_both("SDNN-68x")),
    Pair(_MLP, "Sparse Momentum 2019, 1 %", _in_both("SDNN-100x"), _MOMENTUM),
    Pair(_CONV, "Han et al. 2015, 12x", ((_CONV, "SDNN-12x"), _plain(_CONV, 12)), _HAN),
    Pair(_CONV, "Sparse Momentum 2019, 9.3 %", ((_CONV, "SDNN-12x"),), _MOMENTUM),
    Pair(_CONV, "Sparse Momentum 2019, 5 %", ((_CONV, "SDNN-20x"),), _MOMENTUM),
    Pair(_CONV, "SNIP 2019, 2 %", ((_CONV, "SDNN-100x"),), _SNIP),
    Pair(_CONV, "Sparse Momentum 2019, 2 %", ((_CONV, "SDNN-100x"),), _MOMENTUM),
    Pair(_CONV, "SNIP 2019, 1 %", ((_CONV, "SDNN-100x"),), _SNIP),
    Pair(_CONV, "Sparse Momentum 2019, 1 %", ((_CONV, "SDNN-100x"),), _MOMENTUM),
    Pair(
        _CONV,
        "Dynamic Network Surgery 2016, 108x",
        ((_CONV, "SDNN-108x"), _plain(_CONV, 108)),
        _DNS,
    ),
    Pair(_CONV, "Sparse Momentum 2019, 0.5 %", _280X, _MOMENTUM),
    Pair(_CONV, "Sparse Momentum 2019, 0.4 %", _280X, _MOMENTUM),
    Pair(_CONV, "Sparse VD 2017, 280x", _280X),
    Pair(
        _MLP,
        "Deep Compression 2016, quantised, 27 kB",
        ((f"{_MLP}, codebooks", "SDNN-12x, codebook4"),),
        _HAN,
    ),
    Pair(
        _MLP,
        "entropy-penalised 2020, quantised, 8.56 kB",
        ((f"{_MLP}, codebooks", "SDNN-56x, codebook4"), (_LONG, "SDNN-56x, codebook4")),
        _ENTROPY,
    ),
    Pair(
        _CONV,
        "Deep Compression 2016, quantised, 44 kB",
        ((f"{_CONV}, codebooks", "SDNN-12x, codebook4"),),
        _HAN,
    ),
    Pair(_CONV, "Weightless 2018, quantised, 4.52 kB", _320X),
    Pair(_CONV, "MIRACLE 2019, random codes, 3.03 kB", _320X, _MIRACLE),
    Pair(_CONV, "entropy-penalised 2020, quantised, 2.84 kB", _320X, _ENTROPY),
    Pair(_CONV, "Bayesian Compression 2017, quantised, 2.3 kB", _320X),
    Pair(_CONV, "MIRACLE 2019, random codes, 1.52 kB", _320X, _MIRACLE),
)
_HEAD = (
    *("network", "published", "error (dense), %", "Skinny", "error (dense), %"),
    *("95 % interval", "n", "epochs", "lower error"),
)


class Beside(NamedTuple):
    """A published row, and an arm of ours."""

    pair: Pair
    theirs: Cited
    dense: str  # the error of their dense network
    name: str  # of ours
    errors: Summary
    our_dense: str
    epochs: int
    fits: bool  # is our file as small as theirs?

    @property
    def lower(self) -> str:
        return _lower(self.errors, self.theirs)

    @property
    def cells(self) -> tuple[str, ...]:
        errors = self.errors
        return (
            *(self.pair.network, self.pair.cited, f"{_printed(self.theirs)} ({self.dense})"),
            *(self.name, f"{errors.mean:.2f} ({self.our_dense})"),
            *(f"{errors.low:.2f} to {errors.high:.2f}", str(errors.n), str(self.epochs)),
            self.lower + ("" if self.fits else "; published in fewer bytes"),
        )


def rows(studies: Sequence[Study], files: Files) -> Iterator[Beside]:
    """studies: those of the experiment `lenet`. Arms that have no run are left out."""
    for pair in PAIRS:
        printed = {row.model: row for row in titled(studies, pair.network).cited}
        theirs = printed[pair.cited]
        dense = f"{printed[pair.dense].error:.2f}" if pair.dense else "–"
        for title, label in pair.ours:
            study = titled(studies, title)
            arm = next(arm for arm in study.arms if arm.label == label)
            if arm.runs:
                name, errors, fits = _ours(arm, files, theirs.kilobytes)
                yield Beside(
                    pair, theirs, dense, name, errors, _dense(study), arm.config.epochs, fits
                )


def table(found: Iterable[Beside]) -> str:
    ruler = ("---", "---", "---:", "---", "---:", "---:", "---:", "---:", "---")
    return "\n".join(f"| {' | '.join(row)} |" for row in (_HEAD, ruler, *(b.cells for b in found)))


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


def _lower(ours: Summary, theirs: Cited) -> str:
    """Whose error is lower, if our interval and theirs, of two standard errors, are apart."""
    reach = 2 * (theirs.se or 0.0)
    if theirs.error + reach < ours.low:
        return "published"
    return "Skinny" if ours.high < theirs.error - reach else "not told apart"
