"""Writing the file's outer layer, safetensors, part by part.

A safetensors file is eight bytes of header length, a JSON header, and the parts back to back:
    {"__metadata__": {str: str}, name: {"dtype": str, "shape": [int], "data_offsets": [begin, end]}}
The safetensors library writes only what is wholly in memory; this writes as the parts come.
"""

import json
import math
from hashlib import blake2b
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from skinny.errors import SkinnyError
from skinny.files import atomic_write
from skinny.packing.dtypes import CARRIER

METADATA = "__metadata__"
CHECK = "check"  # the metadata field that holds the header's own digest
LARGEST_HEADER = 100_000_000  # the limit of the safetensors library
PREFIX = 8
DIGEST_BYTES = 8
_COPY = 1 << 20


class TensorType(NamedTuple):
    """Element type and shape, without the elements."""

    dtype: str
    shape: tuple[int, ...]

    @property
    def size(self) -> int:
        """In bytes."""
        return math.prod(self.shape) * CARRIER[self.dtype].itemsize


def layout(parts: dict[str, TensorType], metadata: dict[str, str]) -> tuple[list[str], bytes]:
    """The order of the parts in the file, and the file's first bytes, up to the first part.

    Wide types come first, so that every part is aligned to its type.
    """
    names = sorted(parts, key=lambda name: -CARRIER[parts[name].dtype].itemsize)
    header: dict[str, Any] = {METADATA: metadata}
    at = 0
    for name in names:
        dtype, shape = parts[name]
        offsets = [at, at + parts[name].size]
        header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": offsets}
        at = offsets[1]
    text = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode()
    text = text.ljust(-(-len(text) // 8) * 8)
    if len(text) > LARGEST_HEADER:
        raise SkinnyError(f"{len(parts)} tensors need a header of {len(text)} bytes, too large")
    if CHECK in metadata:
        text = text.replace(_field(metadata[CHECK]), _field(header_digest(text, "0" * 16)), 1)
    return names, len(text).to_bytes(PREFIX, "little") + text


def digest(*contents: bytes | memoryview) -> str:
    """The checksum of contents one after another: BLAKE2b of 8 bytes, in hexadecimal."""
    state = blake2b(digest_size=DIGEST_BYTES)
    for content in contents:
        state.update(content)
    return state.hexdigest()


def header_digest(text: bytes, check: str) -> str:
    """The checksum of a header: taken with its own field, `check`, filled with zeros."""
    return digest(text.replace(_field(check), _field("0" * 16), 1))


def _field(check: str) -> bytes:
    return f'"{CHECK}":"{check}"'.encode()


class Spool:
    """Parts on their way into a file.

    They wait in `file`, on disk, since the header comes first in a file but is known last.
    """

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._types: dict[str, TensorType] = {}
        self._begins: dict[str, int] = {}

    def add(self, name: str, dtype: str, array: NDArray[Any]) -> None:
        if name in self._types or name == METADATA:
            raise SkinnyError(f"cannot store a tensor as {name!r}: the name is taken")
        self._types[name] = TensorType(dtype, array.shape)
        self._begins[name] = self._file.tell()
        self._file.write(content(array.astype(CARRIER[dtype], copy=False)))

    def save(self, path: Path, metadata: dict[str, str]) -> None:
        """Write the parts as a file, sealed with the header's digest."""
        names, start = layout(self._types, {**metadata, CHECK: "0" * 16})
        with atomic_write(path) as file:
            file.write(start)
            for name in names:
                self._file.seek(self._begins[name])
                left = self._types[name].size
                while left:
                    left -= file.write(self._file.read(min(_COPY, left)))


def content(array: NDArray[Any]) -> memoryview:
    """The bytes of an array, without a copy if it is contiguous."""
    flat = array.reshape(-1)
    return flat.view(np.uint8).data if flat.size else memoryview(b"")
