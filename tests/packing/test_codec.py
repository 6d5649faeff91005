import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skinny.packing import MaskError, codec
from skinny.packing.dtypes import CARRIER, from_float32, to_float32


def stored_bytes(parts):
    return sum(part.nbytes for part in parts.values())


def sparse(rng, shape, sparsity, dtype="F32"):
    kept = rng.random(shape) >= sparsity
    return (rng.integers(1, 100, shape) * kept).astype(CARRIER[dtype])


@pytest.mark.parametrize("dtype", CARRIER)
@pytest.mark.parametrize("shape", [(), (0,), (3, 0), (7,), (192, 96, 1, 1), (32, 8, 5, 5)])
@pytest.mark.parametrize("sparsity", [0.0, 0.5, 0.95])
def test_a_tensor_of_any_type_and_shape_comes_back(rng, dtype, shape, sparsity):
    array = np.asarray(sparse(rng, shape, sparsity, dtype))
    entry, parts = codec.encode("w", array, dtype)
    back = codec.densify(codec.decode(entry, parts))
    assert (back.dtype, back.shape) == (array.dtype, array.shape)
    assert back.tobytes() == array.tobytes()


@pytest.mark.parametrize(
    ("sparsity", "form"), [(0.0, "dense"), (0.02, "entropy"), (0.5, "bitmask"), (0.9, "entropy")]
)
def test_the_smallest_form_is_taken(rng, sparsity, form):
    entry, _ = codec.encode("w", sparse(rng, (192, 160, 1, 1), sparsity), "F32")
    assert entry.form == form


@given(
    count=st.integers(0, 3000),
    density=st.floats(0, 1),
    dtype=st.sampled_from(["U8", "F16", "F32", "F64"]),
    seed=st.integers(0, 100),
)
@settings(max_examples=100, deadline=None)
def test_no_form_is_larger_than_dense(count, density, dtype, seed):
    array = sparse(np.random.default_rng(seed), count, 1 - density, dtype)
    entry, parts = codec.encode("w", array, dtype)
    assert stored_bytes(parts) <= array.nbytes
    assert codec.densify(codec.decode(entry, parts)).tobytes() == array.tobytes()


@pytest.mark.parametrize("sparsity", [0.9, 0.95])
def test_a_1x1_convolution_costs_at_most_one_bit_per_weight_beside_its_values(rng, sparsity):
    array = sparse(rng, (192, 160, 1, 1), sparsity)
    _, parts = codec.encode("w", array, "F32")
    assert stored_bytes(parts) <= 4 * np.count_nonzero(array) + array.size / 8


def test_small_tensors_stay_dense_since_a_part_more_costs_more_than_it_saves(rng):
    entry, _ = codec.encode("bias", sparse(rng, (6,), 0.9), "F32")
    assert entry.form == "dense"


@pytest.mark.parametrize("dtype", ["F16", "F32", "F64"])
def test_negative_zeros_left_by_multiplying_are_stored_as_zeros(rng, dtype):
    array = rng.standard_normal((100, 200)).astype(CARRIER[dtype])
    kept = rng.random(array.shape) < 0.1
    clean = np.where(kept, array, 0).astype(array.dtype)
    entry, parts = codec.encode("w", array * kept.astype(array.dtype), dtype)
    expected, without = codec.encode("w", clean, dtype)
    assert entry == expected
    assert {role: part.tobytes() for role, part in parts.items()} == {
        role: part.tobytes() for role, part in without.items()
    }


@pytest.mark.parametrize("shape", [(5,), (5, 40), (3, 1000)])
@pytest.mark.parametrize("dtype", ["F16", "BF16", "F32", "F64"])
@pytest.mark.parametrize("values", ["exact", "fp16", "int8"])
def test_no_zero_comes_back_negative_whatever_the_form(rng, shape, dtype, values):
    floats = rng.choice([-0.0, 0.0, 1.0, -2.0], shape, p=[0.1, 0.1, 0.4, 0.4]).astype(np.float32)
    array = from_float32(floats, dtype)
    entry, parts = codec.encode("w", array, dtype, values)
    back = to_float32(codec.densify(codec.decode(entry, parts)), dtype)
    np.testing.assert_allclose(back, floats, rtol=0.02)
    assert not np.signbit(back[back == 0]).any()


@pytest.mark.parametrize("dtype", ["I8", "I64", "U8"])
def test_an_integer_of_the_sign_bit_alone_is_no_zero(dtype):
    array = np.zeros(4000, CARRIER[dtype])
    array[::7] = (
        array.view(f"u{array.itemsize}").dtype.type(1 << (8 * array.itemsize - 1)).view(array.dtype)
    )
    entry, parts = codec.encode("w", array, dtype)
    assert entry.form != "dense"
    assert codec.densify(codec.decode(entry, parts)).tobytes() == array.tobytes()


