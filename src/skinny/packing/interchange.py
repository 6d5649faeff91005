"""Other people's files: dense safetensors in and out, and compressed-tensors' `sparse-bitmask` in.

`sparse-bitmask` stores a tensor `w` as `w.shape`, `w.compressed` (the non-zero values),
`w.bitmask` (uint8 [..., ceil(columns / 8)], each row of the last dimension padded to whole bytes,
least significant bit first) and `w.row_offsets` (where each row's values begin).
"""

import math
import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from skinny.errors import SkinnyError
from skinny.files import atomic_write
from skinny.packing import bitmask
from skinny.packing.container import TensorType, content, layout
from skinny.packing.errors import HeaderError, MaskError
from skinny.packing.header import Header, Part, is_shape, read_header
from skinny.packing.reader import PackedFile
from skinny.packing.source import Source
from skinny.packing.writer import Array, Bits

_LEGACY = ("shape", "compressed", "bitmask", "row_offsets")


def read_safetensors(path: str | os.PathLike[str]) -> Iterator[tuple[str, Array]]:
    """The tensors of a safetensors file, dense or `sparse-bitmask`, one at a time."""
    file = Source(Path(path))
    header = read_header(file)
    legacy = {
        name.removesuffix(".bitmask")
        for name in header.parts
        if name.endswith(".bitmask")
        and all(f"{name.removesuffix('.bitmask')}.{field}" in header.parts for field in _LEGACY)
    }
    inner = {f"{name}.{field}" for name in legacy for field in _LEGACY}
    for name, part in header.parts.items():
        if name not in inner:
            yield name, _array(file, part)
        elif name.endswith(".compressed"):
            tensor = name.removesuffix(".compressed")
            yield tensor, _read_legacy(tensor, header, file)


def _array(file: Source, part: Part) -> Array:
    array = file.read_part(part)
    return Bits(array, part.dtype) if part.dtype == "BF16" else array


def _read_legacy(name: str, header: Header, file: Source) -> Array:
    parts = {field: header.parts[f"{name}.{field}"] for field in _LEGACY}
    arrays = {field: file.read_part(part) for field, part in parts.items()}
    shape = [int(side) for side in arrays["shape"].reshape(-1)]
    if parts["shape"].dtype != "I64" or not shape or not is_shape(shape) or 0 in shape:
        raise HeaderError(f"{name}.shape is not the shape of a tensor")
    count, columns = math.prod(shape), shape[-1]
    width = bitmask.mask_bytes(columns)
    packed, values = arrays["bitmask"].reshape(-1), arrays["compressed"].reshape(-1)
    if parts["bitmask"].dtype != "U8" or packed.size != count // columns * width:
        raise MaskError(f"{name}.bitmask does not cover a tensor of shape {shape}")
    rows = packed.reshape(-1, width)
    kept = np.unpackbits(rows, axis=-1, count=columns, bitorder="little")
    if not np.array_equal(np.packbits(kept, axis=-1, bitorder="little"), rows):
        raise MaskError(f"{name}.bitmask has ones beyond the end of a row")
    counts = kept.sum(axis=-1, dtype=np.int64).reshape(shape[:-1])
    if counts.sum() != values.size:
        raise MaskError(f"{name}.bitmask has {counts.sum()} ones for {values.size} values")
    begins = np.cumsum(counts, axis=0) - counts if counts.ndim else counts - counts
    if not np.array_equal(arrays["row_offsets"].reshape(-1), begins.reshape(-1)):
        raise MaskError(f"{name}.row_offsets do not follow from {name}.bitmask")
    dense = np.zeros(shape, values.dtype)
    dense.reshape(-1)[kept.reshape(-1).view(bool)] = values
    return Bits(dense, "BF16") if parts["compressed"].dtype == "BF16" else dense


def to_safetensors(
    packed: str | os.PathLike[str], path: str | os.PathLike[str], **metadata: str
) -> None:
    """Unpack a packed file to dense safetensors, atomically, holding one tensor at a time.

    Tied names are written each with their own copy, since that is what readers expect.
    """
    with PackedFile(packed) as file:
        entries = {name: file.entry(name) for name in file.names}
        types = {name: TensorType(entry.dtype, entry.shape) for name, entry in entries.items()}
        names, start = layout(types, {"format": "pt", **metadata})
        try:
            with atomic_write(path) as out:
                out.write(start)
                for name in names:
                    out.write(content(file.read(name)))
        except OSError as problem:
            raise SkinnyError(f"cannot write {path}: {problem.strerror or problem}") from problem
