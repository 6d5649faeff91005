"""Weights in kernel form, shared by the programs of all input shapes."""

import math
import threading
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from typing import Any, Literal
from weakref import WeakValueDictionary

import numpy as np
from numpy.typing import NDArray

from skinny._native import (
    MAX_TAPS,
    ConvWeights,
    DirectWeights,
    Int8Matrix,
    Int8Table,
    Int8Weights,
    LinearWeights,
)
from skinny.graph.ops.int8 import integers, multipliers
from skinny.runtime.weights import Floats, Kernel, Weights

# Output channels of a tile that are computed before their activation: they stay in the cache.
_RANGE = 256
# How a weight is stored: [outputs, ...], [inputs, outputs], or as that of a transposed convolution.
Form = Literal["rows", "columns", "mirrored"]
Release = Callable[[Callable[[], Floats]], None]  # of what makes the tensor again


@dataclass(frozen=True)
class Fold:
    """y = scale x + shift for each output channel, folded into the layer that makes x."""

    key: Hashable
    make: Callable[[], tuple[Floats, Floats]]


@dataclass(eq=False)
class Held:
    """Native weights; whoever uses them holds this, and the last one drops it."""

    native: ConvWeights | DirectWeights | LinearWeights | Int8Weights | Int8Matrix | Int8Table
    bias: Floats


