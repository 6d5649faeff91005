"""Reading a safetensors header without trusting it: every field is checked before it is used."""

import json
import math
from dataclasses import dataclass
from typing import Any, Protocol

from skinny.packing.container import LARGEST_HEADER, METADATA, PREFIX
from skinny.packing.dtypes import CARRIER
from skinny.packing.errors import FormatError, HeaderError, NotPackedError

LARGEST_COUNT = 2**63 - 1
MOST_DIMENSIONS = 32  # NumPy 1's limit


@dataclass(frozen=True)
class Part:
    """Where a part lies, in bytes from the start of the file."""

    dtype: str
    shape: tuple[int, ...]
    begin: int
    end: int


@dataclass(frozen=True)
class Header:
    metadata: dict[str, str]
    parts: dict[str, Part]
    text: bytes  # the JSON as it lies in the file


class Bytes(Protocol):
    """What a header is read from: bytes, or a file that is read where it is sliced."""

    def __len__(self) -> int: ...

    def __getitem__(self, place: slice, /) -> bytes: ...


def read_header(file: Bytes) -> Header:
    """The checked header of a safetensors file.

    After this every part lies within the file, no two overlap, none is missing a byte, and its
    shape, type and length agree.
    """
    size = len(file)
    length = int.from_bytes(file[:PREFIX], "little")
    if size < PREFIX or file[PREFIX : PREFIX + 1] != b"{":
        raise NotPackedError(
            "this is not a packed model: it does not begin as safetensors files do"
        )
    if length > size - PREFIX:
        raise NotPackedError(
            f"this is not a whole packed model: its header has {length} bytes, but the file ends "
            f"after {size}; it may have been cut off"
        )
    if length > LARGEST_HEADER:
        raise HeaderError(f"a header of {length} bytes is larger than {LARGEST_HEADER} bytes")
    text = file[PREFIX : PREFIX + length]
    fields = parse_json(text, HeaderError, "the header")
    metadata = fields.pop(METADATA, {})
    if not isinstance(metadata, dict) or not all(isinstance(v, str) for v in metadata.values()):
        raise HeaderError("the header's metadata is not a table of texts")
    start = PREFIX + length
    parts = {name: _part(name, field, start) for name, field in fields.items()}
    _check_cover(parts, start, size)
    return Header(metadata, parts, text)


def parse_json(text: bytes, error: type[FormatError], what: str) -> dict[str, Any]:
    """A JSON object, strictly: no name twice, no NaN, no infinities. Raises `error` for others."""

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        table: dict[str, Any] = {}
        for name, value in pairs:
            if name in table:
                raise error(f"{what} has the name {name!r} twice")
            table[name] = value
        return table

    def refuse(constant: str) -> None:
        raise error(f"{what} holds {constant}, which JSON does not have")

    try:
        parsed = json.loads(text.decode(), object_pairs_hook=unique, parse_constant=refuse)
    except (ValueError, RecursionError) as problem:
        raise error(f"{what} is not JSON: {problem}") from None
    if not isinstance(parsed, dict):
        raise error(f"{what} is not a JSON object")
    return parsed


def is_size(number: object, largest: int = LARGEST_COUNT) -> bool:
    """A whole number from 0 to `largest`; True and False are none."""
    return type(number) is int and 0 <= number <= largest


def is_number(value: object) -> bool:
    """A finite number, and not one too large to compute with; True and False are none."""
    if type(value) is int:
        return abs(value) <= LARGEST_COUNT
    return type(value) is float and math.isfinite(value)


def is_shape(shape: object) -> bool:
    """A list of few enough sizes whose product (zeros aside) a 64-bit count can hold."""
    return (
        isinstance(shape, list)
        and len(shape) <= MOST_DIMENSIONS
        and all(is_size(side) for side in shape)
        and math.prod(side for side in shape if side) <= LARGEST_COUNT // 8
    )


def _part(name: str, field: object, start: int) -> Part:
    if not isinstance(field, dict) or set(field) != {"dtype", "shape", "data_offsets"}:
        raise HeaderError(f"the header's entry for {name!r} is not dtype, shape and data_offsets")
    dtype, shape, offsets = field["dtype"], field["shape"], field["data_offsets"]
    if not isinstance(dtype, str) or dtype not in CARRIER:
        raise HeaderError(f"{name!r} has the unknown type {dtype!r}")
    if not is_shape(shape):
        raise HeaderError(f"{name!r} has an impossible shape")
    if not (isinstance(offsets, list) and len(offsets) == 2 and all(map(is_size, offsets))):
        raise HeaderError(f"{name!r} has offsets that are not two whole numbers")
    begin, end = offsets
    if end - begin != math.prod(shape) * CARRIER[dtype].itemsize:
        raise HeaderError(f"{name!r} has {end - begin} bytes, which do not fit its shape and type")
    return Part(dtype, tuple(shape), start + begin, start + end)


def _check_cover(parts: dict[str, Part], start: int, size: int) -> None:
    """The parts, in order, cover the file from `start` to its end: no overlap, no hole, no rest."""
    at = start
    for name, part in sorted(parts.items(), key=lambda item: (item[1].begin, item[1].end)):
        if part.begin != at:
            raise HeaderError(f"{name!r} begins at byte {part.begin}, but its place is byte {at}")
        at = part.end
    if at != size:
        cut = "; it has been cut off" if at > size else ""
        raise HeaderError(f"the parts end at byte {at}, but the file has {size} bytes{cut}")
