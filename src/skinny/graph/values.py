"""What is known of a value before it is computed: its type and its shape."""

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from skinny.graph.errors import MisfitError, require

Array = NDArray[Any]
Shape = tuple[int, ...]

# Lower to higher: an elementwise operation on two types computes in the higher one. All floats are
# float32; models of other precisions are computed in it.
DTYPES = ("bool", "uint8", "int8", "int32", "int64", "float32")
MOST_AXES = 8
MOST_ELEMENTS = 1 << 31  # of one value


def own_dtype(dtype: Any) -> str:
    """The type in which values of a foreign type are computed: all floats are float32."""
    name = str(dtype).removeprefix("torch.")
    if name in DTYPES:
        return name
    if name in ("float16", "bfloat16", "float64"):
        return "float32"
    if name in ("int16", "uint16", "uint32", "uint64"):
        return "int64"
    raise MisfitError(f"is of the type {name}")


class Spec(NamedTuple):
    """Type and shape of a value. A literal is a number written into the graph: it adopts the type
    of the tensors it meets, unless it is of a higher kind (bool, integer, float)."""

    dtype: str
    shape: Shape
    literal: bool = False

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def bytes(self) -> int:
        return self.size * np.dtype(self.dtype).itemsize

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    @property
    def is_float(self) -> bool:
        return self.dtype == "float32"


def spec_of(value: Array | bool | int | float) -> Spec:
    """The spec of an array, or of a number as a literal operand."""
    if isinstance(value, np.ndarray | np.generic):
        return Spec(str(value.dtype), value.shape)
    return Spec(_literal_dtype(value), (), literal=True)


def _literal_dtype(value: bool | int | float) -> str:
    if isinstance(value, bool):
        return "bool"
    return "int64" if isinstance(value, int) else "float32"


def as_array(value: Array | bool | int | float, dtype: str | None = None) -> Array:
    """An operand as an array; a number too large for the type wraps around, as in torch."""
    if isinstance(value, np.ndarray) and (dtype is None or value.dtype == dtype):
        return value
    with np.errstate(over="ignore", invalid="ignore"):
        array = np.asarray(value, None if isinstance(value, np.ndarray) else spec_of(value).dtype)
        return array if dtype is None else array.astype(dtype, copy=False)


def promoted(*operands: Spec) -> str:
    """The type an elementwise operation computes in, as torch promotes types."""
    tensors = [spec.dtype for spec in operands if not spec.literal]
    literals = [spec.dtype for spec in operands if spec.literal]
    highest = max(tensors, key=DTYPES.index) if tensors else "bool"
    if highest == "int8" and "uint8" in tensors:
        highest = "int64"  # torch has int16 for what both can hold
    for dtype in literals:
        if not tensors or _kind(dtype) > _kind(highest):
            highest = max(highest, dtype, key=DTYPES.index)
    return highest


def _kind(dtype: str) -> int:
    return {"bool": 0, "float32": 2}.get(dtype, 1)


def broadcast(*operands: Spec) -> Shape:
    """The shape operands are broadcast to, as NumPy and torch do it."""
    try:
        return np.broadcast_shapes(*(spec.shape for spec in operands))
    except ValueError:
        shapes = " and ".join(str(list(spec.shape)) for spec in operands)
        raise MisfitError(f"cannot broadcast {shapes}") from None


def axis_of(axis: int, rank: int) -> int:
    """A non-negative axis; negative ones count from the end."""
    require(-rank <= axis < rank, f"names axis {axis} of a value of {rank} axes")
    return axis % rank


def axes_of(axes: tuple[int, ...] | None, rank: int) -> tuple[int, ...]:
    """Non-negative axes, each at most once; None means all."""
    if axes is None:
        return tuple(range(rank))
    found = tuple(axis_of(axis, rank) for axis in axes)
    require(len(set(found)) == len(found), f"names an axis twice: {list(axes)}")
    return found
