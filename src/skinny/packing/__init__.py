"""One small file for a network: weights in sparse form, graph, preprocessing, labels.

NumPy only. `write` makes a file of named arrays, `open` reads it lazily; docs/format.md specifies
it. For models of torch see `skinny.pack` and `skinny.unpack`.
"""

import os

from skinny.packing.codec import Entry, SparseTensor
from skinny.packing.errors import (
    ChecksumError,
    FormatError,
    GraphError,
    HeaderError,
    ManifestError,
    MaskError,
    NotPackedError,
    ScaleError,
    StreamError,
    VersionError,
)
from skinny.packing.fit import write_within
from skinny.packing.interchange import read_safetensors, to_safetensors
from skinny.packing.reader import PackedFile
from skinny.packing.sizes import Size, SizeReport, size
from skinny.packing.values import Values
from skinny.packing.writer import Bits, Tied, write


def open(path: str | os.PathLike[str]) -> PackedFile:
    """Open a packed file, lazily; a context manager. Raises a `FormatError` if it is none."""
    return PackedFile(path)


__all__ = [
    "Bits",
    "ChecksumError",
    "Entry",
    "FormatError",
    "GraphError",
    "HeaderError",
    "ManifestError",
    "MaskError",
    "NotPackedError",
    "PackedFile",
    "ScaleError",
    "Size",
    "SizeReport",
    "SparseTensor",
    "StreamError",
    "Tied",
    "Values",
    "VersionError",
    "open",
    "read_safetensors",
    "size",
    "to_safetensors",
    "write",
    "write_within",
]
