import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skinny.errors import SkinnyError
from skinny.packing import MaskError, ScaleError, bitmask, codec, values
from skinny.packing.dtypes import from_float32, to_float32

torch = pytest.importorskip("torch")


def weights(rng, shape=(16, 40), density=0.2):
    spread = np.exp(rng.standard_normal((shape[0], *[1] * (len(shape) - 1))))
    array = rng.standard_normal(shape).astype(np.float32) * spread
    return (array * (rng.random(shape) < density)).astype(np.float32)


@pytest.mark.parametrize("kind", values.VALUES[1:])
@pytest.mark.parametrize("density", [0.05, 1.0])
def test_rounded_values_are_as_near_as_the_entry_says(rng, kind, density):
    array = weights(rng, density=density)
    entry, parts = codec.encode("w", array, "F32", kind)
    back = codec.densify(codec.decode(entry, parts))
    assert entry.values == kind
    assert (entry.form == "dense") == (density == 1.0)
    error = np.abs(back.astype(np.float64) - array)
    few = kind.startswith("codebook") and np.count_nonzero(array) <= 1 << values.bits(kind)
    assert error.max() == entry.error
    assert (entry.error == 0) == few  # as many numbers as values
    if kind.startswith("int"):
        steps = 2 ** (values.bits(kind) - 1) - 1
        assert np.all(error.max(axis=1) <= np.abs(array).max(axis=1) / steps * 0.5000001)
    elif kind.startswith("codebook"):
        assert parts["codebook"].size <= 2 ** values.bits(kind)
        assert np.abs(back[array != 0][:, None] - parts["codebook"]).min(axis=1).max() == 0
    else:
        assert np.all(error <= np.abs(array) * (2**-11 if kind == "fp16" else 2**-8))


def test_int8_keeps_the_mask_even_where_a_value_rounds_to_zero():
    array = np.zeros((2, 500), np.float32)
    array[0, :3] = [1.0, 1e-6, -1.0]
    entry, parts = codec.encode("w", array, "F32", "int8")
    assert entry.form != "dense"
    decoded = codec.decode(entry, parts)
    np.testing.assert_allclose(decoded.values, [1, 0, -1], rtol=1e-6)
    mask, _ = bitmask.find(array)
    np.testing.assert_array_equal(decoded.mask, mask)


@pytest.mark.parametrize("kind", values.VALUES[1:])
@given(
    seed=st.integers(0, 100),
    density=st.one_of(st.sampled_from([0.98, 1.0]), st.floats(0, 1)),
    filled=st.one_of(st.just(1.0), st.floats(0, 1)),
    shape=st.sampled_from([(1, 3, 3), (16, 3, 3), (64, 8, 3, 3)]),
)
@settings(max_examples=20, deadline=None)
def test_a_zero_stays_a_zero_whatever_the_form(kind, seed, density, filled, shape):
    """filled: the share of output channels that are not all zero. Layers of few zeros, which would
    take the fewest bytes when stored dense, are drawn often."""
    rng = np.random.default_rng(seed)
    rows = (shape[0], *[1] * (len(shape) - 1))
    array = (weights(rng, shape, density) * (rng.random(rows) < filled)).astype(np.float32)
    entry, parts = codec.encode("w", array, "F32", kind)
    assert not codec.densify(codec.decode(entry, parts))[array == 0].any()


@pytest.mark.parametrize("kind", ["codebook2", "codebook4", "codebook8"])
def test_a_zero_in_a_group_that_stays_is_no_value_of_the_codebook(rng, kind):
    array = rng.standard_normal((32, 32, 3, 3)).astype(np.float32)
    array *= (rng.random((32, 8, 1, 3, 3)) < 0.3).repeat(4, axis=2).reshape(array.shape)
    where = tuple(np.argwhere(array)[5])
    array[where] = 0
    entry, parts = codec.encode("w", array, "F32", kind)
    assert codec.densify(codec.decode(entry, parts))[where] == 0


@pytest.mark.parametrize("zeros", [0, 1, 60, 499, 500])
def test_weights_trained_with_a_codebook_come_back_as_they_are(rng, zeros):
    array = rng.permutation(np.linspace(-1, 1, 16, dtype=np.float32))[rng.integers(0, 16, 500)]
    array[rng.permutation(500)[:zeros]] = 0  # with which there are 17 different values
    array = array.reshape(20, 1, 5, 5)
    entry, parts = codec.encode("w", array, "F32", "codebook4")
    np.testing.assert_array_equal(codec.densify(codec.decode(entry, parts)), array)
    assert entry.error == 0


def test_a_channel_of_zeros_has_scale_zero():
    entry, parts = codec.encode("w", np.zeros((4, 4), np.float32), "F32", "int8")
    assert parts["scales"].tolist() == [0, 0, 0, 0]
    assert not codec.densify(codec.decode(entry, parts)).any()


