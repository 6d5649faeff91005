import json
import os
import tracemalloc
import zlib

import numpy as np
import pytest
from safetensors import safe_open
from tests.packing import samples

from skinny import packing
from skinny.errors import SkinnyError
from skinny.packing import Bits, GraphError, ManifestError, Tied


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.skinny"


def write(path, **more):
    packing.write(
        path,
        samples.tensors(),
        graph=samples.GRAPH,
        preprocessing=samples.PREPROCESSING,
        labels=samples.LABELS,
        config_hash="1a2b3c4d",
        sparsity=samples.SPARSITY,
        **more,
    )


def test_every_tensor_comes_back_equal_and_every_zero_as_zero(path, engine):
    write(path)
    with packing.open(path) as file:
        for name in file.names:
            back, expected = file.read(name), samples.plain(name)
            assert (back.dtype, back.shape) == (expected.dtype, expected.shape), name
            np.testing.assert_array_equal(back, expected, err_msg=name)
            if back.dtype.kind == "f":
                assert not np.signbit(back[back == 0]).any(), name


def test_every_tensor_comes_back_bit_for_bit_if_signed_zeros_are_asked_for(path, engine):
    write(path, signed_zeros=True)
    with packing.open(path) as file:
        assert file.names == list(samples.tensors())
        for name in file.names:
            back, expected = file.read(name), samples.plain(name)
            assert (back.dtype, back.shape) == (expected.dtype, expected.shape), name
            assert back.tobytes() == expected.tobytes(), name


def test_the_records_come_back(path):
    write(path)
    with packing.open(path) as file:
        assert file.graph == samples.GRAPH
        assert file.labels == samples.LABELS
        assert file.preprocessing == {
            "input": "uint8",
            "layout": "NCHW",
            "scale": 1 / 255,
            **samples.PREPROCESSING,
        }
        assert file.config_hash == "1a2b3c4d"
        assert file.sparsity == samples.SPARSITY


def test_a_file_without_records_has_none(path):
    packing.write(path, {"w": np.ones(3)})
    with packing.open(path) as file:
        assert (file.graph, file.labels, file.preprocessing) == (None, None, None)
        assert (file.config_hash, file.sparsity) == (None, None)


def test_an_empty_file_is_a_file(path):
    packing.write(path, {})
    with packing.open(path) as file:
        assert file.names == []
        file.verify()


@pytest.mark.usefixtures("nothing_small")
def test_the_safetensors_library_opens_it_and_finds_the_raw_parts(path):
    write(path)
    with safe_open(path, "np") as file:
        found = {name: file.get_tensor(name) for name in file.keys() if name != "brain"}  # noqa: SIM118
        assert file.metadata()["skinny"] == "1"
    conv = samples.plain("conv.weight")
    mask = np.packbits(conv.reshape(-1) != 0, bitorder="little")
    np.testing.assert_array_equal(found["conv.weight:values"], conv[conv != 0])
    with packing.open(path) as file:
        np.testing.assert_array_equal(file.read_sparse("conv.weight").mask, mask)
    np.testing.assert_array_equal(found["fc.weight"], samples.plain("fc.weight"))
    manifest = json.loads(zlib.decompress(found["skinny:manifest"].tobytes()))
    assert manifest["tensors"]["conv.weight"]["shape"] == [24, 3, 3, 3]


@pytest.mark.usefixtures("nothing_small")
def test_every_part_is_aligned_to_its_type(path):
    write(path)
    with packing.open(path) as file:
        for name in file.names:
            for part in file.stored_parts(name).values():
                width = packing.dtypes.CARRIER[part.dtype].itemsize
                assert part.begin % width == 0, name


def test_tied_tensors_are_stored_once(path):
    array = np.arange(10_000, dtype=np.float32)
    packing.write(path, {"a": array, "b": Tied("a")})
    assert os.path.getsize(path) < 1.1 * array.nbytes
    with packing.open(path) as file:
        assert file.names == ["a", "b"]
        assert file.tied == {"b": "a"}
        np.testing.assert_array_equal(file.read("b"), array)


@pytest.mark.parametrize("scale", [1.0, 1e-30, 3e30])
def test_the_error_of_a_file_is_a_bound_in_three_digits(path, scale):
    array = np.random.default_rng(0).normal(size=(9, 7)).astype(np.float32) * np.float32(scale)
    packing.write(path, {"w": array}, values="int4")
    with packing.open(path) as file:
        found, made = file.entry("w").error, np.abs(file.read("w") - array).max()
    assert made <= found <= 1.01 * made
    assert found == float(f"{found:.2e}")


