"""The element types a file can hold: safetensors' names, and the NumPy types that carry their bits.

NumPy has no bfloat16: its bits travel as uint16, and the name tells what they mean.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from skinny.errors import SkinnyError

CARRIER: dict[str, np.dtype[Any]] = {
    name: np.dtype(code)
    for name, code in {
        "BOOL": "?",
        "U8": "u1",
        "I8": "i1",
        "U16": "<u2",
        "I16": "<i2",
        "F16": "<f2",
        "BF16": "<u2",
        "U32": "<u4",
        "I32": "<i4",
        "F32": "<f4",
        "U64": "<u8",
        "I64": "<i8",
        "F64": "<f8",
    }.items()
}
FLOATS = ("F16", "BF16", "F32", "F64")
_NAME = {dtype: name for name, dtype in CARRIER.items() if name != "BF16"}


def name_of(array: NDArray[Any]) -> str:
    """The safetensors name of an array's type."""
    try:
        return _NAME[array.dtype.newbyteorder("<")]
    except KeyError:
        raise SkinnyError(
            f"cannot pack an array of {array.dtype}; the types a file can hold are "
            f"{', '.join(CARRIER)}"
        ) from None


def to_float32(carried: NDArray[Any], dtype: str) -> NDArray[np.float32]:
    """The numbers an array stands for, as float32; exact for F16, BF16 and F32."""
    if dtype == "BF16":
        return (carried.astype(np.uint32) << 16).view(np.float32)
    with np.errstate(over="ignore", invalid="ignore"):
        return carried.astype(np.float32)


def from_float32(numbers: NDArray[np.float32], dtype: str) -> NDArray[Any]:
    """The nearest numbers of `dtype`, ties to even; the inverse of `to_float32` where it is exact.

    A NaN keeps its sign and the payload bits that fit, and stays a NaN.
    """
    if dtype != "BF16":
        with np.errstate(over="ignore", invalid="ignore"):
            return numbers.astype(CARRIER[dtype])
    bits = np.ascontiguousarray(numbers).view(np.uint32)
    rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16
    nan = (bits & 0x7FFFFFFF) > 0x7F800000
    return np.where(nan, (bits >> 16) | 0x40, rounded).astype(np.uint16)


# The types as those that a graph computes in: all floats are float32.
COMPUTED = {
    **{"BOOL": "bool", "U8": "uint8", "I8": "int8", "I32": "int32", "I64": "int64"},
    **{"U16": "int64", "I16": "int64", "U32": "int64", "U64": "int64"},
    **{"F16": "float32", "BF16": "float32", "F32": "float32", "F64": "float32"},
}
