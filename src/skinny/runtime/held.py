"""The tensors of a packed file, read and checked once, and held in their packed form."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skinny.graph import Spec
from skinny.packing import PackedFile, codec
from skinny.packing.codec import Entry, SparseTensor
from skinny.packing.dtypes import CARRIER, COMPUTED, to_float32
from skinny.runtime.memory import MemoryLimit


class HeldTensors:
    """What `Weights` asks of an open file, from memory: masks and values without zeros. The file
    may change or vanish afterwards."""

    def __init__(self, file: PackedFile, names: set[str], limit: MemoryLimit) -> None:
        sizes = [_packed_bytes(file, name) for name in names]
        needed = sum(sizes) + max(sizes, default=0)  # the largest one, while it is decoded
        limit.check(needed, "the network", "choose a smaller network")
        self._entries = {name: file.entry(name) for name in names}
        self._kept = {name: file.kept(name) for name in names}
        self._sparse = {name: file.read_sparse(name) for name in names}
        self._restore: dict[str, Callable[[], NDArray[np.float32]]] = {}

    @property
    def bytes(self) -> int:
        return sum(_bytes(tensor) for tensor in self._sparse.values())

    def release(self, name: str, restore: Callable[[], NDArray[np.float32]]) -> None:
        """Drops a tensor that kernels hold in their own form, of which `restore` makes one that
        means the same to them."""
        self._restore[name] = restore
        self._sparse.pop(name, None)

    def entry(self, name: str) -> Entry:
        return self._entries[name]

    def kept(self, name: str) -> int:
        return self._kept[name]

    def read_sparse(self, name: str) -> SparseTensor:
        return self._sparse[name]

    def read_float32(self, name: str) -> NDArray[np.float32]:
        if name in self._restore:
            return self._restore[name]()
        return to_float32(codec.densify(self._sparse[name]), self._entries[name].dtype)

    def tensor(self, name: str) -> NDArray[Any]:
        """A tensor, dense, in the type a graph computes it in; it may be the one that is held, and
        cannot be written to."""
        dtype = COMPUTED[self._entries[name].dtype]
        if dtype == "float32" and (name in self._restore or self._entries[name].dtype != "F32"):
            made: NDArray[Any] = self.read_float32(name).view()
        else:
            made = np.asarray(codec.densify(self._sparse[name]), dtype).view()
        made.flags.writeable = False
        return made


def _bytes(tensor: SparseTensor) -> int:
    masks = (mask.nbytes for mask in (tensor.mask, tensor.negative) if mask is not None)
    return tensor.values.nbytes + sum(masks)


def _packed_bytes(file: PackedFile, name: str) -> int:
    """The same before it is read."""
    entry = file.entry(name)
    masks = (entry.form != "dense") + (entry.negative_zeros > 0)
    return file.kept(name) * CARRIER[entry.dtype].itemsize + masks * (entry.count + 7) // 8


def tensor_spec(file: PackedFile, name: str) -> Spec | None:
    """Type and shape of a tensor of a file, as a graph sees it; None if there is none."""
    if name not in file.names:
        return None
    entry = file.entry(name)
    return Spec(COMPUTED[entry.dtype], entry.shape)