def test_parts_give_a_tensor_without_its_zeros(path):
    write(path, values="int8")
    conv = samples.plain("conv.weight")
    with packing.open(path) as file:
        pruned = file.read_sparse("conv.weight")
        dense = file.read_sparse("fc.weight")
        error = file.entry("conv.weight").error
    kept = np.unpackbits(pruned.mask, count=conv.size, bitorder="little").view(bool)
    np.testing.assert_array_equal(kept, conv.reshape(-1) != 0)
    np.testing.assert_allclose(pruned.values, conv[conv != 0], atol=error)
    assert pruned.shape == conv.shape
    assert pruned.dtype == "F32"
    assert dense.mask is None
    assert dense.values.shape == (72,)


def test_bfloat16_widens_to_float32(path):
    packing.write(path, {"w": Bits(np.array([0x3F80, 0xC000], np.uint16), "BF16")})
    with packing.open(path) as file:
        assert file.read_float32("w").tolist() == [1.0, -2.0]


def test_arrays_outlive_the_file(path):
    packing.write(path, {"w": np.arange(5.0)})
    with packing.open(path) as file:
        array = file.read("w")
    path.unlink()
    assert array.tolist() == [0, 1, 2, 3, 4]


def test_non_contiguous_and_big_endian_arrays_are_stored_as_what_they_mean(path):
    array = np.arange(12, dtype=">f4").reshape(3, 4).T
    packing.write(path, {"w": array})
    with packing.open(path) as file:
        np.testing.assert_array_equal(file.read("w"), array)


def test_writing_the_same_twice_gives_the_same_bytes(path, tmp_path):
    write(path)
    write(tmp_path / "again.skinny")
    assert path.read_bytes() == (tmp_path / "again.skinny").read_bytes()


def test_a_small_dense_tensor_costs_little_more_than_itself(path):
    packing.write(path, {"w": np.arange(100, dtype=np.float32) + 1})
    assert os.path.getsize(path) < 400 + 600


@pytest.mark.parametrize("values", ["exact", "int8"])
@pytest.mark.parametrize("sparsity", [0.0, 0.5, 0.9])
def test_packing_holds_one_tensor_at_a_time(path, values, sparsity):
    side = 1600
    largest = side * side * 4

    def layers():
        for layer in range(4):
            rng = np.random.default_rng(layer)
            array = rng.standard_normal((side, side), np.float32)
            array *= rng.random((side, side), np.float32) >= sparsity
            yield f"layer{layer}", array
            del array

    next(iter(layers()))
    tracemalloc.start()
    try:
        _, making = peak(lambda: [None for _ in layers()])
        _, packed = peak(lambda: packing.write(path, layers(), values=values))
    finally:
        tracemalloc.stop()
    assert packed < max(2 * largest, making) + os.path.getsize(path)


def peak(action):
    tracemalloc.reset_peak()
    before = tracemalloc.get_traced_memory()[0]
    result = action()
    return result, tracemalloc.get_traced_memory()[1] - before


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"values": "int9"}, "may be exact, fp16, bf16, int8, int7"),
        ({"tensors": [("a", np.ones(2)), ("a", np.ones(2))]}, "'a' comes twice"),
        ({"tensors": {"a": Tied("b")}}, "tied to 'b', which did not come before"),
        ({"tensors": {"a": np.ones(2, np.complex64)}}, "complex64"),
        ({"tensors": {"a": np.array(["x"])}}, "cannot pack an array of <U1"),
        ({"tensors": {"__metadata__": np.ones(2)}}, "name is taken"),
        ({"tensors": {"skinny:manifest": np.ones(2)}}, "name is taken"),
        ({"sparsity": {"x": object()}}, "cannot be stored as JSON"),
        ({"preprocessing": {"mean": [0.5]}}, "preprocessing lacks std"),
        ({"preprocessing": {"means": [0.5], "std": [1.0]}}, "the unknown field 'means'; it may"),
        ({"preprocessing": {"mean": [0.5], "std": [0.0]}}, "impossible std"),
        ({"graph": samples.GRAPH}, "'conv.weight' is not"),
    ],
)
def test_what_cannot_be_written_is_refused_and_leaves_no_file(path, arguments, message):
    with pytest.raises(SkinnyError, match=message):
        packing.write(**({"path": path, "tensors": {"a": np.ones(2)}} | arguments))
    assert os.listdir(path.parent) == []


def test_a_folder_that_is_not_there_is_named(tmp_path):
    with pytest.raises(SkinnyError, match=r"cannot write .*gone.*No such file"):
        packing.write(tmp_path / "gone" / "model.skinny", {})


def test_graph_and_preprocessing_errors_are_format_errors(path):
    assert issubclass(GraphError, packing.FormatError)
    assert issubclass(ManifestError, packing.FormatError)
