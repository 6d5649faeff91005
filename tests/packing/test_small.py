"""Small tensors, whose parts lie together in one part of the file: format 3."""

import json
import zlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.packing import reseal, samples

from skinny import packing
from skinny.packing import ChecksumError, FormatError, ManifestError
from skinny.packing.container import digest
from skinny.packing.dictionary import DICTIONARY
from skinny.packing.header import read_header
from skinny.packing.manifest import PART, SMALL_PART


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    path = tmp_path_factory.mktemp("small") / "model.skinny"
    packing.write(
        path,
        samples.tensors(),
        graph=samples.GRAPH,
        preprocessing=samples.PREPROCESSING,
        labels=samples.LABELS,
    )
    return path


def changed(data, change):
    """The file with another manifest or other small parts, sealed as an attacker would."""
    header = read_header(data)
    fields = json.loads(header.text)
    parts = {name: bytearray(data[part.begin : part.end]) for name, part in header.parts.items()}
    book = json.loads(zlib.decompressobj(zdict=DICTIONARY).decompress(bytes(parts[PART])))
    change(book, parts)
    deflater = zlib.compressobj(9, zdict=DICTIONARY)
    parts[PART] = deflater.compress(json.dumps(book).encode()) + deflater.flush()
    if SMALL_PART in parts and isinstance(book.get("small"), str):
        book["small"] = digest(bytes(parts[SMALL_PART]))
        deflater = zlib.compressobj(9, zdict=DICTIONARY)
        parts[PART] = deflater.compress(json.dumps(book).encode()) + deflater.flush()
    fields["__metadata__"] |= {"manifest": digest(bytes(parts[PART])), "check": "0" * 16}
    at = 0
    for name, part in parts.items():
        shape = [len(part)] if name in (PART, SMALL_PART) else fields[name]["shape"]
        fields[name] = fields[name] | {"shape": shape, "data_offsets": [at, at + len(part)]}
        at += len(part)
    kept = {name: fields[name] for name in ("__metadata__", *parts)}
    return reseal.seal_header(kept, b"".join(bytes(part) for part in parts.values()))


def test_the_header_names_no_small_tensor_and_all_come_back(path):
    header = read_header(path.read_bytes())
    assert header.metadata["skinny"] == "4"
    assert {PART, SMALL_PART} <= header.parts.keys()
    assert len(header.text) < 300
    with packing.open(path) as file:
        assert file.format == 1
        file.verify()
        for name, array in samples.tensors().items():
            if isinstance(array, np.ndarray):
                np.testing.assert_array_equal(file.read(name), array)


def test_large_tensors_are_parts_of_their_own_beside_small_ones(tmp_path):
    large, small = np.arange(1, 10_001, dtype=np.float32), np.arange(5, dtype=np.float32)
    packing.write(tmp_path / "m.skinny", {"large": large, "small": small})
    assert set(read_header((tmp_path / "m.skinny").read_bytes()).parts) == {
        *("large", PART, SMALL_PART)
    }
    with packing.open(tmp_path / "m.skinny") as file:
        np.testing.assert_array_equal(file.read("large"), large)
        np.testing.assert_array_equal(file.read("small"), small)


def test_the_format_of_the_graph_is_kept(path, tmp_path):
    other = tmp_path / "2.skinny"
    graph = {"inputs": [], "nodes": [], "outputs": []}
    packing.write(other, {"a": np.ones(3)}, graph=graph, format=2)
    with packing.open(other) as file:
        assert file.format == 2


def test_every_flipped_bit_is_noticed(path, tmp_path):
    good, damaged = path.read_bytes(), tmp_path / "damaged.skinny"
    for at in range(0, len(good), 11):
        data = bytearray(good)
        data[at] ^= 1 << at % 8
        damaged.write_bytes(data)
        with pytest.raises(FormatError):
            packing.open(damaged)


def entry(book):
    return next(record for record in book["tensors"].values() if "small" in record)


@pytest.mark.parametrize(
    "change",
    [
        lambda book, _: book.pop("small"),
        lambda book, _: book.update(small=3),
        lambda book, _: book.pop("format"),
        lambda book, _: book.update(format=3),
        lambda book, _: book.update(format=True),
        lambda book, _: entry(book).update(small=[]),
        lambda book, _: entry(book).update(small=[-1]),
        lambda book, _: entry(book).update(small=[2**62]),
        lambda book, _: entry(book).update(small="4"),
        lambda book, _: entry(book).update(check="0" * 16),
        lambda book, _: entry(book).pop("small"),
        lambda _, parts: parts[SMALL_PART].append(0),
        lambda _, parts: parts[SMALL_PART].pop(),
        lambda _, parts: parts.pop(SMALL_PART),
    ],
)
def test_hostile_manifests_are_refused(path, tmp_path, change):
    hostile = tmp_path / "hostile.skinny"
    hostile.write_bytes(changed(path.read_bytes(), change))
    with pytest.raises(ManifestError):
        packing.open(hostile)


def test_a_manifest_that_expands_too_far_is_refused(path, tmp_path):
    hostile = tmp_path / "hostile.skinny"
    hostile.write_bytes(
        changed(path.read_bytes(), lambda book, _: book.update(labels=["x" * 10_000_000]))
    )
    with pytest.raises(ManifestError, match="expands too far"):
        packing.open(hostile)


@given(st.data())
@settings(max_examples=60)
def test_small_parts_of_any_contents_are_read_or_refused(path, tmp_path_factory, data):
    def change(_, parts):
        small = parts[SMALL_PART]
        for _ in range(data.draw(st.integers(1, 5))):
            small[data.draw(st.integers(0, len(small) - 1))] = data.draw(st.integers(0, 255))

    hostile = tmp_path_factory.getbasetemp() / "any.skinny"
    hostile.write_bytes(changed(path.read_bytes(), change))
    with packing.open(hostile) as file:
        for name in file.names:
            try:
                file.read(name)
            except ChecksumError:
                raise
            except FormatError:
                continue
