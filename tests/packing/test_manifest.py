import json
import zlib

import numpy as np
import pytest

from skinny import packing
from skinny.packing import FormatError, GraphError, ManifestError, MaskError, manifest

PARTS = {"w": ("F32", 6), "s:values": ("F32", 3), "s:mask": ("U8", 2)}
TENSORS = {
    "w": {"dtype": "F32", "shape": [2, 3], "form": "dense", "check": "0" * 16},
    "s": {"dtype": "F32", "shape": [4, 4], "form": "bitmask", "check": "0" * 16},
}


def load(fields, parts=None, **changes):
    text = fields if isinstance(fields, bytes) else json.dumps(fields).encode()
    return manifest.load(zlib.compress(text), PARTS if parts is None else parts)


def change(name, **fields):
    return {"tensors": TENSORS | {name: TENSORS.get(name, {}) | fields}}


def test_a_good_manifest_loads():
    book = load({"tensors": TENSORS | {"t": {"tied": "w"}}})
    assert book.names == ["w", "s", "t"]
    assert book.shape("t") == (2, 3)
    assert book.shape("x") is None


def test_unknown_fields_are_for_newer_writers_and_ignored():
    assert load({"tensors": TENSORS, "colour": "blue"}).names == ["w", "s"]


BAD = {
    "no tensors": ({}, ManifestError, "no table of tensors"),
    "tensors that are no table": ({"tensors": []}, ManifestError, "no table of tensors"),
    "an entry that is no table": ({"tensors": TENSORS | {"w": 1}}, ManifestError, "other fields"),
    "a missing field": ({"tensors": {"w": {"dtype": "F32"}}}, ManifestError, "other fields"),
    "a field too many": (change("w", more=1), ManifestError, "other fields"),
    "an unknown type": (change("w", dtype="F33"), ManifestError, "impossible dtype"),
    "an unknown form": (change("w", form="zip"), ManifestError, "impossible form"),
    "a shape that overflows": (change("w", shape=[2**40] * 3), ManifestError, "impossible shape"),
    "a shape that does not fit": (change("w", shape=[2, 4]), MaskError, "6 values for 8"),
    "unknown values": (change("w", values="int1", error=0.0), ManifestError, "impossible values"),
    "exact values with an error": (
        change("w", values="exact", error=0.0),
        ManifestError,
        "impossible values",
    ),
    "an infinite error": (
        change("w", values="int8", error=float("1e999")),
        ManifestError,
        "Infinity|impossible error",
    ),
    "values that do not suit the type": (
        change("w", dtype="F16", values="fp16", error=0.0),
        ManifestError,
        "cannot hold fp16",
    ),
    "negative zeros in a dense tensor": (
        change("w", negative_zeros=1),
        ManifestError,
        "impossible negative_zeros",
    ),
    "negative zeros of integers": (
        change("s", dtype="I32", negative_zeros=1),
        ManifestError,
        "impossible negative_zeros",
    ),
    "coded values of integers": (
        change("s", dtype="I32", kept=3),
        ManifestError,
        "impossible kept",
    ),
    "coded values of a dense tensor": (change("w", kept=6), ManifestError, "impossible kept"),
    "a number of values that is none": (change("s", kept=-1), ManifestError, "impossible kept"),
    "a checksum that is no text": (change("w", check=5), ManifestError, "impossible check"),
    "a missing part": (change("x", **TENSORS["w"]), ManifestError, "'x' of type F32 is missing"),
    "a part of another type": (change("w", dtype="F64"), ManifestError, "'w' of type F64"),
    "a part without a tensor": ({"tensors": {"w": TENSORS["w"]}}, ManifestError, "no tensor"),
    "more values than entries": (change("s", shape=[2]), MaskError, "3 values, more than"),
    "a mask of another length": (change("s", shape=[20, 20]), MaskError, "mask of 2 bytes"),
    "tied to nothing": (change("t", tied="x"), ManifestError, "tied to 'x'"),
    "tied to a tied name": (
        {"tensors": TENSORS | {"t": {"tied": "w"}, "u": {"tied": "t"}}},
        ManifestError,
        "tied to 't'",
    ),
    "tied to no name": ({"tensors": TENSORS | {"t": {"tied": []}}}, ManifestError, "tied to"),
    "labels that are no list": ({"tensors": TENSORS, "labels": "ab"}, ManifestError, "labels"),
    "labels that are no texts": ({"tensors": TENSORS, "labels": [1]}, ManifestError, "labels"),
    "a graph that is none": ({"tensors": TENSORS, "graph": 3}, GraphError, "exactly the fields"),
    "preprocessing that is none": (
        {"tensors": TENSORS, "preprocessing": []},
        ManifestError,
        "must be a table of fields",
    ),
    "a hash that is no text": ({"tensors": TENSORS, "config_hash": 1}, ManifestError, "hash"),
    "a record that is no table": ({"tensors": TENSORS, "sparsity": [1]}, ManifestError, "record"),
    "a list": ([], ManifestError, "not a JSON object"),
    "a name twice": (b'{"tensors":{"a":1,"a":1}}', ManifestError, "twice"),
    "no JSON": (b"{", ManifestError, "not JSON"),
}


@pytest.mark.parametrize("case", BAD, ids=str)
def test_a_bad_manifest_is_refused(case):
    fields, error, message = BAD[case]
    with pytest.raises(error, match=message):
        load(fields)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("mean", [0.5, "x"]),
        ("mean", []),
        ("mean", [float("1e308") * 10]),
        ("std", [1.0]),
        ("std", [1.0, -1.0]),
        ("scale", None),
        ("resize", -3),
        ("resize", 10**9),
        ("resize", True),
        ("crop", [1, 2, 3]),
        ("crop", [0, 5]),
        ("input", "int4"),
        ("layout", "CHWN"),
    ],
)
def test_impossible_preprocessing_is_refused(field, value):
    record = {"mean": [0.5, 0.5], "std": [1.0, 1.0]} | {field: value}
    with pytest.raises(ManifestError, match=f"impossible {field}|impossible std"):
        packing.preprocessing.check(packing.preprocessing.complete(record))


@pytest.mark.parametrize(
    "packed",
    [
        b"",
        b"nonsense",
        zlib.compress(b"{}")[:-1],
        zlib.compress(b"{}") + b"x",
        zlib.compress(b" " * 50_000_000),  # expands too far: stopped long before 50 MB
    ],
)
def test_what_does_not_inflate_is_refused(packed):
    with pytest.raises(FormatError):
        manifest.load(packed, {})


def test_repetitive_manifests_stay_readable(tmp_path):
    path = tmp_path / "many.skinny"
    packing.write(path, {}, labels=["same"] * 200_000)
    with packing.open(path) as file:
        assert file.labels is not None
        assert len(file.labels) == 200_000


def test_the_order_of_the_state_dict_is_kept(tmp_path):
    path = tmp_path / "m.skinny"
    names = [f"z{i}" for i in (3, 1, 2)]
    packing.write(path, {name: np.ones(2) for name in names})
    with packing.open(path) as file:
        assert file.names == names
