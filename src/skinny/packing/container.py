"""Writing the file's outer layer, safetensors, part by part.

A safetensors file is eight bytes of header length, a JSON header, and the parts back to back:
    {"__metadata__": {str: str}, name: {"dtype": str, "shape": [int], "data_offsets": [begin, end]}}
The safetensors library writes only what is wholly in memory; this writes as the parts come.
"""

import json
import tempfile
from hashlib import blake2b
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from skinny.errors import SkinnyError
from skinny.files import atomic_write
from skinny.packing.dtypes import CARRIER

METADATA = "__metadata__"
CHECK = "check"  # the metadata field that holds the header's own digest
LARGEST_HEADER = 100_000_000  # the limit of the safetensors library
PREFIX = 8
_COPY = 1 << 20


def digest(*contents: bytes | memoryview) -> str:
    """The checksum of contents one after another: BLAKE2b of 8 bytes, in hexadecimal."""
    state = blake2b(digest_size=8)
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

    They wait on disk beside it, since the header comes first in the file but is known last.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: IO[bytes] = tempfile.TemporaryFile(dir=path.parent)
        self._parts: dict[str, tuple[str, tuple[int, ...], int, int]] = {}

    def __enter__(self) -> "Spool":
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def add(self, name: str, dtype: str, array: NDArray[Any]) -> None:
        if name in self._parts or name == METADATA:
            raise SkinnyError(f"cannot store a tensor as {name!r}: the name is taken")
        begin = self._file.tell()
        self._file.write(content(array.astype(CARRIER[dtype], copy=False)))
        self._parts[name] = (dtype, array.shape, begin, self._file.tell())

    def save(self, metadata: dict[str, str]) -> None:
        """Write the file. Wide types come first, so that every part is aligned to its type."""
        parts = sorted(self._parts.items(), key=lambda part: -CARRIER[part[1][0]].itemsize)
        header: dict[str, Any] = {METADATA: {**metadata, CHECK: "0" * 16}}
        at = 0
        for name, (dtype, shape, begin, end) in parts:
            offsets = [at, at + end - begin]
            header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": offsets}
            at = offsets[1]
        text = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode()
        text = text.ljust(-(-len(text) // 8) * 8)
        if len(text) > LARGEST_HEADER:
            raise SkinnyError(f"{self._path} would need a header of {len(text)} bytes")
        text = text.replace(_field("0" * 16), _field(header_digest(text, "0" * 16)), 1)
        with atomic_write(self._path) as file:
            file.write(len(text).to_bytes(PREFIX, "little"))
            file.write(text)
            for _, (_, _, begin, end) in parts:
                self._file.seek(begin)
                for start in range(begin, end, _COPY):
                    file.write(self._file.read(min(_COPY, end - start)))


def content(array: NDArray[Any]) -> memoryview:
    """The bytes of an array, without a copy if it is contiguous."""
    flat = array.reshape(-1)
    return flat.view(np.uint8).data if flat.size else memoryview(b"")