class SharedWeights:
    """What the kernels read of a network's weights. Shapes, densities and estimates are known
    without decoding anything."""

    def __init__(
        self, weights: Weights, threads: int, release: Mapping[str, Release] | None = None
    ) -> None:
        """release: for weights that one layer in int8 alone reads: drops them (HeldTensors), since
        their first kernel form is kept."""
        self.weights = weights
        self.threads = threads
        self.kept_forms: list[Held] = []
        self._release = dict(release or {})
        self._held: WeakValueDictionary[Hashable, Held] = WeakValueDictionary()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        """How many weights are held now."""
        return len(self._held)

    def shape(self, name: str) -> tuple[int, ...]:
        return self.weights.shape(name)

    def kept(self, name: str) -> int:
        return self.weights.kept(name)

    def density(self, name: str) -> float:
        return self.kept(name) / math.prod(self.shape(name))

    def kernel(self, name: str, rows: int, taps: int = 1) -> Kernel:
        """rows: output channels of a group. taps: of an input channel."""
        return "dense" if taps > MAX_TAPS else self.weights.kernel(name, rows)

    def convolution(
        self,
        name: str,
        bias: str | None,
        *,
        outputs: int,
        groups: int,
        block: int,
        dense: bool,
        form: Form,
        folds: tuple[Fold, ...],
    ) -> Held:
        key = (name, bias, groups, block, dense, form, *(fold.key for fold in folds))

        def make() -> Held:
            weight, shift = self.folded(name, bias, outputs, form, groups, folds)
            native = ConvWeights(
                weights=weight,
                groups=groups,
                block_taps=block,
                ranges=max(self.threads, -(-outputs // _RANGE)),
                dense=dense,
            )
            return Held(native, shift)

        return self._once(key, make)

    def direct(
        self, name: str, bias: str | None, shape: tuple[int, ...], folds: tuple[Fold, ...]
    ) -> Held:
        """Of a dense first layer. shape: [outputs, inputs, rows, columns]."""

        def make() -> Held:
            weight, shift = self.folded(name, bias, shape[0], "rows", 1, folds)
            return Held(DirectWeights(weights=weight.reshape(shape)), shift)

        return self._once(("direct", name, bias, *(fold.key for fold in folds)), make)

    def linear(self, name: str, bias: str | None, *, form: Form, folds: tuple[Fold, ...]) -> Held:
        """Of a layer for few vectors at a time."""
        rows = self.shape(name)[1 if form == "columns" else 0]

        def make() -> Held:
            dense = self.kernel(name, rows) == "dense"
            if form == "rows" and not folds:
                return Held(self.weights.linear(name, dense), self.weights.bias(bias, rows))
            weight, shift = self.folded(name, bias, rows, form, 1, folds)
            return Held(_linear(weight, dense), shift)

        return self._once((name, bias, form, *(fold.key for fold in folds)), make)

    def int8_convolution(self, given: Mapping[str, Any], groups: int) -> Held:
        """given: the attributes of a layer in int8."""

        def make() -> Held:
            weight, scale, bias = self._integers(given)
            native = Int8Weights(
                quads=_quads(weight, groups), zero=given["input_zero"], scale=scale, bias=bias
            )
            held, shape = Held(native, bias), weight.shape
            self._keep(given, held, lambda: _from_quads(native.integers(), shape, groups))
            return held

        return self._once(("quads", *_int8_key(given), groups), make)

    def int8_matrix(self, given: Mapping[str, Any]) -> Held:
        """The same for few rows at a time."""

        def make() -> Held:
            weight, scale, bias = self._integers(given)
            zero = given["input_zero"]
            native = Int8Matrix(weights=weight, zero=zero, scale=scale, bias=bias)
            held = Held(native, bias)
            self._keep(given, held, native.integers)
            return held

        return self._once(("matrix", *_int8_key(given)), make)

    def int8_table(self, given: Mapping[str, Any]) -> Held:
        """given: the attributes of an embedding in int8."""

        def make() -> Held:
            scales = self.weights.dense(given["weight_scale"])
            whole = integers(self.weights.dense(given["weight"]), scales)
            native = Int8Table(integers=np.ascontiguousarray(whole), scale=scales)
            held = Held(native, np.zeros(0, np.float32))
            self._keep(given, held, native.integers)
            return held

        return self._once(("table", given["weight"], given["weight_scale"]), make)

    def _keep(
        self, given: Mapping[str, Any], held: Held, integers: Callable[[], NDArray[np.int8]]
    ) -> None:
        release = self._release.pop(given["weight"], None)
        if release is None:
            return
        scales = self.weights.dense(given["weight_scale"])

        def restored() -> Floats:
            made = integers()
            return made * scales.reshape(-1, *[1] * (made.ndim - 1))

        self.kept_forms.append(held)
        release(restored)

    def _integers(self, given: Mapping[str, Any]) -> tuple[NDArray[np.int8], Floats, Floats]:
        scales = self.weights.dense(given["weight_scale"])
        factor = None if given["factor"] is None else self.weights.dense(given["factor"])
        weight = np.ascontiguousarray(integers(self.weights.dense(given["weight"]), scales))
        bias = self.weights.bias(given["bias"], len(weight))
        with np.errstate(all="ignore"):
            return weight, multipliers(given["input_scale"], scales, factor), bias

    def folded(
        self,
        name: str,
        bias: str | None,
        outputs: int,
        form: Form,
        groups: int,
        folds: tuple[Fold, ...],
    ) -> tuple[Floats, Floats]:
        """A weight as [outputs, inputs], and its bias. Zeros stay zeros, whatever the scale."""
        weight, shift = self.weights.dense(name), self.weights.bias(bias, outputs)
        if form == "columns":
            weight = weight.T
        elif form == "mirrored":
            weight = _mirrored(weight, groups)
        weight = np.ascontiguousarray(weight.reshape(outputs, -1))
        with np.errstate(all="ignore"):
            for fold in folds:
                scale, more = fold.make()
                weight = np.where(weight == 0, weight, weight * scale[:, None])
                shift = shift * scale + more
        return weight, shift

    def _once(self, key: Hashable, make: Callable[[], Held]) -> Held:
        with self._lock:
            held = self._held.get(key)
            if held is None:
                held = self._held[key] = make()
            return held

    def estimate(self, name: str) -> tuple[int, int]:
        """About how many bytes a weight takes in kernel form, and more while it is made."""
        shape, kept = self.shape(name), self.kept(name)
        size, taps = math.prod(shape), math.prod(shape[1:])
        dense = self.kernel(name, shape[0]) == "dense"
        # values; tap indices or bitmask; where each row of a block begins; tap offsets
        values = 4 * size if dense else 6 * kept + size // 4
        if not dense and len(shape) == 2:
            values += LinearWeights.most_strip_bytes(kept=kept)
        held = values + 16 * shape[0] + 12 * taps + 256 * self.threads
        return held, 8 * kept + size // 4 + 8 * size


def _int8_key(given: Mapping[str, Any]) -> tuple[Hashable, ...]:
    fields = ("weight", "weight_scale", "factor", "bias", "input_scale", "input_zero")
    return tuple(given[field] for field in fields)


def _quads(weight: NDArray[np.int8], groups: int) -> NDArray[np.int8]:
    """[outputs, inputs / groups, *kernel] as [outputs, quads of inputs, *kernel, 4] in rows: zeros
    where an input is of another group, or none."""
    outputs, per_group, *kernel = weight.shape
    inputs, rows = per_group * groups, outputs // groups
    wide = np.zeros((outputs, -(-inputs // 4) * 4, *kernel), np.int8)
    for group in range(groups):
        own = slice(group * rows, (group + 1) * rows)
        wide[own, group * per_group : (group + 1) * per_group] = weight[own]
    quads = wide.reshape(outputs, -1, 4, *kernel)
    return np.ascontiguousarray(np.moveaxis(quads, 2, -1)).reshape(outputs, -1)


def _from_quads(quads: NDArray[np.int8], shape: tuple[int, ...], groups: int) -> NDArray[np.int8]:
    """The reverse."""
    outputs, per_group, *kernel = shape
    rows = outputs // groups
    wide = np.moveaxis(quads.reshape(outputs, -1, *kernel, 4), -1, 2).reshape(outputs, -1, *kernel)
    own = [
        wide[g * rows : (g + 1) * rows, g * per_group : (g + 1) * per_group] for g in range(groups)
    ]
    return np.concatenate(own)


def _mirrored(weight: Floats, groups: int) -> Floats:
    """[inputs, outputs / groups, *kernel] as [outputs, inputs / groups, *kernel], flipped."""
    inputs, outputs, *kernel = weight.shape
    apart = weight.reshape(groups, inputs // groups, outputs, *kernel).swapaxes(1, 2)
    flipped = np.flip(apart, tuple(range(3, apart.ndim)))
    return flipped.reshape(groups * outputs, inputs // groups, *kernel)


def _linear(weight: Floats, dense: bool) -> LinearWeights:
    if dense:
        return LinearWeights(dense=weight)
    mask = np.packbits(weight.reshape(-1) != 0, bitorder="little")
    return LinearWeights(
        mask=mask, values=weight[weight != 0], rows=len(weight), columns=weight.shape[1]
    )
