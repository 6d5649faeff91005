"""How the values of a tensor are stored: exactly, or rounded to fewer bits.

`exact` keeps every bit, but for the sign of a zero. `fp16` and `bf16` round to nearest. `int8`
stores round(value / scale) with one float32 scale per output channel (the first dimension), scale =
max |value| / 127; the mask is kept as it is, so a value that rounds to 0 stays a stored value.
"""

from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from skinny.errors import SkinnyError
from skinny.packing.bitmask import Mask
from skinny.packing.dtypes import CARRIER, FLOATS, from_float32, to_float32
from skinny.packing.errors import ScaleError

Values = Literal["exact", "fp16", "bf16", "int8"]
VALUES: tuple[Values, ...] = get_args(Values)
STORED = {"fp16": "F16", "bf16": "BF16", "int8": "I8"}
_CHUNK = 1 << 16


def applicable(wish: Values, dtype: str, shape: tuple[int, ...]) -> Values:
    """`wish` where it saves anything, else `exact`.

    Biases, normalisation statistics and counters are few and sensitive: only floating tensors of
    two dimensions or more are rounded.
    """
    if wish == "exact" or dtype not in FLOATS or len(shape) < 2 or 0 in shape:
        return "exact"
    shrinks = CARRIER[STORED[wish]].itemsize < CARRIER[dtype].itemsize
    return wish if shrinks else "exact"


def per_channel(mask: Mask | None, shape: tuple[int, ...]) -> NDArray[np.int64]:
    """How many values each output channel has: [channels]."""
    channels = shape[0]
    row = int(np.prod(shape[1:], dtype=np.int64))
    if mask is None:
        return np.full(channels, row)
    bits = np.unpackbits(mask, count=channels * row, bitorder="little")
    counts: NDArray[np.int64] = bits.reshape(channels, row).sum(axis=1, dtype=np.int64)
    return counts


def encode(
    values: NDArray[Any], dtype: str, kind: Values, counts: NDArray[np.int64], name: str
) -> tuple[NDArray[Any], NDArray[np.float32] | None, float]:
    """Stored values, scales [channels] or None, and the largest absolute error made.

    `counts` says how many of the flat `values` belong to each output channel, in order.
    """
    stored = np.empty(values.size, CARRIER[STORED[kind]])
    scales = _scales(values, dtype, counts, name) if kind == "int8" else None
    ends = np.cumsum(counts)
    error = 0.0
    for at in range(0, values.size, _CHUNK):
        chunk = slice(at, at + _CHUNK)
        numbers = _numbers(values[chunk], dtype)
        if not np.all(np.isfinite(numbers)):
            raise SkinnyError(
                f"{name} holds an infinity or a NaN, which {kind} would lose; use values='exact'"
            )
        if scales is None:
            stored[chunk] = from_float32(to_float32(numbers, "F64"), STORED[kind])
            back = _numbers(from_float32(to_float32(stored[chunk], STORED[kind]), dtype), dtype)
            if not np.all(np.isfinite(back)):
                raise SkinnyError(
                    f"{name} holds {np.abs(numbers).max():g}, which {kind} cannot; "
                    "use values='bf16' or values='exact'"
                )
        else:
            own = scales[_channels(ends, chunk, values.size)]
            scale = own.astype(np.float64)
            quotient = np.divide(numbers, scale, out=np.zeros_like(numbers), where=scale > 0)
            stored[chunk] = np.clip(np.rint(quotient), -127, 127)
            back = _numbers(from_float32(stored[chunk] * own, dtype), dtype)
        error = max(error, float(np.abs(back - numbers).max(initial=0.0)))
    return stored, scales, error


def decode(
    stored: NDArray[Any],
    scales: NDArray[np.float32] | None,
    dtype: str,
    kind: Values,
    counts: NDArray[np.int64],
) -> NDArray[Any]:
    """The values as `dtype`'s carrier. Raises `ScaleError` for scales no encoder writes."""
    if scales is not None and (not np.all(np.isfinite(scales)) or np.any(np.signbit(scales))):
        raise ScaleError("a scale of int8 values is negative or not finite")
    ends = np.cumsum(counts)
    values = np.empty(stored.size, CARRIER[dtype])
    for at in range(0, stored.size, _CHUNK):
        chunk = slice(at, at + _CHUNK)
        numbers = to_float32(stored[chunk], STORED[kind])
        if scales is not None:
            with np.errstate(over="ignore"):
                numbers *= scales[_channels(ends, chunk, stored.size)]
        values[chunk] = from_float32(numbers, dtype)
    return values


def _channels(ends: NDArray[np.int64], chunk: slice, size: int) -> NDArray[np.int64]:
    """The channel of each value in a chunk of all `size`; channel c's values end before ends[c]."""
    return np.searchsorted(ends, np.arange(chunk.start, min(chunk.stop, size)), side="right")


def _numbers(values: NDArray[Any], dtype: str) -> NDArray[np.float64]:
    with np.errstate(invalid="ignore"):  # a signalling NaN becomes a quiet one
        return (values if dtype == "F64" else to_float32(values, dtype)).astype(np.float64)


def _scales(
    values: NDArray[Any], dtype: str, counts: NDArray[np.int64], name: str
) -> NDArray[np.float32]:
    ends = np.cumsum(counts)
    largest = [
        np.abs(_numbers(values[end - count : end], dtype)).max(initial=0.0)
        for count, end in zip(counts, ends, strict=True)
    ]
    with np.errstate(over="ignore"):
        scales = (np.array(largest) / 127).astype(np.float32)
    if not np.all(np.isfinite(scales)):
        raise SkinnyError(
            f"{name} holds a value too large for int8 scales, an infinity or a NaN; "
            "use values='exact'"
        )
    return scales
