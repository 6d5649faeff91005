"""When to threshold, and how sparse: every method is a list of spans.

A span is a stretch of training in one phase. A sparse span begins with a mask update; a dense span
that follows a sparse one begins with a restoration. A sparse span that follows another prunes
further and restores nothing. Lengths are whole epochs or whole optimizer steps.
"""

import math
from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Literal

from skinny.errors import SkinnyError
from skinny.iht.budget import check_sparsity
from skinny.printable import aligned

Unit = Literal["epoch", "step"]

# The default spans of `sdnn` as shares of the total: three cycles, dense to sparse as 1 to 4, and
# what is left of the total prolongs the last sparse span (to a third of the training).
_SDNN_DENSE, _SDNN_SPARSE = 0.06, 0.24

_SHOWN = 24  # rows of the printed table before the middle is left out


@dataclass(frozen=True)
class Span:
    """[start, start + length) in one phase; sparsity 0 means dense."""

    start: int
    length: int
    sparsity: float

    @property
    def end(self) -> int:
        return self.start + self.length

    @property
    def phase(self) -> Literal["dense", "sparse"]:
        return "sparse" if self.sparsity else "dense"


@dataclass(frozen=True)
class Timeline:
    """The spans of a training, first to last and without gaps."""

    name: str
    unit: Unit
    spans: tuple[Span, ...]

    def __post_init__(self) -> None:
        if self.unit not in ("epoch", "step"):
            raise SkinnyError(f"a timeline counts in 'epoch' or 'step', not in {self.unit!r}")
        if not self.spans:
            raise SkinnyError(f"the timeline {self.name!r} has no span")
        expected = 0
        for span in self.spans:
            check_sparsity(span.sparsity)
            if span.start != expected or span.length < 1:
                raise SkinnyError(
                    f"the timeline {self.name!r} has a gap, an overlap or an empty span at {span}"
                )
            expected = span.end

    @property
    def total(self) -> int:
        return self.spans[-1].end

    @property
    def target(self) -> float:
        """The sparsity aimed at: the largest of all spans."""
        return max(span.sparsity for span in self.spans)

    @property
    def ends_sparse(self) -> bool:
        return self.spans[-1].sparsity > 0

    def index(self, position: int) -> int:
        """Which span holds `position`; past the end, the last one goes on."""
        return bisect_right(self.spans, position, key=lambda span: span.start) - 1

    def __str__(self) -> str:
        """A table to read before the run starts."""
        rows: list[tuple[str, str, str]] = [
            (
                f"{span.start + 1}-{span.end}" if span.length > 1 else f"{span.end}",
                span.phase,
                f"{span.sparsity:.1%}" if span.sparsity else "-",
            )
            for span in self.spans
        ]
        if len(rows) > _SHOWN:
            half = _SHOWN // 2
            hidden = len(rows) - 2 * half
            rows = [*rows[:half], (f"({hidden} more)", "...", "..."), *rows[-half:]]
        end = f"ends sparse at {self.spans[-1].sparsity:.1%}" if self.ends_sparse else "ends dense"
        plural = "" if self.total == 1 else "s"
        head = (self.unit + "s", "phase", "sparsity")
        lines = aligned([head, *rows], words=3)
        return "\n".join([f"{self.name}: {self.total} {self.unit}{plural}, {end}", *lines])


def sdnn(
    *,
    epochs: int | None = None,
    steps: int | None = None,
    sparsity: float,
    dense: int | None = None,
    sparse: int | None = None,
    r0: float | None = None,
) -> Timeline:
    """The paper's Algorithm 1: dense (s1), sparse (s2), dense, sparse, ..., ending sparse.

    Progressive: the mask update at t asks for r(t) = r0 + t (rT - r0) / T with rT = `sparsity` and
    T the total; r0 is `default_r0` unless given, and r0 = sparsity means direct thresholding.
    Spans are 6 % (dense) and 24 % (sparse) of the total unless given; the paper has 15 and 150
    epochs. The last sparse span has the target sparsity and takes the rest of the training.
    Sparsity 0 is plain training.
    """
    unit, total = _length("sdnn", epochs, steps)
    check_sparsity(sparsity)
    if sparsity == 0:
        return _timeline("sdnn", unit, [(total, 0.0)])
    dense = _share(total, _SDNN_DENSE) if dense is None else dense
    sparse = _share(total, _SDNN_SPARSE) if sparse is None else sparse
    _positive(dense=dense, sparse=sparse)
    r0 = default_r0(sparsity) if r0 is None else check_sparsity(r0, "r0")
    if r0 > sparsity:
        raise SkinnyError(
            f"r0 is {r0}, above the sparsity aimed at ({sparsity}); give an r0 of at most that"
        )
    cycles = total // (dense + sparse)
    if cycles == 0:
        raise SkinnyError(
            f"{_are(total, unit)} too short for one cycle of {dense} dense and {sparse} sparse: "
            f"give at least {dense + sparse} {unit}s, or shorten the spans"
        )
    pieces: list[tuple[int, float]] = []
    for cycle in range(cycles - 1):
        t = cycle * (dense + sparse) + dense
        pieces += [(dense, 0.0), (sparse, r0 + t * (sparsity - r0) / total)]
    done = (cycles - 1) * (dense + sparse)
    pieces += [(dense, 0.0), (total - done - dense, sparsity)]
    return _timeline("sdnn", unit, pieces)


