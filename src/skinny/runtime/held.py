"""The tensors of a packed file, read and checked once, and held in their packed form."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from skinny.graph import Spec
from skinny.packing import PackedFile, codec
from skinny.packing.codec import Entry, SparseTensor
from skinny.packing.dtypes import COMPUTED, to_float32


class HeldTensors:
    """What `Weights` asks of an open file, from memory: masks and values without zeros. The file
    may change or vanish afterwards."""

    def __init__(self, file: PackedFile, names: set[str]) -> None:
        self._entries = {name: file.entry(name) for name in names}
        self._kept = {name: file.kept(name) for name in names}
        self._sparse = {name: file.read_sparse(name) for name in names}

    def entry(self, name: str) -> Entry:
        return self._entries[name]

    def kept(self, name: str) -> int:
        return self._kept[name]

    def read_sparse(self, name: str) -> SparseTensor:
        return self._sparse[name]

    def read_float32(self, name: str) -> NDArray[np.float32]:
        return to_float32(codec.densify(self._sparse[name]), self._entries[name].dtype)

    def tensor(self, name: str) -> NDArray[Any]:
        """A tensor, dense, in the type a graph computes it in."""
        dtype = COMPUTED[self._entries[name].dtype]
        if dtype == "float32":
            return self.read_float32(name)
        return np.asarray(codec.densify(self._sparse[name]), dtype)


def tensor_spec(file: PackedFile, name: str) -> Spec | None:
    """Type and shape of a tensor of a file, as a graph sees it; None if there is none."""
    if name not in file.names:
        return None
    entry = file.entry(name)
    return Spec(COMPUTED[entry.dtype], entry.shape)
