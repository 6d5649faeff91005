"""One small file for a network: weights in sparse form, graph, preprocessing, labels.

NumPy only. `write` makes a file of named arrays, `open` reads it lazily; docs/format.md specifies
it. For models of torch see `skinny.pack` and `skinny.unpack`.
"""

from skinny.packing.codec import Entry, Parts
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
from skinny.packing.fold import fold_batch_norms
from skinny.packing.reader import PackedFile
from skinny.packing.reader import PackedFile as open  # noqa: A004
from skinny.packing.values import Values
from skinny.packing.writer import Bits, Tied, write

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
    "Parts",
    "ScaleError",
    "StreamError",
    "Tied",
    "Values",
    "VersionError",
    "fold_batch_norms",
    "open",
    "write",
]