def default_r0(sparsity: float) -> float:
    """Where `sdnn` sets out: 50 %, or the target if that is lower; 1 - sqrt(1 - rT) above 75 %.

    Then going from all weights to r0 and from r0 to the target keep the same share of what they
    find. From 50 % nearly all would be left to the last mask update, with little training after it.
    """
    return max(min(0.5, sparsity), 1 - math.sqrt(1 - check_sparsity(sparsity)))


def acdc(
    *,
    epochs: int | None = None,
    steps: int | None = None,
    sparsity: float,
    warmup: int | None = None,
    phase: int | None = None,
    final_dense: int | None = None,
    final_sparse: int | None = None,
) -> Timeline:
    """AC/DC (Peste et al. 2021): equal sparse and dense phases at the full target sparsity.

    Its ImageNet schedule by default: a tenth of the total dense, alternating twentieths (sparse
    first), a tenth dense, the last 15 % sparse. What is left over goes to the final sparse span.
    """
    unit, total = _length("acdc", epochs, steps)
    _sparse_target("acdc", sparsity)
    warmup = _share(total, 0.10) if warmup is None else warmup
    phase = _share(total, 0.05) if phase is None else phase
    final_dense = _share(total, 0.10) if final_dense is None else final_dense
    final_sparse = _share(total, 0.15) if final_sparse is None else final_sparse
    _positive(warmup=warmup, phase=phase, final_dense=final_dense, final_sparse=final_sparse)
    middle = total - warmup - final_dense - final_sparse
    if middle < phase:
        raise SkinnyError(
            f"{_are(total, unit)} too short for acdc: warm-up {warmup}, a phase of {phase}, final "
            f"dense {final_dense} and final sparse {final_sparse} add up to more"
        )
    pieces = [(warmup, 0.0)]
    pieces += [(phase, 0.0 if i % 2 else sparsity) for i in range(middle // phase)]
    pieces += [(final_dense, 0.0), (final_sparse + middle % phase, sparsity)]
    return _timeline("acdc", unit, pieces)


def dsd(
    *,
    epochs: int | None = None,
    steps: int | None = None,
    sparsity: float,
    dense: int | None = None,
    sparse: int | None = None,
) -> Timeline:
    """Dense-sparse-dense (Han et al. 2017): a third each unless given. Ends dense: no budget."""
    unit, total = _length("dsd", epochs, steps)
    _sparse_target("dsd", sparsity)
    dense = _share(total, 1 / 3) if dense is None else dense
    sparse = _share(total, 1 / 3) if sparse is None else sparse
    _positive(dense=dense, sparse=sparse)
    if total <= dense + sparse:
        raise SkinnyError(
            f"{_are(total, unit)} too short for dsd: {dense} dense and {sparse} sparse "
            "leave nothing for the last dense span"
        )
    return _timeline("dsd", unit, [(dense, 0.0), (sparse, sparsity), (total - dense - sparse, 0.0)])


def gradual(
    *,
    epochs: int | None = None,
    steps: int | None = None,
    sparsity: float,
    start: int | None = None,
    end: int | None = None,
    every: int | None = None,
) -> Timeline:
    """Gradual magnitude pruning (Zhu & Gupta 2017): ever sparser, and nothing is restored.

    s(t) = sparsity * (1 - (1 - (t - start) / (end - start))^3), thresholded every `every` units
    after `start` and last at `end`; then fine-tuning. By default from 20 % to 70 % of the total, in
    ten mask updates or as many as fit.
    """
    unit, total = _length("gradual", epochs, steps)
    _sparse_target("gradual", sparsity)
    start = _share(total, 0.2) if start is None else start
    end = max(start + 1, _share(total, 0.7)) if end is None else end
    every = max(1, (end - start) // 10) if every is None else every
    _positive(start=start, every=every)
    if not start < end < total:
        raise SkinnyError(
            f"gradual needs start < end < total, but got start {start}, end {end} "
            f"and {total} {unit}s"
        )
    at = [*range(start + every, end, every), end]
    levels = [sparsity * (1 - (1 - (t - start) / (end - start)) ** 3) for t in at[:-1]]
    edges = [0, *at, total]
    return _timeline(
        "gradual",
        unit,
        zip([b - a for a, b in pairwise(edges)], [0.0, *levels, sparsity], strict=True),
    )


def oneshot(
    *,
    epochs: int | None = None,
    steps: int | None = None,
    sparsity: float,
    dense: int | None = None,
) -> Timeline:
    """Train, prune once, fine-tune (Han et al. 2015). Half the total is dense unless given; none
    (dense=0) for a network that is trained, or pruned, already."""
    unit, total = _length("oneshot", epochs, steps)
    _sparse_target("oneshot", sparsity)
    dense = _share(total, 0.5) if dense is None else dense
    if dense != 0:
        _positive(dense=dense)
    if total <= dense:
        raise SkinnyError(
            f"{_are(total, unit)} too short for oneshot: {dense} dense leave no sparse span"
        )
    pieces = [(dense, 0.0), (total - dense, sparsity)]
    return _timeline("oneshot", unit, pieces if dense else pieces[1:])


def iterative(
    *,
    epochs: int | None = None,
    steps: int | None = None,
    sparsity: float,
    dense: int | None = None,
    sparse: int | None = None,
) -> Timeline:
    """Train, then prune a little more and retrain, five times (Han et al. 2015).

    Nothing is restored. Of R rounds, the i-th leaves (1 - sparsity)^(i / R) of the weights, so
    that each removes the same share of what is left. A round has the length `sparse`, but for the
    last, which has the rest of the training. By default 30 % of the total is dense and a round has
    10 %, so that 30 % are left for the last; where five rounds do not fit, there are fewer.
    """
    unit, total = _length("iterative", epochs, steps)
    _sparse_target("iterative", sparsity)
    dense = _share(total, 0.3) if dense is None else dense
    sparse = _share(total, 0.1) if sparse is None else sparse
    _positive(dense=dense, sparse=sparse)
    rounds = min(5, (total - dense) // sparse)
    if rounds < 1:
        raise SkinnyError(
            f"{_are(total, unit)} too short for iterative: {dense} dense leave no round of {sparse}"
        )
    lengths = [sparse] * (rounds - 1) + [total - dense - sparse * (rounds - 1)]
    levels = [1 - (1 - sparsity) ** (i / rounds) for i in range(1, rounds)]
    return _timeline(
        "iterative", unit, [(dense, 0.0), *zip(lengths, [*levels, sparsity], strict=True)]
    )


def dense(*, epochs: int | None = None, steps: int | None = None) -> Timeline:
    """Plain training: one dense span."""
    unit, total = _length("dense", epochs, steps)
    return _timeline("dense", unit, [(total, 0.0)])


def _timeline(name: str, unit: Unit, pieces: Iterable[tuple[int, float]]) -> Timeline:
    """Spans from (length, sparsity); neighbouring dense ones become one span."""
    merged: list[tuple[int, float]] = []
    for length, sparsity in pieces:
        if merged and sparsity == 0 == merged[-1][1]:
            length += merged.pop()[0]
        merged.append((length, sparsity))
    starts = accumulate((length for length, _ in merged), initial=0)
    spans = (Span(start, *piece) for start, piece in zip(starts, merged, strict=False))
    return Timeline(name, unit, tuple(spans))


def _length(name: str, epochs: int | None, steps: int | None) -> tuple[Unit, int]:
    if (epochs is None) == (steps is None):
        raise SkinnyError(f"{name} takes either epochs or steps, and exactly one of them")
    unit: Unit = "epoch" if steps is None else "step"
    total = epochs if steps is None else steps
    if not isinstance(total, int) or total < 1:
        raise SkinnyError(f"{name} needs a whole number of {unit}s, at least 1; got {total!r}")
    return unit, total


def _share(total: int, fraction: float) -> int:
    return max(1, round(total * fraction))


def _are(total: int, unit: str) -> str:
    return f"1 {unit} is" if total == 1 else f"{total} {unit}s are"


def _positive(**lengths: int) -> None:
    for name, length in lengths.items():
        if not isinstance(length, int) or length < 1:
            raise SkinnyError(f"{name} must be a whole number, at least 1; got {length!r}")


def _sparse_target(name: str, sparsity: float) -> None:
    if check_sparsity(sparsity) == 0:
        raise SkinnyError(f"{name} needs a sparsity above 0; for plain training use `dense`")
