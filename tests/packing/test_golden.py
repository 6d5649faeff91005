from pathlib import Path

import numpy as np
import pytest
from tests.packing import samples

from skinny import packing

GOLDEN = Path(__file__).parent / "golden"


@pytest.fixture
def expected():
    with np.load(GOLDEN / "v1.npz") as file:
        return dict(file)


def test_exact_files_of_format_1_read_as_they_always_did(engine, expected):
    with packing.open(GOLDEN / "v1-exact.skinny") as file:
        assert set(file.names) == set(expected)
        for name in file.names:
            back = file.read(name)
            assert (back.dtype, back.shape) == (expected[name].dtype, expected[name].shape)
            assert back.tobytes() == expected[name].tobytes(), name
        assert {file.entry(name).form for name in file.names} == {"dense", "bitmask", "entropy"}
        assert {file.entry(name).kept is None for name in file.names} == {True, False}
        assert {file.entry(name).negative_zeros > 0 for name in file.names} == {True, False}
        assert file.graph == samples.GRAPH
        assert file.labels == samples.LABELS
        assert file.config_hash == "1a2b3c4d"


ROUNDED = {"conv.weight", "again", "fc.weight", "double", "multiplied", "coded"}


@pytest.mark.parametrize("values", ["fp16", "bf16", "int8"])
def test_rounded_files_of_format_1_read_within_their_error(engine, expected, values):
    rounded = ROUNDED | ({"half"} if values == "int8" else set())
    with packing.open(GOLDEN / f"v1-{values}.skinny") as file:
        assert {name for name in file.names if file.entry(name).values == values} == rounded
        for name in file.names:
            back, original = file.read(name), expected[name]
            if name in rounded:
                error = np.abs(back.astype(np.float64) - original.astype(np.float64)).max()
                assert 0 < error <= file.entry(name).error, name
            else:
                assert back.tobytes() == original.tobytes(), name


@pytest.mark.usefixtures("nothing_small")
def test_todays_writer_stores_the_same_parts(tmp_path, monkeypatch):
    """Also the bytes are those of the golden file: mask bits, entropy code, order, alignment."""
    monkeypatch.setattr("skinny.packing.codec._PART", 100)  # what a part cost in format 1
    monkeypatch.setattr("skinny.packing.codec.SMALL", -1)  # which it had not
    packing.write(tmp_path / "today.skinny", samples.tensors(), signed_zeros=True)
    paths = tmp_path / "today.skinny", GOLDEN / "v1-exact.skinny"
    new, old = (path.read_bytes() for path in paths)
    with packing.open(paths[0]) as today, packing.open(paths[1]) as golden:
        for name in golden.names:
            for role, part in golden.stored_parts(name).items():
                mine = today.stored_parts(name)[role]
                assert part.shape == mine.shape
                assert new[mine.begin : mine.end] == old[part.begin : part.end], (name, role)
