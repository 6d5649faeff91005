"""The manifest: what the parts of a file are, and all that is not a tensor.

Stored as the part `skinny:manifest`, zlib-compressed JSON; docs/format.md lists its fields.
"""

import json
import zlib
from dataclasses import dataclass, field
from decimal import ROUND_CEILING, Context
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skinny.errors import SkinnyError
from skinny.packing import codec, graph, preprocessing
from skinny.packing.codec import FORMS, SMALL, Entry, adaptable
from skinny.packing.dictionary import DICTIONARY
from skinny.packing.dtypes import CARRIER, FLOATS
from skinny.packing.errors import ManifestError
from skinny.packing.groups import Groups
from skinny.packing.header import is_number, is_shape, is_size, parse_json
from skinny.packing.values import VALUES, extra_part, storable

PART = "skinny:manifest"
SMALL_PART = "skinny:small"  # holds the parts of small tensors, one after the other
NEWEST = 4
BUNDLED = 3  # the format of files with such a part; others are of the format of their graph
ADAPTIVE = 4  # the same with tensors in adaptive form there
# No more than this many bytes of JSON for a byte of zlib; real ones have 5 to 20.
_MOST_EXPANSION = 40
_SMALL = 1 << 16


@dataclass
class Manifest:
    """`tensors` in the order of the state_dict; a tied name has no entry of its own."""

    tensors: dict[str, Entry] = field(default_factory=dict)
    checks: dict[str, str] = field(default_factory=dict)
    tied: dict[str, str] = field(default_factory=dict)
    names: list[str] = field(default_factory=list)
    small: dict[str, list[int]] = field(default_factory=dict)  # lengths of parts in SMALL_PART
    small_check: str | None = None
    format: int = 1  # of the graph: 1 is checked here, others by `skinny.graph`
    graph: dict[str, Any] | None = None
    preprocessing: dict[str, Any] | None = None
    labels: list[str] | None = None
    config_hash: str | None = None
    sparsity: dict[str, Any] | None = None

    def shape(self, name: str) -> tuple[int, ...] | None:
        """The shape of a tensor of the file, tied names included; None if there is no such."""
        entry = self.tensors.get(self.tied.get(name, name))
        return None if entry is None else entry.shape

    def places(self) -> dict[str, dict[str, tuple[int, int]]]:
        """Of the tensors in SMALL_PART, where each of their parts lies there: role -> bytes."""
        found: dict[str, dict[str, tuple[int, int]]] = {}
        at = 0
        for name, lengths in self.small.items():
            found[name] = {}
            roles = self.tensors[name].parts()
            for (role, dtype), length in zip(roles.items(), lengths, strict=True):
                found[name][role] = (at, at + length * CARRIER[dtype].itemsize)
                at = found[name][role][1]
        return found


def part_name(name: str, role: str, entry: Entry) -> str:
    """A dense exact tensor is stored under its own name, so that any reader finds it."""
    return name if entry.form == "dense" and entry.values == "exact" else f"{name}:{role}"


def _above(error: float) -> float:
    """In three digits, rounded up: more would be bytes that no compressor saves."""
    return float(Context(prec=3, rounding=ROUND_CEILING).create_decimal(repr(error)))


