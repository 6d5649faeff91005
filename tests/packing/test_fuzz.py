"""No file, however damaged or hostile, does worse than a named error.

`SKINNY_FUZZ=50000 pytest tests/packing/test_fuzz.py` is the long form.
"""

import contextlib
import os
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.packing.reseal import put_together, take_apart

from skinny import packing
from skinny.packing import FormatError
from skinny.runtime.fold import fold_batch_norms

EXAMPLES = int(os.environ.get("SKINNY_FUZZ", "1000"))
GOLDEN = {
    path.name: path.read_bytes()
    for path in sorted((Path(__file__).parent / "golden").glob("*.skinny"))
}
LEGACY = (Path(__file__).parent / "golden" / "sparse-bitmask.safetensors").read_bytes()
MOST_MEMORY = 50_000_000  # for files of a few kilobytes


def fuzz(share):
    return settings(
        max_examples=max(1, int(EXAMPLES * share)),
        deadline=5000,
        derandomize="SKINNY_FUZZ" not in os.environ,
        database=None,
        suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    )


@pytest.fixture
def path(tmp_path):
    return tmp_path / "mutant"


def read_all(path):
    """All that a reader does with a file; a `FormatError` is the worst that may happen."""
    tracemalloc.start()
    try:
        with contextlib.suppress(FormatError), packing.open(path) as file:
            for name in file.names:
                file.read(name)
            if file.graph is not None:
                fold_batch_norms(file.graph, file.read)
    finally:
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert peak < MOST_MEMORY


places = st.floats(0, 1, exclude_max=True)
edits = st.lists(
    st.one_of(
        st.tuples(st.just("set"), places, st.binary(min_size=1, max_size=8)),
        st.tuples(st.just("insert"), places, st.binary(min_size=1, max_size=40)),
        st.tuples(st.just("delete"), places, st.integers(1, 200)),
        st.tuples(st.just("copy"), places, places),
        st.tuples(st.just("cut"), places, st.none()),
    ),
    min_size=1,
    max_size=4,
)


def edit(data, changes):
    data = bytearray(data)
    for kind, place, what in changes:
        at = int(place * len(data))
        if kind == "set":
            data[at : at + len(what)] = what
        elif kind == "insert":
            data[at:at] = what
        elif kind == "delete":
            del data[at : at + what]
        elif kind == "copy":
            other = int(what * len(data))
            data[at : at + 32] = data[other : other + 32]
        else:
            del data[at:]
    return bytes(data)


@given(which=st.sampled_from(list(GOLDEN)), changes=edits)
@fuzz(0.25)
def test_damaged_files(path, which, changes):
    path.write_bytes(edit(GOLDEN[which], changes))
    read_all(path)


@given(changes=edits)
@fuzz(0.15)
def test_damaged_files_of_others(path, changes):
    path.write_bytes(edit(LEGACY, changes))
    with contextlib.suppress(FormatError):
        list(packing.read_safetensors(path))


@given(which=st.sampled_from(list(GOLDEN)), data=st.data(), seal=st.booleans())
@fuzz(0.3)
def test_hostile_contents_with_valid_checksums(path, which, data, seal):
    fields, book, parts = take_apart(GOLDEN[which])
    name = data.draw(st.sampled_from(sorted(parts)))
    length = len(parts[name])
    parts[name] = bytearray(edit(bytes(parts[name]), data.draw(edits)))
    if data.draw(st.booleans()):  # keep the length, so that the shapes still fit
        parts[name] = parts[name][:length].ljust(length, b"\0")
    else:
        width = packing.dtypes.CARRIER[fields[name]["dtype"]].itemsize
        parts[name] = parts[name][: len(parts[name]) // width * width]
        fields[name]["shape"] = [len(parts[name]) // width]
    path.write_bytes(put_together(fields, book, parts, seal))
    read_all(path)


nasty = st.one_of(
    st.sampled_from(
        [None, True, "", "x", "dense", "bitmask", "entropy", "int8", "F32", "I64", [], {}, [None]]
    ),
    st.sampled_from([0, 1, -1, 2**31, 2**62, 2**63, 10**400, 0.5, 1e308, -0.0, [0], [-1], [2**40]]),
    st.lists(st.integers(0, 2**33), max_size=5),
)


def leaves(value, path=()):
    yield path
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, inner in items:
        if isinstance(inner, dict | list):
            yield from leaves(inner, (*path, key))
        else:
            yield (*path, key)


def replace(value, path, new):
    for key in path[:-1]:
        value = value[key]
    value[path[-1]] = new


@given(which=st.sampled_from(list(GOLDEN)), data=st.data())
@fuzz(0.3)
def test_hostile_records_with_valid_checksums(path, which, data):
    fields, book, parts = take_apart(GOLDEN[which])
    for _ in range(data.draw(st.integers(1, 3))):
        target = data.draw(st.sampled_from([book, book, fields]))
        spot = data.draw(st.sampled_from([spot for spot in leaves(target) if spot]))
        new = data.draw(nasty)
        replace(target, spot, list(new) if isinstance(new, list) else new)
    path.write_bytes(put_together(fields, book, parts))
    read_all(path)


def test_the_tools_put_a_file_together_as_it_was(path):
    """Otherwise the tests above would only see broken seals."""
    for data in GOLDEN.values():
        path.write_bytes(put_together(*take_apart(data)))
        with packing.open(path) as file:
            file.verify()
