"""Writing a packed file, tensor by tensor."""

import os
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from skinny.errors import SkinnyError
from skinny.packing import codec, manifest, preprocessing
from skinny.packing.container import METADATA, Spool, content, digest
from skinny.packing.dtypes import CARRIER, name_of
from skinny.packing.manifest import Manifest
from skinny.packing.values import VALUES, Values, applicable


class Bits(NamedTuple):
    """An array whose type NumPy lacks: its bits, and the name of the type (`BF16`)."""

    array: NDArray[Any]
    dtype: str


class Tied(NamedTuple):
    """Another name for a tensor that came before."""

    name: str


Array = NDArray[Any] | Bits | Tied
Tensors = Mapping[str, Array] | Iterable[tuple[str, Array]]


def write(
    path: str | os.PathLike[str],
    tensors: Tensors,
    *,
    graph: Mapping[str, Any] | None = None,
    format: int = 1,
    preprocessing: Mapping[str, Any] | None = None,
    labels: Iterable[str] | None = None,
    values: Values | Mapping[str, Values] = "exact",
    signed_zeros: bool = False,
    config_hash: str | None = None,
    sparsity: Mapping[str, Any] | None = None,
) -> None:
    """Write a packed file, atomically, holding one tensor at a time.

    tensors: names and arrays, taken one by one. graph, preprocessing: as docs/format.md has them;
    format: the one the graph is in, 1 or 2 (preprocessing wants mean and std, the rest has
    defaults). values: how floating tensors are stored, those of two dimensions and more, or each by
    name. signed_zeros: keep the sign of -0.0, which a weight pruned by multiplication often is;
    without it every zero comes back as 0.0.
    config_hash, sparsity: where the weights come from, any text and any JSON table.
    """
    for kind in values.values() if isinstance(values, Mapping) else [values]:
        if kind not in VALUES:
            raise SkinnyError(f"values={kind!r} is not known; it may be {', '.join(VALUES)}")
    path = Path(path)
    book = Manifest(
        labels=None if labels is None else [str(label) for label in labels],
        preprocessing=_preprocessing(preprocessing),
        config_hash=config_hash,
        sparsity=None if sparsity is None else dict(sparsity),
    )
    try:
        with tempfile.TemporaryFile(dir=path.parent) as waiting:
            spool, small = Spool(waiting), bytearray()
            for name, array in tensors.items() if isinstance(tensors, Mapping) else tensors:
                _add(spool, small, book, name, array, values, signed_zeros)
            book.format = format
            if graph is not None:
                book.graph = manifest.checked_graph(dict(graph), book, format)
            manifest.check_preprocessing(book)
            if book.small:
                book.small_check = digest(bytes(small))
                spool.add(manifest.SMALL_PART, "U8", np.frombuffer(bytes(small), np.uint8))
                forms = {book.tensors[name].form for name in book.small}
                format = manifest.ADAPTIVE if "adaptive" in forms else manifest.BUNDLED
            packed = manifest.dump(book)
            spool.add(manifest.PART, "U8", packed)
            spool.save(path, {"skinny": str(format), "manifest": digest(content(packed))})
    except OSError as problem:
        raise SkinnyError(f"cannot write {path}: {problem.strerror or problem}") from problem


def _preprocessing(record: Mapping[str, Any] | None) -> dict[str, Any] | None:
    return None if record is None else preprocessing.check(preprocessing.complete(dict(record)))


def _add(
    spool: Spool,
    small: bytearray,
    book: Manifest,
    name: str,
    array: Array,
    values: Values | Mapping[str, Values],
    signed_zeros: bool,
) -> None:
    if name in book.tensors or name in book.tied:
        raise SkinnyError(f"the tensor {name!r} comes twice")
    if name in (manifest.PART, manifest.SMALL_PART, METADATA):
        raise SkinnyError(f"cannot store a tensor as {name!r}: the name is taken")
    book.names.append(name)
    if isinstance(array, Tied):
        if array.name not in book.tensors:
            raise SkinnyError(f"{name!r} is tied to {array.name!r}, which did not come before it")
        book.tied[name] = array.name
        return
    bits = array if isinstance(array, Bits) else Bits(array, name_of(array))
    plain = np.asarray(bits.array, CARRIER[bits.dtype], order="C")
    if isinstance(values, Mapping):
        wish = values.get(name, "exact")
    else:
        wish = applicable(values, bits.dtype, plain.shape)
    entry, parts = codec.encode(name, plain, bits.dtype, wish, signed_zeros=signed_zeros)
    book.tensors[name] = entry
    if sum(part.nbytes for part in parts.values()) <= codec.SMALL:
        book.small[name] = [parts[role].size for role in entry.parts()]
        for role, dtype in entry.parts().items():
            small += content(parts[role].astype(CARRIER[dtype], copy=False))
        return
    book.checks[name] = digest(*map(content, parts.values()))
    for role, dtype in entry.parts().items():
        own_shape = entry.form == "dense" and role == "values"
        part = parts[role].reshape(entry.shape) if own_shape else parts[role]
        spool.add(manifest.part_name(name, role, entry), dtype, part)
