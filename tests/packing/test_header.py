import json

import pytest

from skinny.packing import HeaderError, NotPackedError
from skinny.packing.header import read_header


def file(fields, data=b"", length=None, pad=b""):
    text = (fields if isinstance(fields, bytes) else json.dumps(fields).encode()) + pad
    return (len(text) if length is None else length).to_bytes(8, "little") + text + data


def part(begin=0, end=8, dtype="F32", shape=(2,)):
    return {"dtype": dtype, "shape": list(shape), "data_offsets": [begin, end]}


def test_a_good_header_gives_places_in_the_file():
    data = file({"__metadata__": {"k": "v"}, "a": part()}, bytes(8), pad=b"   ")
    header = read_header(data)
    assert header.metadata == {"k": "v"}
    assert header.parts["a"].end == len(data)
    assert header.parts["a"].shape == (2,)


BAD = {
    "a name twice": (
        file(b'{"a":%b,"a":%b}' % ((json.dumps(part()).encode(),) * 2), bytes(8)),
        "twice",
    ),
    "no JSON": (file(b"{nonsense}"), "not JSON"),
    "bytes that are no text": (file(b'{"\xff": 1}'), "not JSON"),
    "JSON that never ends": (file(b'{"a":' * 100_000), "not JSON"),
    "a number of a million digits": (file(b'{"a":' + b"1" * 1_000_000 + b"}"), "not JSON"),
    "NaN": (file(b'{"a": NaN}'), "NaN"),
    "metadata that is no table": (file({"__metadata__": []}), "metadata"),
    "metadata that is no text": (file({"__metadata__": {"a": 1}}), "metadata"),
    "an entry that is no table": (file({"a": 3}), "not dtype, shape"),
    "a missing field": (file({"a": {"dtype": "F32", "shape": []}}), "not dtype, shape"),
    "a field too many": (file({"a": part() | {"x": 1}}, bytes(8)), "not dtype, shape"),
    "an unknown type": (file({"a": part(dtype="F33")}, bytes(8)), "unknown type 'F33'"),
    "a type that is no text": (file({"a": part(dtype=["F32"])}, bytes(8)), "unknown type"),
    "a negative side": (file({"a": part(shape=(-2,))}, bytes(8)), "impossible shape"),
    "a truth as a side": (file({"a": part(shape=(True, 2))}, bytes(8)), "impossible shape"),
    "a fraction as a side": (file({"a": part(shape=(2.0,))}, bytes(8)), "impossible shape"),
    "a product that overflows": (
        file({"a": part(shape=(2**32, 2**32))}, bytes(8)),
        "impossible shape",
    ),
    "a product that wraps to the right size": (
        file({"a": part(shape=(2**62 + 1, 2))}, bytes(8)),
        "impossible shape",
    ),
    "an overflow hidden by a zero": (
        file({"a": part(0, 0, shape=(2**62, 2**62, 0))}),
        "impossible shape",
    ),
    "33 dimensions": (file({"a": part(shape=(1,) * 32 + (2,))}, bytes(8)), "impossible shape"),
    "one offset": (file({"a": part() | {"data_offsets": [8]}}, bytes(8)), "two whole numbers"),
    "a negative offset": (
        file({"a": part() | {"data_offsets": [-8, 0]}}, bytes(8)),
        "two whole numbers",
    ),
    "offsets that do not fit the shape": (file({"a": part(0, 12)}, bytes(12)), "do not fit"),
    "offsets backwards": (file({"a": part(8, 0)}, bytes(8)), "do not fit"),
    "offsets beyond the file": (file({"a": part(800, 808)}, bytes(8)), "its place is"),
    "overlapping parts": (file({"a": part(), "b": part(4, 12)}, bytes(12)), "its place is"),
    "the same bytes twice": (file({"a": part(), "b": part()}, bytes(8)), "its place is"),
    "a hole": (file({"a": part(), "b": part(12, 20)}, bytes(20)), "its place is"),
    "bytes left over": (file({"a": part()}, bytes(9)), "the file has"),
    "bytes missing": (file({"a": part()}, bytes(7)), "the file has"),
}


@pytest.mark.parametrize("case", BAD, ids=str)
def test_a_bad_header_is_refused(case):
    data, message = BAD[case]
    with pytest.raises(HeaderError, match=message):
        read_header(data)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"1234567",
        file(b"{}", length=2**63),  # a header longer than the file
        file(b"{}", length=3),
        file(b"[]"),
        b"\x89PNG\r\n\x1a\n" + bytes(100),
    ],
)
def test_what_does_not_begin_as_safetensors_is_told_so(data):
    with pytest.raises(NotPackedError):
        read_header(data)


def test_a_huge_header_is_refused_before_it_is_parsed(monkeypatch):
    monkeypatch.setattr("skinny.packing.header.LARGEST_HEADER", 10)
    with pytest.raises(HeaderError, match="larger than"):
        read_header(file({"a": part()}, bytes(8)))
