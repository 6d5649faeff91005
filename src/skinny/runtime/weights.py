"""The weights of a packed model on their way to the kernels."""

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from skinny.packing.codec import Entry, SparseTensor
from skinny.packing.dtypes import to_float32

if TYPE_CHECKING:
    from skinny._native import LinearWeights

Floats = NDArray[np.float32]
Kernel = Literal["sparse", "dense"]

# Above this share of non-zeros a dense kernel is faster than a sparse one.
_DENSE_ABOVE = 0.75
_FEWEST_ROWS = 4  # for a dense kernel, which computes a few output channels at a time


class TensorSource(Protocol):
    """An open file, or what was read of one (held.py)."""

    def entry(self, name: str) -> Entry: ...
    def kept(self, name: str) -> int: ...
    def read_sparse(self, name: str) -> SparseTensor: ...
    def read_float32(self, name: str) -> NDArray[np.float32]: ...


class Weights:
    """Tensors of an open file as float32, and how dense they are.

    Tensors are decoded from it when a program is planned, and not kept.
    """

    def __init__(
        self,
        file: TensorSource,
        kernels: Mapping[str, Kernel] | None = None,
        folded: Mapping[str, Floats] | None = None,
    ) -> None:
        """kernels: by the name of a tensor, the kernel to use whatever its density. folded: tensors
        computed from those of the file (`fold_batch_norms`)."""
        self._file = file
        self._kernels = kernels or {}
        self._folded = folded or {}

    def shape(self, name: str) -> tuple[int, ...]:
        return self._file.entry(name).shape

    def dense(self, name: str) -> Floats:
        """A tensor of its own, not a view of the file."""
        return np.ascontiguousarray(self._file.read_float32(name))

    def bias(self, name: str | None, outputs: int) -> Floats:
        if name is None:
            return np.zeros(outputs, np.float32)
        return self._folded[name] if name in self._folded else self.dense(name)

    def convolution(self, node: Mapping[str, Any]) -> Floats:
        """A convolution's weights, with the batch normalisation that was folded into it.

        Zeros stay zeros, also where the scale is infinite.
        """
        weight = self.dense(node["weight"])
        if (name := node.get("weight_scale")) is not None:
            scale = self._folded[name].reshape(-1, 1, 1, 1)
            with np.errstate(all="ignore"):
                np.multiply(weight, scale, out=weight, where=weight != 0)
        return weight

    def kept(self, name: str) -> int:
        """How many weights are not zero, as far as the file tells without reading them."""
        return self._file.kept(name)

    def kernel(self, name: str, rows: int) -> Kernel:
        """Sparse or dense: as `kernels` says, else by density. rows: output channels of a group."""
        density = self.kept(name) / math.prod(self.shape(name))
        wish: Kernel = "dense" if density > _DENSE_ABOVE else "sparse"
        return self._kernels.get(name, wish) if rows >= _FEWEST_ROWS else "sparse"

    def linear(self, name: str, dense: bool) -> "LinearWeights":
        """A fully connected layer's weights in kernel form, never expanded if they are sparse."""
        from skinny._native import LinearWeights  # the reference runs without the extension

        rows, *rest = self.shape(name)
        columns = math.prod(rest)  # of a 1x1 convolution on one pixel too
        stored = self._file.read_sparse(name)
        values = stored.values if stored.dtype == "F32" else to_float32(stored.values, stored.dtype)
        if stored.mask is None:
            whole = values.reshape(rows, columns)
            if dense:
                return LinearWeights(dense=whole)
            mask = np.packbits(whole.reshape(-1) != 0, bitorder="little")
            return LinearWeights(mask=mask, values=whole[whole != 0], rows=rows, columns=columns)
        if dense:
            return LinearWeights(dense=self.dense(name).reshape(rows, columns))
        return LinearWeights(
            mask=np.ascontiguousarray(stored.mask), values=values, rows=rows, columns=columns
        )
