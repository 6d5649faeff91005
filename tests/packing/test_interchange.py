import json
import os
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import load_file, save_file
from tests.packing import samples
from tests.packing.golden.make import legacy_tensor, save_legacy

from skinny import packing
from skinny.errors import SkinnyError
from skinny.packing import HeaderError, MaskError

GOLDEN = Path(__file__).parent / "golden"


def test_a_sparse_bitmask_file_of_compressed_tensors_reads(tmp_path):
    tensors = dict(packing.read_safetensors(GOLDEN / "sparse-bitmask.safetensors"))
    assert list(tensors) == ["layer.bias", "layer.weight"]
    np.testing.assert_array_equal(tensors["layer.weight"], legacy_tensor())
    np.testing.assert_array_equal(tensors["layer.bias"], np.arange(6, dtype=np.float32))


def test_names_that_only_look_like_sparse_bitmask_are_plain_tensors(tmp_path):
    path = tmp_path / "plain.safetensors"
    save_file({"a.shape": np.ones(2), "a.bitmask": np.ones(3)}, path)
    assert {name for name, _ in packing.read_safetensors(path)} == {"a.shape", "a.bitmask"}


@pytest.mark.parametrize(
    ("field", "change", "error"),
    [
        ("bitmask", lambda a: a[:-1], MaskError),
        ("bitmask", lambda a: a | 1, MaskError),
        ("bitmask", lambda a: a | 0x80, MaskError),  # beyond the five columns
        ("bitmask", lambda a: a.astype(np.int8), MaskError),
        ("compressed", lambda a: a[:-1], MaskError),
        ("row_offsets", lambda a: a + 1, MaskError),
        ("row_offsets", lambda a: a[:-1], MaskError),
        ("shape", lambda a: a * 0, HeaderError),
        ("shape", lambda a: -a, HeaderError),
        ("shape", lambda a: a + 2**40, HeaderError),
        ("shape", lambda a: a.astype(np.float64), HeaderError),
        ("shape", lambda a: a[:0], HeaderError),
        ("shape", lambda a: a * 2, MaskError),
    ],
)
def test_a_damaged_sparse_bitmask_file_is_refused(tmp_path, field, change, error):
    path = tmp_path / "bad.safetensors"
    save_legacy(path)
    tensors = load_file(path)
    name = f"layer.weight.{field}"
    save_file(tensors | {name: np.ascontiguousarray(change(tensors[name]))}, path)
    with pytest.raises(error):
        list(packing.read_safetensors(path))


def test_dense_safetensors_pack_and_unpack_to_the_same_tensors(tmp_path, rng):
    dense, packed, back = (tmp_path / name for name in ("a.safetensors", "a.skinny", "b.st"))
    weight = np.where(rng.random((64, 64)) < 0.1, rng.random((64, 64)), 0).astype(np.float32)
    tensors = {"w": weight, "b": np.ones(64, np.float16), "n": np.array(3)}
    save_file(tensors, dense)
    packing.write(packed, packing.read_safetensors(dense))
    assert packed.stat().st_size < dense.stat().st_size / 4
    packing.to_safetensors(packed, back)
    loaded = load_file(back)
    assert set(loaded) == set(tensors)
    for name, array in tensors.items():
        assert loaded[name].tobytes() == array.tobytes()
    with safe_open(back, "np") as file:
        assert file.metadata() == {"format": "pt"}


def test_unaligned_parts_read_as_well(tmp_path):
    path = tmp_path / "odd.safetensors"
    header = json.dumps(
        {
            "a": {"dtype": "U8", "shape": [3], "data_offsets": [0, 3]},
            "b": {"dtype": "F64", "shape": [2], "data_offsets": [3, 19]},
        }
    ).encode()
    data = bytes(3) + np.array([1.5, -2.0]).tobytes()
    path.write_bytes(len(header).to_bytes(8, "little") + header + data)
    packing.write(tmp_path / "even.skinny", packing.read_safetensors(path))
    with packing.open(tmp_path / "even.skinny") as file:
        assert file.read("b").tolist() == [1.5, -2.0]


def test_unpacking_gives_every_type_and_tied_names(tmp_path):
    packed, back = tmp_path / "a.skinny", tmp_path / "b.safetensors"
    packing.write(packed, samples.tensors(), signed_zeros=True)
    packing.to_safetensors(packed, back)
    found = dict(packing.read_safetensors(back))
    assert set(found) == set(samples.tensors())
    for name, array in found.items():
        plain = array.array if isinstance(array, packing.Bits) else array
        assert plain.tobytes() == samples.plain(name).tobytes()


def test_unpacking_holds_one_tensor_at_a_time(tmp_path):
    layer = np.zeros(2_000_000, np.float32)
    layer[::7] = 1
    packed = tmp_path / "a.skinny"
    packing.write(packed, ((f"layer{i}", layer) for i in range(4)))
    tracemalloc.start()
    packing.to_safetensors(packed, tmp_path / "b.safetensors")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2 * layer.nbytes


def test_a_packed_file_that_cannot_be_written_is_told(tmp_path):
    packing.write(tmp_path / "a.skinny", {"w": np.ones(3)})
    with pytest.raises(SkinnyError, match=r"cannot write .*No such file"):
        packing.to_safetensors(tmp_path / "a.skinny", tmp_path / "gone" / "b.safetensors")
    assert os.listdir(tmp_path) == ["a.skinny"]
