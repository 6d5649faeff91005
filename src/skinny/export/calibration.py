"""The range of each layer's input, from batches that a network is given.

A range [low, high] has 256 steps. Values beyond it are clipped: the fewer of them, the coarser the
steps. low and high are the extremes over all batches times a factor t, the same for both: that of
1.00, 0.99, ... 0.30 that has the least squared error on a sample of the values (65,536 at most).
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from skinny.errors import SkinnyError
from skinny.graph import Graph, Node, specialize
from skinny.graph.ops.quantize import SMALLEST, centred
from skinny.graph.specialize import evaluate
from skinny.graph.values import Array, spec_of

Range = tuple[float, float]
_SAMPLE = 1 << 16  # values
_FACTORS = np.arange(100, 29, -1) / 100


class _Seen:
    """Extremes and a sample of a value, batch after batch."""

    def __init__(self) -> None:
        self.low = self.high = 0.0
        self._parts: list[Array] = []
        self._rng = np.random.default_rng(0)

    def add(self, values: Array, name: str) -> None:
        flat = values.reshape(-1)
        low, high = float(flat.min(initial=0)), float(flat.max(initial=0))
        if not np.isfinite([low, high]).all():
            raise SkinnyError(f"on the calibration data {name!r} is not finite")
        self.low, self.high = min(self.low, low), max(self.high, high)
        self._parts.append(flat[self._rng.integers(0, flat.size, min(flat.size, _SAMPLE))])

    def range(self) -> Range:
        if self.high - self.low < 256 * SMALLEST:
            return 0.0, 1.0
        values = np.concatenate(self._parts)
        if values.size > _SAMPLE:
            values = self._rng.choice(values, _SAMPLE, replace=False)
        errors = [_error(values, self.low * t, self.high * t) for t in _FACTORS]
        best = float(_FACTORS[int(np.argmin(errors))])
        return self.low * best, self.high * best


def _error(values: Array, low: float, high: float) -> float:
    scale, zero = step(low, high)
    rounded = centred(values, scale, zero) * np.float32(scale)
    return float(np.square(rounded - values, dtype=np.float64).sum())


def step(low: float, high: float) -> tuple[float, int]:
    """Scale and zero point of a range that holds 0: s = (high - low) / 255, z = rint(-low / s)."""
    if not (np.isfinite([low, high]).all() and low <= 0 <= high and high > low):
        raise SkinnyError(f"a calibration range must hold 0, and more than that; got {low}, {high}")
    scale = float(np.float32((high - low) / 255))
    return scale, int(np.clip(np.rint(-low / scale), 0, 255))


def batches_of(graph: Graph, calibration: Iterable[Any]) -> list[dict[str, Array]]:
    """The batches as arrays by input name. A batch is an array, several by position, or by name."""
    names = [value.name for value in graph.inputs]
    made = []
    for batch in calibration:
        if isinstance(batch, Mapping):
            given = dict(batch)
        else:
            several = isinstance(batch, Sequence)
            given = dict(zip(names, batch if several else [batch], strict=False))
        if set(given) != set(names):
            raise SkinnyError(f"a calibration batch has {sorted(given)}; the network takes {names}")
        made.append({name: _array(value) for name, value in given.items()})
    if not made:
        raise SkinnyError("compute='int8' needs calibration batches, and there are none")
    return made


def _array(value: Any) -> Array:
    array = np.asarray(value.detach().cpu() if hasattr(value, "detach") else value)
    return array.astype(np.float32) if array.dtype.kind == "f" else array


def walk(
    graph: Graph, tensors: Mapping[str, Array], batch: Mapping[str, Array]
) -> Iterator[tuple[Node, list[Any], tuple[Array, ...]]]:
    """Runs the graph by its references, and shows each node with its inputs and results."""

    def spec(name: str) -> Any:
        return spec_of(tensors[name]) if name in tensors else None

    shapes = {name: array.shape for name, array in batch.items()}
    special = specialize(graph, shapes, spec, tensors.__getitem__)
    values: dict[str, Array] = {**special.constants, **batch}
    last = {name: at for at, node in enumerate(special.nodes) for name in node.values}
    for at, node in enumerate(special.nodes):
        arguments = [values[x] if isinstance(x, str) else x for x in node.inputs]
        specs = tuple(special.specs[name] for name in node.outputs)
        made = evaluate(node, tensors.__getitem__, arguments, specs)
        yield node, arguments, made
        values.update(zip(node.outputs, made, strict=True))
        for name in node.values:
            if last[name] == at and name not in special.constants:
                values.pop(name, None)


def ranges(
    graph: Graph,
    tensors: Mapping[str, Array],
    batches: list[dict[str, Array]],
    is_layer: Callable[[Node], bool],
) -> dict[str, Range]:
    """The range of each value that a layer reads, by name."""
    seen: dict[str, _Seen] = {}
    for batch in batches:
        done: set[str] = set()
        for node, arguments, _ in walk(graph, tensors, batch):
            name = node.inputs[0] if node.inputs else None
            if isinstance(name, str) and is_layer(node) and name not in done:
                seen.setdefault(name, _Seen()).add(arguments[0], name)
                done.add(name)
    return {name: values.range() for name, values in seen.items()}
