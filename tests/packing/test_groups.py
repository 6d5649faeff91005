import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.packing.reseal import put_together, take_apart

from skinny import packing
from skinny.packing import bitmask, codec, entropy, groups
from skinny.packing.errors import FormatError
from skinny.packing.groups import Groups


def pruned_in_groups(rng, shape, of, sparsity, dtype=np.float32):
    keep = rng.random(of.shorter(shape)) >= sparsity
    return (rng.standard_normal(shape) * np.repeat(keep, of.size, of.axis)).astype(dtype)


def encoded(array, values="exact"):
    entry, parts = codec.encode("w", array, "F32", values)
    codec.check("w", entry, {role: part.size for role, part in parts.items()})
    back = codec.densify(codec.decode(entry, {r: p.reshape(-1) for r, p in parts.items()}))
    return entry, parts, back


@pytest.mark.parametrize("of", [Groups(1, 4), Groups(0, 4), Groups(1, 16), Groups(1, 3)], ids=str)
@pytest.mark.parametrize("shape", [(48, 96), (48, 48, 3, 3), (96, 48, 5)])
@pytest.mark.parametrize("sparsity", [0.5, 0.9])
def test_a_tensor_pruned_in_groups_has_a_bit_for_each_and_comes_back(rng, of, shape, sparsity):
    array = pruned_in_groups(rng, shape, of, sparsity)
    entry, parts, back = encoded(array)
    assert entry.groups == of
    np.testing.assert_array_equal(back, array)
    bits = array.size // of.size
    assert parts.get("coded", parts.get("mask")).size <= bits / 8 + 30


def test_zeros_in_a_kept_group_are_values(rng):
    array = pruned_in_groups(rng, (64, 64), Groups(1, 4), 0.8)
    array[:, 8] = 0
    array[:, 9] *= np.where(rng.random(64) < 0.5, -0.0, 1)
    entry, _, back = encoded(array)
    assert entry.groups == Groups(1, 4)
    np.testing.assert_array_equal(back, array)
    assert not np.signbit(back[back == 0]).any()


@pytest.mark.parametrize("sparsity", [0.1, 0.5, 0.9, 0.99])
def test_single_weights_have_a_bit_each(rng, sparsity):
    array = rng.standard_normal((64, 64)).astype(np.float32)
    array[rng.random((64, 64)) < sparsity] = 0
    assert encoded(array)[0].groups is None


def test_int8_values_of_groups_come_back_within_their_error(rng):
    array = pruned_in_groups(rng, (32, 64, 3, 3), Groups(1, 4), 0.9)
    entry, _, back = encoded(array, "int8")
    assert entry.groups == Groups(1, 4)
    assert 0 < np.abs(back - array).max() <= entry.error * 1.0001


@given(st.data())
@settings(max_examples=60)
def test_no_tensor_is_larger_for_its_groups_and_each_comes_back(data):
    shape = tuple(data.draw(st.lists(st.integers(1, 12), min_size=2, max_size=4)))
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    of = Groups(data.draw(st.integers(0, 1)), data.draw(st.integers(2, 6)))
    array = rng.standard_normal(shape).astype(np.float32)
    if of.fit(shape):
        array = pruned_in_groups(rng, shape, of, data.draw(st.sampled_from([0, 0.5, 0.9])))
    array *= rng.random(shape) >= data.draw(st.sampled_from([0, 0.05, 0.5]))
    entry, parts, back = encoded(array)
    np.testing.assert_array_equal(back, array)
    mask, ones = bitmask.find(array, ignore_sign=True)
    without = min(array.nbytes, 4 * ones + entropy.encode(mask, array.size, ones).size + 100)
    assert sum(part.nbytes for part in parts.values()) <= without + 8 * len(shape)
    if entry.groups is not None:
        assert entry.groups.fit(shape)


def test_expanding_repeats_each_bit():
    mask = np.packbits([1, 0, 0, 1, 1, 0], bitorder="little")
    found = np.unpackbits(groups.expand(mask, Groups(1, 2), (2, 6)), count=12, bitorder="little")
    assert found.reshape(2, 6).tolist() == [[1, 1, 0, 0, 0, 0], [1, 1, 1, 1, 0, 0]]


@pytest.mark.parametrize(
    "groups",
    [[1, 3], [2, 4], [-1, 4], [1, 1], [1, 0], [1, 32], [1], [1, 4, 4], "14", {"1": 4}, [1.0, 4], 4],
    ids=str,
)
def test_groups_that_cannot_be_are_refused(rng, tmp_path, groups):
    path = tmp_path / "a.skinny"
    packing.write(path, {"w": pruned_in_groups(rng, (32, 64), Groups(1, 4), 0.8)})
    header, book, parts = take_apart(path.read_bytes())
    assert book["tensors"]["w"]["groups"] == [1, 4]
    book["tensors"]["w"]["groups"] = groups
    path.write_bytes(put_together(header, book, parts))
    with pytest.raises(FormatError, match=r"'w' has an impossible groups|w.* bytes|w.* values"):
        packing.PackedFile(path).verify()