def test_rounding_agrees_with_torch(rng):
    numbers = np.concatenate(
        [rng.standard_normal(1000), 10.0 ** rng.uniform(-46, 38, 1000), [0.0, -0.0, np.inf]]
    ).astype(np.float32)
    tensor = torch.from_numpy(numbers)
    bits = tensor.to(torch.bfloat16).view(torch.int16).numpy().view(np.uint16)
    np.testing.assert_array_equal(from_float32(numbers, "BF16"), bits)
    np.testing.assert_array_equal(
        from_float32(numbers, "F16").view(np.uint16),
        tensor.to(torch.float16).view(torch.int16).numpy().view(np.uint16),
    )


@given(bits=st.integers(0, 2**16 - 1))
@settings(max_examples=300, deadline=None)
def test_every_bfloat16_widens_and_narrows_back(bits):
    carried = np.array([bits], np.uint16)
    wide = to_float32(carried, "BF16")
    back = from_float32(wide, "BF16")
    assert back[0] == bits or (np.isnan(wide[0]) and back[0] == bits | 0x40)


@pytest.mark.parametrize("kind", ["fp16", "bf16", "int8", "int2", "codebook3"])
@pytest.mark.parametrize("bad", [np.inf, -np.inf, np.nan])
def test_what_cannot_be_rounded_is_refused_with_its_name(kind, bad):
    array = np.ones((4, 4), np.float32)
    array[2, 2] = bad
    with pytest.raises(SkinnyError, match=r"fc1\.weight .*exact"):
        codec.encode("fc1.weight", array, "F32", kind)


def test_numbers_beyond_fp16_are_refused():
    with pytest.raises(SkinnyError, match=r"holds 100000, which fp16 cannot.*bf16"):
        codec.encode("w", np.full((2, 2), 1e5, np.float32), "F32", "fp16")


@pytest.mark.parametrize(("kind", "message"), [("int8", "too large"), ("codebook4", "1e+300")])
def test_numbers_beyond_float32_are_refused(kind, message):
    with pytest.raises(SkinnyError, match=re.escape(message)):
        codec.encode("w", np.full((2, 2), 1e300), "F64", kind)


@pytest.mark.parametrize(
    ("wish", "dtype", "shape", "taken"),
    [
        ("int8", "F32", (3, 4), "int8"),
        ("int8", "BF16", (3, 4), "int8"),
        ("fp16", "F64", (3, 4), "fp16"),
        ("fp16", "F32", (12,), "exact"),  # biases and statistics are few and sensitive
        ("fp16", "BF16", (3, 4), "exact"),  # nothing gained
        ("int8", "I64", (3, 4), "exact"),
        ("int8", "F32", (0, 4), "exact"),
        ("exact", "F32", (3, 4), "exact"),
    ],
)
def test_values_are_rounded_only_where_it_saves_something(wish, dtype, shape, taken):
    assert values.applicable(wish, dtype, shape) == taken


@pytest.mark.parametrize("dtype", ["F16", "BF16"])
def test_int8_of_half_precision_reports_the_error_of_what_comes_back(rng, dtype):
    array = from_float32(weights(rng), dtype)
    entry, parts = codec.encode("w", array, dtype, "int8")
    back = codec.densify(codec.decode(entry, parts))
    assert back.dtype == array.dtype
    error = to_float32(back, dtype).astype(np.float64) - to_float32(array, dtype)
    assert np.abs(error).max() == entry.error


@pytest.mark.parametrize("bad", [np.nan, np.inf, -1.0, -0.0])
def test_scales_that_are_negative_or_not_finite_are_refused(rng, bad):
    entry, parts = codec.encode("w", weights(rng), "F32", "int8")
    parts["scales"][3] = bad
    with pytest.raises(ScaleError):
        codec.decode(entry, parts)


def test_a_codebook_with_bad_numbers_or_too_few_is_refused(rng):
    entry, parts = codec.encode("w", weights(rng), "F32", "codebook4")
    short = {**parts, "codebook": parts["codebook"][:3]}
    with pytest.raises(ScaleError, match="beyond its codebook"):
        codec.decode(entry, short)
    parts["codebook"][2] = np.nan
    with pytest.raises(ScaleError, match="not finite"):
        codec.decode(entry, parts)


@pytest.mark.parametrize("size", [0, 17])
def test_a_codebook_of_an_impossible_size_is_refused_unread(size):
    entry = codec.Entry("F32", (3, 4), "dense", "codebook4")
    with pytest.raises(MaskError, match=f"a codebook of {size} numbers for codebook4"):
        codec.check("w", entry, {"values": 12, "codebook": size})


def test_fewer_bits_take_fewer_bytes(rng):
    array = weights(rng, (64, 500), 0.1)
    for kinds in (values.VALUES[3:10], values.VALUES[10:]):
        sizes = [
            sum(part.nbytes for part in codec.encode("w", array, "F32", kind)[1].values())
            for kind in ("fp16", *kinds)
        ]
        assert sizes == sorted(sizes, reverse=True)
        assert sizes[-1] < sizes[0] / 2


def test_dense_tensors_of_few_bits_are_coded(rng):
    array = rng.standard_normal((64, 64)).astype(np.float32)
    entry, parts = codec.encode("w", array, "F32", "codebook3")
    assert entry.form == "dense"
    assert parts["symbols"].size < array.size * 3.2 / 8 + 60
    assert np.abs(codec.densify(codec.decode(entry, parts)) - array).max() == entry.error
