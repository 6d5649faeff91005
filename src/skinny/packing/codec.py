"""One tensor to its stored parts and back: the smallest of four forms.

| form       | parts                                                      |
|------------|------------------------------------------------------------|
| `dense`    | all entries                                                |
| `bitmask`  | the non-zero values, one bit per entry                     |
| `entropy`  | the non-zero values, the same bits entropy-coded           |
| `adaptive` | both in one code, of tensors that are small (adaptive.py)  |

Where it makes them smaller, the values of the middle two are coded as well (see symbols.py), and
those of dense tensors that are rounded to fewer than 8 bits.
A weight pruned by `weight * mask` is often -0.0, which is stored as a zero. Only with
`signed_zeros` does it stay -0.0: many are marked in a part of their own, few are values. Integers
add a part for their scales or their codebook. A mask that consists of whole groups has a bit for
each (see groups.py).
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from skinny.packing import adaptive, bitmask, entropy, groups, symbols, values
from skinny.packing.bitmask import Mask
from skinny.packing.dtypes import CARRIER, FLOATS
from skinny.packing.errors import MaskError
from skinny.packing.groups import Grouped, Groups
from skinny.packing.values import STORED, Values

Form = Literal["dense", "bitmask", "entropy", "adaptive"]
FORMS: tuple[Form, ...] = ("dense", "bitmask", "entropy", "adaptive")
SMALL = 1 << 14  # bytes: tensors whose parts take no more are stored in a part of the file
_SLICE = 1 << 20  # values that are put together at a time
# What a part more costs in header and manifest; keeps small tensors dense.
_PART = 20


@dataclass(frozen=True)
class Entry:
    """What is known of a tensor before its parts are read."""

    dtype: str
    shape: tuple[int, ...]
    form: Form = "dense"
    values: Values = "exact"
    error: float = 0.0  # largest |stored - original|
    negative_zeros: int = 0  # how many the part `negative` marks
    kept: int | None = None  # how many values are coded; None if they are stored as they are
    groups: Groups | None = None  # of which the mask has a bit each; None: it has one an entry

    @property
    def count(self) -> int:
        return math.prod(self.shape)

    @property
    def stored(self) -> str:
        """The type of the values as they are stored."""
        return self.dtype if self.values == "exact" else STORED[self.values]

    @property
    def mask_bits(self) -> int:
        return self.count if self.groups is None else self.count // self.groups.size

    def parts(self) -> dict[str, str]:
        """The parts by role, in the order the checksum takes them: role -> dtype."""
        parts = {"values": self.stored} if self.kept is None else {"symbols": "U8", "rest": "U8"}
        if self.form == "adaptive":
            parts = {"adaptive": "U8", "rest": "U8"}
        elif self.form != "dense":
            parts["mask" if self.form == "bitmask" else "coded"] = "U8"
        if self.negative_zeros:
            parts["negative"] = "U8"
        if (extra := values.extra_part(self.values)) is not None:
            parts[extra] = "F32"
        return parts


@dataclass(frozen=True)
class SparseTensor:
    """A tensor without its zeros.

    mask: uint8 [ceil(n / 8)], bit i of the flat tensor least significant first, or None when the
    tensor is stored dense; values: flat, in the tensor's own type (bfloat16 as uint16 bits), one
    per one in the mask, or all n. negative: a mask of the zeros that are -0.0, None if none are.
    """

    shape: tuple[int, ...]
    dtype: str
    mask: Mask | None
    values: NDArray[Any]
    negative: Mask | None = None


def encode(
    name: str,
    array: NDArray[Any],
    dtype: str,
    wish: Values = "exact",
    *,
    signed_zeros: bool = False,
) -> tuple[Entry, dict[str, NDArray[Any]]]:
    """The entry and its parts by role. `array` is C-contiguous, of `dtype`'s carrier.

    signed_zeros: bring -0.0 back as -0.0, where values are exact.
    """
    shape = array.shape
    kind: Values = wish if values.storable(wish, dtype, shape) else "exact"
    width = CARRIER[dtype if kind == "exact" else STORED[kind]].itemsize
    lossy = kind != "exact"
    signed = signed_zeros and not lossy and dtype in FLOATS
    mask, ones = bitmask.find(array, ignore_sign=dtype in FLOATS and not signed)
    grouped = None if signed else groups.find(mask, shape, ones, width)
    book = values.extra_part(kind) == "codebook"
    best = _smallest(mask, ones, array.size, width, grouped, zeros=not book)
    bits = mask  # as they are stored
    if best.groups is not None and grouped is not None:
        bits, ones = grouped.bits, grouped.kept * best.groups.size
        mask = groups.expand(bits, best.groups, shape)
    negative, marks = None, 0
    if signed:
        numeric, nonzero = bitmask.find(array, ignore_sign=True)
        if nonzero < ones:
            coded = entropy.encode(mask & ~numeric, array.size, ones - nonzero)
            other = _smallest(numeric, nonzero, array.size, width)
            if other.form != "dense" and other.size + coded.size + _PART < best.size:
                best, ones, negative, marks = other, nonzero, coded, ones - nonzero
                mask = bits = numeric
    stored = array.reshape(-1) if best.form == "dense" else bitmask.gather(array, mask, ones)
    if dtype in FLOATS and not signed:  # there are zeros if all is stored, and in groups
        stored = _positive_zeros(stored)
    parts: dict[str, NDArray[Any]] = {"values": stored}
    if best.form == "bitmask":
        parts["mask"] = bits
    elif best.coded is not None:
        parts["coded"] = best.coded
    if negative is not None:
        parts["negative"] = negative
    error = 0.0
    if lossy:
        counts = values.per_channel(None if best.form == "dense" else mask, shape)
        parts["values"], extra, error = values.encode(stored, dtype, kind, counts, name)
        parts |= extra
    entry = Entry(dtype, shape, best.form, kind, error, marks, groups=best.groups)
    few_bits = values.extra_part(kind) is not None and values.bits(kind) < 8
    if dtype not in FLOATS or (best.form == "dense" and not few_bits):
        return entry, parts
    coded_entry, coded_parts = _code_values(entry, parts)
    if best.form == "dense" or not adaptable(dtype, shape) or signed or best.groups is not None:
        return coded_entry, coded_parts
    return _code_adaptively(coded_entry, coded_parts, mask, parts["values"])


def _positive_zeros(flat: NDArray[Any]) -> NDArray[Any]:
    """The floats with +0.0 for -0.0; a copy only if there is any."""
    bits = flat.view(f"u{flat.itemsize}")
    negative = bits == 1 << (8 * flat.itemsize - 1)
    return (
        np.where(negative, 0, bits).astype(bits.dtype).view(flat.dtype) if negative.any() else flat
    )


def _code_values(
    entry: Entry, parts: dict[str, NDArray[Any]]
) -> tuple[Entry, dict[str, NDArray[Any]]]:
    """The entry with its values coded, if that is smaller."""
    own, rest = symbols.split(parts["values"])
    coded = symbols.encode(own)
    if coded.size + _PART >= own.size:
        return entry, parts
    others = {role: part for role, part in parts.items() if role != "values"}
    return replace(entry, kept=own.size), {"symbols": coded, "rest": rest, **others}


def adaptable(dtype: str, shape: tuple[int, ...]) -> bool:
    """Can a tensor be in adaptive form, if it is sparse?"""
    return dtype in FLOATS and len(shape) >= 2 and 0 < math.prod(shape) <= adaptive.MOST


def _code_adaptively(
    entry: Entry, parts: dict[str, NDArray[Any]], mask: Mask, stored: NDArray[Any]
) -> tuple[Entry, dict[str, NDArray[Any]]]:
    """The entry in adaptive form, if it is small, and that is smaller."""
    size = sum(part.nbytes for part in parts.values())
    if size > 2 * SMALL:
        return entry, parts
    own, rest = symbols.split(stored)
    rows = entry.shape[0]
    made = {"adaptive": adaptive.encode(mask, own, rows, entry.count // rows), "rest": rest}
    if (extra := values.extra_part(entry.values)) is not None:
        made[extra] = parts[extra]
    if sum(part.nbytes for part in made.values()) >= min(size, SMALL + 1):
        return entry, parts
    return replace(entry, form="adaptive", kept=own.size), made


class _Choice(NamedTuple):
    form: Form
    size: int
    coded: NDArray[np.uint8] | None = None
    groups: Groups | None = None


def _smallest(
    mask: Mask,
    ones: int,
    count: int,
    width: int,
    grouped: Grouped | None = None,
    *,
    zeros: bool = True,
) -> _Choice:
    """The form that stores a tensor with this mask in the fewest bytes.

    zeros: may they be among the values? A codebook has no number to spare for them.
    """
    kept = ones * width + _PART
    whole = zeros or ones == count
    choices = [_Choice("dense", count * width)] if whole else []
    choices.append(_Choice("bitmask", kept + mask.size))
    if not whole or kept < count * width:
        coded = entropy.encode(mask, count, ones)
        choices.append(_Choice("entropy", kept + coded.size, coded))
    if grouped is not None and (zeros or grouped.kept * grouped.groups.size == ones):
        own, bits, found = grouped
        kept = found * own.size * width + _PART
        coded = entropy.encode(bits, count // own.size, found)
        choices.append(_Choice("bitmask", kept + bits.size, groups=own))
        choices.append(_Choice("entropy", kept + coded.size, coded, own))
    lowest = entropy.shortest(count)
    few = [choice for choice in choices if choice.coded is None or choice.coded.size >= lowest]
    return min(few, key=lambda choice: choice.size)


def check(name: str, entry: Entry, sizes: dict[str, int]) -> None:
    """Raises `MaskError` unless parts of these lengths can make the tensor; reads nothing."""
    stored = sizes["values"] if entry.kept is None else entry.kept
    if entry.kept is not None:
        width = CARRIER[entry.stored].itemsize
        if entry.form == "adaptive":
            long = sizes["adaptive"] >= adaptive.shortest(entry.count)
        else:
            long = sizes["symbols"] >= entropy.shortest(stored)
        if sizes["rest"] != stored * (width - 1) or not long:
            raise MaskError(f"{name} has parts that cannot code {stored} values")
    if entry.form == "dense" and stored != entry.count:
        raise MaskError(f"{name} has {stored} values for {entry.count} entries")
    if stored > entry.count:
        raise MaskError(f"{name} has {stored} values, more than its {entry.count} entries")
    if entry.form == "bitmask" and sizes["mask"] != bitmask.mask_bytes(entry.mask_bits):
        raise MaskError(f"{name} has a mask of {sizes['mask']} bytes for {entry.mask_bits} bits")
    if entry.groups is not None and stored % entry.groups.size:
        raise MaskError(f"{name} has {stored} values, which are no whole groups")
    if entry.form == "entropy" and sizes["coded"] < entropy.shortest(entry.count):
        raise MaskError(f"{name}: {sizes['coded']} bytes cannot code {entry.count} mask bits")
    if stored + entry.negative_zeros > entry.count:
        raise MaskError(f"{name} has {entry.negative_zeros} negative zeros too many")
    if entry.negative_zeros and sizes["negative"] < entropy.shortest(entry.count):
        raise MaskError(f"{name}: {sizes['negative']} bytes cannot code {entry.count} mask bits")
    if "scales" in sizes and sizes["scales"] != entry.shape[0]:
        raise MaskError(f"{name} has {sizes['scales']} scales for {entry.shape[0]} channels")
    if "codebook" in sizes and not 1 <= sizes["codebook"] <= 1 << values.bits(entry.values):
        raise MaskError(f"{name} has a codebook of {sizes['codebook']} numbers for {entry.values}")


def decode(entry: Entry, parts: Mapping[str, Any]) -> SparseTensor:
    """The tensor's mask and values; `check` has passed. Raises a `FormatError` for bad contents.

    parts: flat arrays by role, which are taken in the order of `Entry.parts`; of `rest` only slices
    are taken, one after the other.
    """
    mask = None
    if entry.kept is None:
        stored = parts["values"]
    elif entry.form == "adaptive":
        rows = entry.shape[0]
        coded = parts["adaptive"]
        mask, own = adaptive.decode(coded, rows, entry.count // rows, entry.kept)
        stored = _join(own, parts["rest"], CARRIER[entry.stored])
    else:
        stored = _join(
            symbols.decode(parts["symbols"], entry.kept), parts["rest"], CARRIER[entry.stored]
        )
    mask = parts.get("mask") if mask is None else mask
    if entry.dtype == "BOOL" and stored.view(np.uint8).max(initial=0) > 1:
        raise MaskError("a tensor of truth values holds a byte that is neither 0 nor 1")
    if "coded" in parts:
        group = 1 if entry.groups is None else entry.groups.size
        mask = entropy.decode(parts["coded"], entry.mask_bits, stored.size // group)
    if mask is not None and entry.groups is not None:
        bitmask.check(mask, entry.mask_bits, stored.size // entry.groups.size)
        mask = groups.expand(mask, entry.groups, entry.shape)
    if mask is not None:
        bitmask.check(mask, entry.count, stored.size)
    negative = None
    if "negative" in parts and mask is not None:
        negative = entropy.decode(parts["negative"], entry.count, entry.negative_zeros)
        bitmask.check(negative, entry.count, entry.negative_zeros)
        if np.any(negative & mask):
            raise MaskError("an entry is marked both as a value and as a negative zero")
    if entry.values != "exact":
        counts = values.per_channel(mask, entry.shape)
        part = values.extra_part(entry.values)
        extra = {} if part is None else {part: parts[part]}
        stored = values.decode(stored, extra, entry.dtype, entry.values, counts)
    return SparseTensor(entry.shape, entry.dtype, mask, stored, negative)


def _join(own: NDArray[np.uint8], rest: Any, dtype: np.dtype[Any]) -> NDArray[Any]:
    """`symbols.join` by slices, so that the rest is never in memory whole beside the values."""
    joined = np.empty(own.size, dtype)
    width = dtype.itemsize - 1
    for start in range(0, own.size, _SLICE):
        end = min(start + _SLICE, own.size)
        symbols.join(own[start:end], rest[start * width : end * width], joined[start:end])
    return joined


def densify(tensor: SparseTensor) -> NDArray[Any]:
    """The whole tensor."""
    if tensor.mask is None:
        return tensor.values.reshape(tensor.shape)
    count = math.prod(tensor.shape)
    dense = bitmask.unpack(tensor.mask, tensor.values, count)
    if tensor.negative is not None:
        marked = np.unpackbits(tensor.negative, count=count, bitorder="little").view(bool)
        dense.view(f"u{dense.itemsize}")[marked] = 1 << (8 * dense.itemsize - 1)
    return dense.reshape(tensor.shape)
