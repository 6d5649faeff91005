"""How the values of a tensor are stored: exactly, or rounded to fewer bits.

`exact` keeps every bit, but for the sign of a zero. `fp16` and `bf16` round to nearest. `int2` to
`int8` store round(value / scale) with one float32 scale per output channel (the first dimension),
scale = max |value| / (2^(bits - 1) - 1). `codebook2` to `codebook8` store the index of the nearest
of at most 2^bits numbers, which are those of least squared error (codebook.py). The mask is kept as
it is, so a value that rounds to 0 stays a stored value, and a zero stays a zero: fp16, bf16 and
integers have one, and where a codebook is used every zero is left to the mask.
"""

from collections.abc import Mapping
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from skinny.errors import SkinnyError
from skinny.packing import codebook
from skinny.packing.bitmask import Mask
from skinny.packing.dtypes import CARRIER, FLOATS, from_float32, to_float32
from skinny.packing.errors import ScaleError

_Integer = Literal["int8", "int7", "int6", "int5", "int4", "int3", "int2"]
_Codebook = Literal[
    "codebook8", "codebook7", "codebook6", "codebook5", "codebook4", "codebook3", "codebook2"
]
Values = Literal["exact", "fp16", "bf16"] | _Integer | _Codebook
VALUES: tuple[Values, ...] = ("exact", "fp16", "bf16", *get_args(_Integer), *get_args(_Codebook))
STORED = {"fp16": "F16", "bf16": "BF16"}
STORED |= dict.fromkeys(get_args(_Integer), "I8") | dict.fromkeys(get_args(_Codebook), "U8")
Parts = dict[str, NDArray[Any]]
_CHUNK = 1 << 16


def bits(kind: str) -> int:
    """Of a value stored as an integer or as the index of a codebook."""
    return int(kind[-1])


def extra_part(kind: str) -> str | None:
    """The part that values of this kind need beside themselves."""
    return {"I8": "scales", "U8": "codebook"}.get(STORED.get(kind, ""))


def storable(kind: Values, dtype: str, shape: tuple[int, ...]) -> bool:
    """Can a tensor be stored so, and does it save anything?"""
    if kind == "exact":
        return True
    if dtype not in FLOATS or 0 in shape or (extra_part(kind) is not None and len(shape) < 2):
        return False
    return CARRIER[STORED[kind]].itemsize < CARRIER[dtype].itemsize


def applicable(wish: Values, dtype: str, shape: tuple[int, ...]) -> Values:
    """`wish` where it saves anything, else `exact`.

    Biases, normalisation statistics and counters are few and sensitive: a wish for the whole file
    is one for floating tensors of two dimensions or more.
    """
    return wish if len(shape) >= 2 and storable(wish, dtype, shape) else "exact"


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
) -> tuple[NDArray[Any], Parts, float]:
    """Stored values, the part they need beside (scales [channels] or a codebook), and the largest
    absolute error made.

    `counts` says how many of the flat `values` belong to each output channel, in order.
    """
    for at in range(0, values.size, _CHUNK):
        if not np.all(np.isfinite(_numbers(values[at : at + _CHUNK], dtype))):
            raise SkinnyError(
                f"{name} holds an infinity or a NaN, which {kind} would lose; use values='exact'"
            )
    extra: Parts = {}
    if extra_part(kind) == "scales":
        extra["scales"] = _scales(values, dtype, counts, bits(kind), name)
    elif extra_part(kind) == "codebook":
        extra["codebook"] = codebook.make(_numbers(values, dtype), 1 << bits(kind))
    stored = np.empty(values.size, CARRIER[STORED[kind]])
    ends = np.cumsum(counts)
    error = 0.0
    for at in range(0, values.size, _CHUNK):
        chunk = slice(at, at + _CHUNK)
        numbers = _numbers(values[chunk], dtype)
        if "scales" in extra:
            most = (1 << (bits(kind) - 1)) - 1
            scale = extra["scales"][_channels(ends, chunk, values.size)].astype(np.float64)
            quotient = np.divide(numbers, scale, out=np.zeros_like(numbers), where=scale > 0)
            stored[chunk] = np.clip(np.rint(quotient), -most, most)
        elif "codebook" in extra:
            stored[chunk] = codebook.nearest(numbers, extra["codebook"])
        else:
            stored[chunk] = from_float32(to_float32(numbers, "F64"), STORED[kind])
        back = _numbers(_restored(stored, extra, dtype, kind, ends, chunk), dtype)
        if not np.all(np.isfinite(back)):
            raise SkinnyError(
                f"{name} holds {np.abs(numbers).max():g}, which {kind} cannot; "
                "use values='bf16' or values='exact'"
            )
        error = max(error, float(np.abs(back - numbers).max(initial=0.0)))
    return stored, extra, error


def decode(
    stored: NDArray[Any],
    extra: Mapping[str, NDArray[Any]],
    dtype: str,
    kind: Values,
    counts: NDArray[np.int64],
) -> NDArray[Any]:
    """The values as `dtype`'s carrier. Raises `ScaleError` for contents that no encoder writes."""
    part = extra_part(kind)
    if part is not None and not np.all(np.isfinite(extra[part])):
        raise ScaleError(f"the {part} of {kind} values are not finite")
    if part == "scales" and np.any(np.signbit(extra["scales"])):
        raise ScaleError(f"a scale of {kind} values is negative")
    if part == "codebook" and stored.max(initial=0) >= extra["codebook"].size:
        raise ScaleError("a value's index lies beyond its codebook")
    ends = np.cumsum(counts)
    values = np.empty(stored.size, CARRIER[dtype])
    for at in range(0, stored.size, _CHUNK):
        chunk = slice(at, at + _CHUNK)
        values[chunk] = _restored(stored, extra, dtype, kind, ends, chunk)
    return values


def _restored(
    stored: NDArray[Any],
    extra: Mapping[str, NDArray[Any]],
    dtype: str,
    kind: Values,
    ends: NDArray[np.int64],
    chunk: slice,
) -> NDArray[Any]:
    """What a chunk of stored values stands for."""
    if "codebook" in extra:
        return from_float32(extra["codebook"][stored[chunk]], dtype)
    numbers = to_float32(stored[chunk], STORED[kind])
    if "scales" in extra:
        with np.errstate(over="ignore"):
            numbers *= extra["scales"][_channels(ends, chunk, stored.size)]
    return from_float32(numbers, dtype)


def _channels(ends: NDArray[np.int64], chunk: slice, size: int) -> NDArray[np.int64]:
    """The channel of each value in a chunk of all `size`; channel c's values end before ends[c]."""
    return np.searchsorted(ends, np.arange(chunk.start, min(chunk.stop, size)), side="right")


def _numbers(values: NDArray[Any], dtype: str) -> NDArray[np.float64]:
    with np.errstate(invalid="ignore"):  # a signalling NaN becomes a quiet one
        return (values if dtype == "F64" else to_float32(values, dtype)).astype(np.float64)


def _scales(
    values: NDArray[Any], dtype: str, counts: NDArray[np.int64], bits: int, name: str
) -> NDArray[np.float32]:
    ends = np.cumsum(counts)
    largest = [
        np.abs(_numbers(values[end - count : end], dtype)).max(initial=0.0)
        for count, end in zip(counts, ends, strict=True)
    ]
    with np.errstate(over="ignore"):
        scales = (np.array(largest) / ((1 << (bits - 1)) - 1)).astype(np.float32)
    if not np.all(np.isfinite(scales)):
        raise SkinnyError(
            f"{name} holds a value too large for int{bits} scales; use values='exact'"
        )
    return scales
