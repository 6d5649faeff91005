"""Opening a packed file: lazily, and every byte checked."""

import math
import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skinny.errors import SkinnyError
from skinny.packing import codec, manifest
from skinny.packing.checked import CheckedParts
from skinny.packing.codec import Entry, SparseTensor
from skinny.packing.container import CHECK, digest, header_digest
from skinny.packing.dtypes import CARRIER, to_float32
from skinny.packing.errors import ChecksumError, FormatError, NotPackedError, VersionError
from skinny.packing.header import Header, Part, read_header
from skinny.packing.source import Source


class PackedFile:
    """An open packed model.

    Opening reads the header and the manifest; `read` and `read_sparse` copy the bytes of one tensor
    out of the file and check them against its checksum, every time. So a file that changes while it
    is open is a `FormatError` and never a wrong tensor, and arrays do not depend on the file.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self._source = Source(self.path)
        self.size = len(self._source)  # of the file when it was opened, in bytes
        try:
            self._header = read_header(self._source)
            self._manifest = _read_manifest(self._header, self._source)
            self._small = _read_small(self._header, self._manifest, self._source)
            self._places = self._manifest.places()
        except FormatError as problem:
            self.close()
            raise type(problem)(f"{self.path}: {problem}") from None

    def __enter__(self) -> "PackedFile":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file; tensors that were read stay."""
        self._source.close()

    def prefetch(self) -> None:
        """Let the system begin to read the whole file, so that nobody waits for a disk."""
        self._source.prefetch()

    @property
    def names(self) -> list[str]:
        """The names of all tensors, in the order of the state_dict, tied names included."""
        return list(self._manifest.names)

    @property
    def tied(self) -> dict[str, str]:
        """Names that are another name for a stored tensor: name -> stored name."""
        return dict(self._manifest.tied)

    @property
    def format(self) -> int:
        """The format of the file's graph (docs/format.md)."""
        return self._manifest.format

    @property
    def graph(self) -> dict[str, Any] | None:
        return self._manifest.graph

    @property
    def preprocessing(self) -> dict[str, Any] | None:
        return self._manifest.preprocessing

    @property
    def labels(self) -> list[str] | None:
        return self._manifest.labels

    @property
    def config_hash(self) -> str | None:
        return self._manifest.config_hash

    @property
    def sparsity(self) -> dict[str, Any] | None:
        return self._manifest.sparsity

    @property
    def identity(self) -> str:
        """The header's checksum: files of the same contents have the same, for it covers the
        manifest's checksum, and the manifest those of all tensors."""
        return self._header.metadata[CHECK]

    def entry(self, name: str) -> Entry:
        """Shape, type, form and error of a tensor, without reading it."""
        return self._manifest.tensors[self._stored(name)]

    def kept(self, name: str) -> int:
        """How many values of a tensor are stored, without reading them: all, if it is dense."""
        entry = self.entry(name)
        if entry.kept is not None:
            return entry.kept
        return math.prod(self.stored_parts(name)["values"].shape)

    def stored_parts(self, name: str) -> dict[str, Part]:
        """The stored parts of a tensor by role, without reading them."""
        return self._parts(self._stored(name))

    def read_sparse(self, name: str) -> SparseTensor:
        """A tensor's mask and values, without its zeros."""
        stored = self._stored(name)
        entry = self._manifest.tensors[stored]
        if stored in self._places:  # checked when the file was opened
            try:
                return codec.decode(entry, self._small_parts(stored))
            except FormatError as found:
                raise type(found)(f"{self.path}, {name!r}: {found}") from None
        parts = CheckedParts(self._source, self._parts(stored))
        problem: FormatError | None = None
        # Decoding survives any bytes, so it need not wait for the checksum.
        try:
            decoded = codec.decode(entry, parts)
        except FormatError as found:
            problem = found
        try:
            check = parts.digest()
        except FormatError as found:
            raise type(found)(f"{self.path}: {found}") from None
        if check != self._manifest.checks[stored]:
            raise ChecksumError(f"{self.path}: the contents of {name!r} are damaged")
        if problem is not None:
            raise type(problem)(f"{self.path}, {name!r}: {problem}")
        return decoded

    def read(self, name: str) -> NDArray[Any]:
        """A tensor, dense, in its own type; bfloat16 as uint16 bits."""
        return codec.densify(self.read_sparse(name))

    def read_float32(self, name: str) -> NDArray[np.float32]:
        """A tensor's numbers as float32, whatever its type."""
        return to_float32(self.read(name), self.entry(name).dtype)

    def verify(self) -> None:
        """Read and decode everything; raises the `FormatError` of the first thing wrong."""
        for name in self._manifest.tensors:
            self.read_sparse(name)

    def _stored(self, name: str) -> str:
        stored = self._manifest.tied.get(name, name)
        if stored not in self._manifest.tensors:
            raise SkinnyError(f"{self.path} has no tensor {name!r}; it has {_some(self.names)}")
        return stored

    def _small_parts(self, stored: str) -> dict[str, NDArray[Any]]:
        """Copies, each aligned to its type."""
        self._source.check_open()
        roles = self._manifest.tensors[stored].parts()
        return {
            role: np.frombuffer(bytearray(self._small[begin:end]), CARRIER[roles[role]])
            for role, (begin, end) in self._places[stored].items()
        }

    def _parts(self, stored: str) -> dict[str, Part]:
        entry = self._manifest.tensors[stored]
        if stored in self._places:
            start = self._header.parts[manifest.SMALL_PART].begin
            lengths = self._manifest.small[stored]
            own = zip(entry.parts().items(), lengths, self._places[stored].values(), strict=True)
            return {
                role: Part(dtype, (length,), start + begin, start + end)
                for (role, dtype), length, (begin, end) in own
            }
        return {
            role: self._header.parts[manifest.part_name(stored, role, entry)]
            for role in entry.parts()
        }


def _read_small(header: Header, book: manifest.Manifest, file: Source) -> bytes:
    """The parts of all small tensors, which stay in memory."""
    if book.small_check is None:
        return b""
    small = file.read_part(header.parts[manifest.SMALL_PART]).tobytes()
    if digest(small) != book.small_check:
        raise ChecksumError("the contents of small tensors are damaged")
    return small


def _read_manifest(header: Header, file: Source) -> manifest.Manifest:
    version = header.metadata.get("skinny")
    if version is None or manifest.PART not in header.parts:
        raise NotPackedError("this is a safetensors file, but not a packed model; pack it first")
    if version not in {str(known) for known in range(1, manifest.NEWEST + 1)}:
        raise VersionError(
            f"this file is of format {version!r:.20}, this skinny reads formats 1 to "
            f"{manifest.NEWEST}; a newer skinny may read it"
        )
    check = header.metadata.get(CHECK, "")
    if header_digest(header.text, check) != check:
        raise ChecksumError("the header is damaged")
    parts = dict(header.parts)
    packed = file.read_part(parts.pop(manifest.PART)).tobytes()
    if digest(packed) != header.metadata.get("manifest"):
        raise ChecksumError("the manifest is damaged")
    sizes = {
        name: (part.dtype, (part.end - part.begin) // CARRIER[part.dtype].itemsize)
        for name, part in parts.items()
    }
    return manifest.load(packed, sizes, int(version))


def _some(names: list[str]) -> str:
    return ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