def dump(manifest: Manifest) -> NDArray[np.uint8]:
    tensors: dict[str, Any] = {}
    for name in manifest.names:
        if name in manifest.tied:
            tensors[name] = {"tied": manifest.tied[name]}
            continue
        entry = manifest.tensors[name]
        tensors[name] = {"dtype": entry.dtype, "shape": list(entry.shape), "form": entry.form}
        if entry.values != "exact":
            tensors[name] |= {"values": entry.values, "error": _above(entry.error)}
        if entry.negative_zeros:
            tensors[name]["negative_zeros"] = entry.negative_zeros
        if entry.kept is not None:
            tensors[name]["kept"] = entry.kept
        if entry.groups is not None:
            tensors[name]["groups"] = list(entry.groups)
        if name in manifest.small:
            tensors[name]["small"] = manifest.small[name]
        else:
            tensors[name]["check"] = manifest.checks[name]
    bundled = {"small": manifest.small_check, "format": manifest.format}
    fields = {
        "tensors": tensors,
        **(bundled if manifest.small else {}),
        "graph": manifest.graph,
        "preprocessing": manifest.preprocessing,
        "labels": manifest.labels,
        "config_hash": manifest.config_hash,
        "sparsity": manifest.sparsity,
    }
    try:
        text = json.dumps(fields, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    except (TypeError, ValueError) as problem:
        raise SkinnyError(f"the sparsity record cannot be stored as JSON: {problem}") from None
    words = DICTIONARY if manifest.small else b""
    packed = _deflate(text.encode(), words, 9)
    if len(text.encode()) > _limit(len(packed)):
        packed = _deflate(text.encode(), words, 0)
    return np.frombuffer(packed, np.uint8)


def load(packed: bytes, parts: dict[str, tuple[str, int]], version: int = 1) -> Manifest:
    """The checked manifest. `parts` are the stored ones beside it: name -> (dtype, length)."""
    text = _inflate(packed, DICTIONARY if version >= BUNDLED else b"")
    fields = parse_json(text, ManifestError, "the manifest")
    tensors = fields.get("tensors")
    if not isinstance(tensors, dict):
        raise ManifestError("the manifest has no table of tensors")
    manifest = Manifest(names=list(tensors), format=version)
    left = dict(parts)
    bundle = 0
    if version >= BUNDLED:
        bundle = _load_bundle(manifest, fields, left)
    for name, record in tensors.items():
        if isinstance(record, dict) and set(record) == {"tied"}:
            manifest.tied[name] = record["tied"]
        else:
            manifest.tensors[name] = _entry(name, record, version)
            if "small" in record:
                manifest.small[name] = record["small"]
                _check_small(name, manifest.tensors[name], record["small"])
            else:
                manifest.checks[name] = record["check"]
                _claim_parts(name, manifest.tensors[name], left)
    ends = [end for of_one in manifest.places().values() for _, end in of_one.values()]
    if (ends[-1] if ends else 0) != bundle:
        raise ManifestError(f"the part {SMALL_PART!r} has {bundle} bytes, and its tensors others")
    if left:
        raise ManifestError(f"the file has a part {min(left)!r} that belongs to no tensor")
    for name, other in manifest.tied.items():
        if not isinstance(other, str) or other not in manifest.tensors:
            raise ManifestError(f"{name!r} is tied to {other!r:.80}, which is not stored")
    _load_records(manifest, fields)
    return manifest


def _load_bundle(
    manifest: Manifest, fields: dict[str, Any], left: dict[str, tuple[str, int]]
) -> int:
    """The length of the part of small tensors; the graph's format."""
    dtype, length = left.pop(SMALL_PART, ("", 0))
    check, version = fields.get("small"), fields.get("format")
    if dtype != "U8" or not isinstance(check, str):
        raise ManifestError(f"the part {SMALL_PART!r} or its checksum is missing")
    if type(version) is not int or not 1 <= version < BUNDLED:
        raise ManifestError(f"the graph's format is {version!r:.20}")
    manifest.small_check, manifest.format = check, version
    return length


def _check_small(name: str, entry: Entry, lengths: object) -> None:
    roles = entry.parts()
    if not (
        isinstance(lengths, list)
        and len(lengths) == len(roles)
        and all(is_size(length, SMALL) for length in lengths)
    ):
        raise ManifestError(f"{name!r} has impossible lengths of parts: {lengths!r:.80}")
    codec.check(name, entry, dict(zip(roles, lengths, strict=True)))


def checked_graph(record: object, manifest: Manifest, version: int) -> dict[str, Any]:
    """A graph of format 1, checked; one of a later format as it is, if it is a table at all."""
    if version == 1:
        return graph.check(record, manifest.shape)
    if not isinstance(record, dict) or not isinstance(record.get("inputs"), list):
        raise ManifestError("the graph is not a table with inputs")
    return record


def _load_records(manifest: Manifest, fields: dict[str, Any]) -> None:
    record = fields.get("graph")
    manifest.graph = None if record is None else checked_graph(record, manifest, manifest.format)
    record = fields.get("preprocessing")
    manifest.preprocessing = None if record is None else preprocessing.check(record)
    check_preprocessing(manifest)
    labels = fields.get("labels")
    if labels is not None and not (
        isinstance(labels, list) and all(isinstance(label, str) for label in labels)
    ):
        raise ManifestError("the labels are not a list of texts")
    manifest.labels = labels
    config_hash, sparsity = fields.get("config_hash"), fields.get("sparsity")
    if config_hash is not None and not isinstance(config_hash, str):
        raise ManifestError("the config hash is not a text")
    if sparsity is not None and not isinstance(sparsity, dict):
        raise ManifestError("the sparsity record is not a table")
    manifest.config_hash, manifest.sparsity = config_hash, sparsity


def check_preprocessing(manifest: Manifest) -> None:
    """Raises `ManifestError` unless the preprocessing fits what the graph takes."""
    if manifest.preprocessing is not None and manifest.graph is not None:
        preprocessing.check_channels(manifest.preprocessing, manifest.graph)


def _entry(name: str, record: object, version: int) -> Entry:
    is_small = version >= BUNDLED and isinstance(record, dict) and "small" in record
    required = {"dtype", "shape", "form", "small" if is_small else "check"}
    optional = {"values", "error", "negative_zeros", "kept", "groups"}
    if (
        not isinstance(record, dict)
        or not required <= set(record) <= required | optional
        or ("values" in record) != ("error" in record)
    ):
        raise ManifestError(f"the manifest's entry for {name!r} has other fields than it should")
    dtype, shape, form = record["dtype"], record["shape"], record["form"]
    values, error = record.get("values", "exact"), record.get("error", 0.0)
    negative, kept = record.get("negative_zeros", 0), record.get("kept")
    groups = record.get("groups")
    rules = {
        "dtype": isinstance(dtype, str) and dtype in CARRIER,
        "shape": is_shape(shape),
        "form": form in FORMS and (form != "adaptive" or (version >= ADAPTIVE and is_small)),
        "values": values in VALUES and (values == "exact") == ("values" not in record),
        "error": is_number(error) and error >= 0,
        "check": is_small or isinstance(record.get("check"), str),
        "negative_zeros": is_size(negative)
        and (not negative or (form != "dense" and values == "exact" and dtype in FLOATS)),
        "kept": kept is None
        or (is_size(kept) and dtype in FLOATS and (form != "dense" or extra_part(values))),
        "groups": groups is None or (form != "dense" and _fit(groups, shape)),
    }
    for what, holds in rules.items():
        if not holds:
            raise ManifestError(f"{name!r} has an impossible {what}: {record.get(what)!r:.80}")
    if form == "adaptive" and (
        kept is None or negative or groups is not None or not adaptable(dtype, tuple(shape))
    ):
        raise ManifestError(f"{name!r} of {dtype} and shape {shape} cannot be in adaptive form")
    if not storable(values, dtype, tuple(shape)):
        raise ManifestError(f"{name!r} of {dtype} and shape {shape} cannot hold {values} values")
    of_groups = None if groups is None else Groups(*groups)
    return Entry(dtype, tuple(shape), form, values, float(error), negative, kept, of_groups)


def _fit(groups: object, shape: object) -> bool:
    """Is it an axis of the shape and a size that divides it?"""
    if not (isinstance(groups, list) and is_shape(groups) and len(groups) == 2):
        return False
    return isinstance(shape, list) and is_shape(shape) and Groups(*groups).fit(tuple(shape))


def _claim_parts(name: str, entry: Entry, left: dict[str, tuple[str, int]]) -> None:
    sizes = {}
    for role, dtype in entry.parts().items():
        part = part_name(name, role, entry)
        found = left.pop(part, None)
        if found is None or found[0] != dtype:
            raise ManifestError(f"the part {part!r} of type {dtype} is missing")
        sizes[role] = found[1]
    codec.check(name, entry, sizes)


def _limit(packed: int) -> int:
    return _SMALL + _MOST_EXPANSION * packed


def _deflate(text: bytes, words: bytes, level: int) -> bytes:
    deflater = zlib.compressobj(level, zdict=words)
    return deflater.compress(text) + deflater.flush()


def _inflate(packed: bytes, words: bytes) -> bytes:
    inflater = zlib.decompressobj(zdict=words)
    try:
        text = inflater.decompress(packed, _limit(len(packed)))
    except zlib.error as problem:
        raise ManifestError(f"the manifest cannot be decompressed: {problem}") from None
    if not inflater.eof or inflater.unused_data:
        raise ManifestError("the manifest's compressed form ends early, late, or expands too far")
    return text