@pytest.mark.parametrize("dtype", ["F16", "F32", "F64"])
def test_negative_zeros_cost_about_a_bit_each_if_their_sign_is_asked_for(rng, dtype, nothing_small):
    array = rng.standard_normal((100, 200)).astype(CARRIER[dtype])
    clean = np.where(kept := rng.random(array.shape) < 0.1, array, 0).astype(array.dtype)
    entry, parts = codec.encode("w", array * kept.astype(array.dtype), dtype, signed_zeros=True)
    assert entry.negative_zeros == np.count_nonzero(~kept & np.signbit(array))
    back = codec.densify(codec.decode(entry, parts))
    assert back.tobytes() == (array * kept.astype(array.dtype)).tobytes()
    _, without = codec.encode("w", clean, dtype)
    assert stored_bytes(parts) < stored_bytes(without) + array.size / 8 * 1.01
    assert parts.get("values", parts.get("rest")).tobytes() == (
        without.get("values", without.get("rest")).tobytes()
    )


def test_a_few_negative_zeros_are_stored_as_values(rng):
    array = sparse(rng, (100, 100), 0.9)
    array[0, np.flatnonzero(array[0] == 0)[:3]] = -0.0
    entry, parts = codec.encode("w", array, "F32", signed_zeros=True)
    assert entry.negative_zeros == 0
    assert codec.densify(codec.decode(entry, parts)).tobytes() == array.tobytes()


def test_an_entry_cannot_be_both_a_value_and_a_negative_zero(rng):
    array = rng.standard_normal((100, 200)).astype(np.float32)
    pruned = array * (rng.random(array.shape) < 0.1)
    entry, parts = codec.encode("w", pruned, "F32", signed_zeros=True)
    parts = {
        "values": np.ones(entry.negative_zeros, np.float32),
        "mask": codec.decode(entry, parts).negative,
        "negative": parts["negative"],
    }
    with pytest.raises(MaskError, match="both as a value and as a negative zero"):
        codec.decode(dataclasses.replace(entry, form="bitmask", kept=None), parts)


@pytest.mark.parametrize(
    ("form", "sizes", "message"),
    [
        ("dense", {"values": 11}, "11 values for 12"),
        ("bitmask", {"values": 13, "mask": 2}, "more than its 12"),
        ("bitmask", {"values": 3, "mask": 1}, "mask of 1 bytes"),
        ("entropy", {"values": 3, "coded": 0}, "0 bytes cannot code"),
    ],
)
def test_parts_of_the_wrong_length_are_refused_unread(form, sizes, message):
    with pytest.raises(MaskError, match=message):
        codec.check("w", codec.Entry("F32", (3, 4), form), sizes)


@pytest.mark.parametrize("dtype", ["F16", "F32", "F64"])
def test_the_exponents_of_values_are_coded_where_that_is_smaller(rng, dtype):
    array = rng.standard_normal((100, 200)) * (rng.random((100, 200)) < 0.5)
    array = np.where(array == 0, 0, array).astype(CARRIER[dtype])
    entry, parts = codec.encode("w", array, dtype)
    assert entry.kept == np.count_nonzero(array)
    assert "values" not in parts
    raw = entry.kept * array.itemsize
    assert parts["symbols"].size + parts["rest"].size < 0.9 * raw
    assert codec.densify(codec.decode(entry, parts)).tobytes() == array.tobytes()


def test_values_that_look_random_are_stored_as_they_are(rng):
    bits = rng.integers(0, 2**32, 20_000, np.uint32)
    bits[rng.random(20_000) < 0.5] = 0
    entry, parts = codec.encode("w", bits.view(np.float32), "F32")
    assert entry.kept is None
    assert parts["values"].size == np.count_nonzero(bits)


@pytest.mark.parametrize("sizes", [{"rest": 8, "symbols": 9}, {"rest": 9, "symbols": 0}])
def test_coded_values_of_the_wrong_length_are_refused_unread(sizes):
    entry = codec.Entry("F32", (3, 4), "bitmask", kept=3)
    with pytest.raises(MaskError, match="cannot code 3 values"):
        codec.check("w", entry, {"mask": 2, **sizes})


@pytest.mark.parametrize(
    ("marks", "size", "message"), [(10, 9, "too many"), (2**62, 9, "too many"), (9, 0, "0 bytes")]
)
def test_negative_zeros_that_cannot_be_are_refused_unread(marks, size, message):
    entry = codec.Entry("F32", (3, 4), "bitmask", negative_zeros=marks)
    with pytest.raises(MaskError, match=message):
        codec.check("w", entry, {"values": 3, "mask": 2, "negative": size})


def test_scales_must_be_one_per_channel():
    entry = codec.Entry("F32", (3, 4), "dense", "int8")
    with pytest.raises(MaskError, match="4 scales for 3"):
        codec.check("w", entry, {"values": 12, "scales": 4})


def test_truth_values_are_0_or_1():
    entry, parts = codec.encode("w", np.array([True, False, True]), "BOOL")
    parts["values"] = np.array([1, 0, 2], np.uint8).view(bool)
    with pytest.raises(MaskError, match="neither 0 nor 1"):
        codec.decode(entry, parts)
