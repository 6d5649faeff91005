import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skinny.packing import MaskError, bitmask

TYPES = ["u1", "?", "i2", "f2", "u4", "f4", "i8", "f8"]
NASTY = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1e-45, 1.0, 0.0, 0.0], np.float32)


def sparse(rng, shape, dtype="f4", density=0.1):
    array = rng.integers(1, 100, shape).astype(dtype)
    return array * (rng.random(shape) < density).astype(dtype)


def pack(array):
    mask, ones = bitmask.find(array)
    return mask, bitmask.gather(array, mask, ones)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("count", [0, 1, 7, 8, 9, 63, 64, 65, 1000, 200_003])
def test_a_tensor_comes_back(engine, rng, dtype, count):
    array = sparse(rng, count, dtype)
    mask, values = pack(array)
    back = bitmask.unpack(mask, values, count)
    assert back.dtype == array.dtype
    np.testing.assert_array_equal(back, array)
    assert values.size == np.count_nonzero(array)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("density", [0.0, 0.02, 0.5, 1.0])
def test_native_code_and_reference_agree_bit_for_bit(rng, dtype, density):
    array = sparse(rng, 150_001, dtype, density)
    mask, values = pack(array)
    expected, ones = bitmask.find_reference(array)
    np.testing.assert_array_equal(mask, expected)
    np.testing.assert_array_equal(values, bitmask.gather_reference(array, expected))
    assert ones == values.size == bitmask.count_ones(mask, array.size)
    np.testing.assert_array_equal(
        bitmask.unpack(mask, values, array.size),
        bitmask.unpack_reference(mask, values, array.size),
    )


def test_entry_i_is_bit_i_mod_8_of_byte_i_div_8(engine):
    mask, values = pack(np.array([0, 5, 0, 0, 0, 0, 0, 6, 7, 0], np.float32))
    assert mask.tolist() == [0b1000_0010, 0b0000_0001]
    assert values.tolist() == [5, 6, 7]


def test_negative_zeros_infinities_and_nan_payloads_are_values(engine):
    odd_nan = np.array([0x7FC12345, 0xFF800001, 0x80000000], np.uint32).view(np.float32)
    array = np.concatenate([NASTY, odd_nan])
    mask, values = pack(array)
    back = bitmask.unpack(mask, values, array.size)
    np.testing.assert_array_equal(back.view(np.uint32), array.view(np.uint32))
    assert values.size == np.count_nonzero(array.view(np.uint32))


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8"])
def test_negative_zeros_count_as_zeros_if_asked(engine, rng, dtype):
    array = rng.choice([0.0, -0.0, 1.0, -1.0], 1003).astype(dtype)
    mask, ones = bitmask.find(array, ignore_sign=True)
    assert ones == np.count_nonzero(array)
    np.testing.assert_array_equal(mask, np.packbits(array != 0, bitorder="little"))
    assert bitmask.find(array)[1] == 1003 - np.count_nonzero((array == 0) & ~np.signbit(array))


@given(which=st.binary(max_size=300))
@settings(max_examples=100, deadline=None)
def test_any_bit_pattern_round_trips(which):
    bits = np.array([0, 0, 0, 0, 0, 1, 2**31, 2**32 - 1], np.uint32)
    array = bits[np.frombuffer(which, np.uint8) % 8]
    mask, values = pack(array)
    np.testing.assert_array_equal(bitmask.unpack(mask, values, array.size), array)


@pytest.mark.parametrize(
    ("mask", "values", "count", "message"),
    [
        ([0b111], 2, 8, "3 ones"),
        ([0b1], 2, 8, "1 ones"),
        ([0, 0], 0, 8, "cannot cover 8"),
        ([0b1000_0000], 1, 7, "beyond its last entry"),
    ],
)
def test_a_mask_that_does_not_fit_is_refused(engine, mask, values, count, message):
    with pytest.raises(MaskError, match=message):
        bitmask.unpack(np.array(mask, np.uint8), np.ones(values, np.float32), count)


@pytest.mark.parametrize(
    "call",
    [
        lambda m, b: m.bitmask_find(b[:10], 4, False, b[:1], 1),
        lambda m, b: m.bitmask_find(b[:8], 3, False, b[:1], 1),
        lambda m, b: m.bitmask_find(b[:8], 1, False, b[:2], 1),
        lambda m, b: m.bitmask_gather(b[:8], 1, b[:1], b[:5], 1),
        lambda m, b: m.bitmask_scatter(b[:5], 1, b[:1], b[:8], 1),
        lambda m, b: m.bitmask_ones(b[:1], 9, 1),
    ],
)
def test_native_code_refuses_buffers_that_do_not_fit(call):
    native = pytest.importorskip("skinny._native", reason="the native extension was not built")
    with pytest.raises(ValueError, match=r"must"):
        call(native, np.full(64, 255, np.uint8))


def test_every_instruction_set_gives_the_same(tmp_path):
    import os
    import subprocess
    import sys

    native = pytest.importorskip("skinny._native", reason="the native extension was not built")
    program = """
import hashlib, sys
import numpy as np
from skinny import native
from skinny.packing import bitmask
rng = np.random.default_rng(1)
array = rng.standard_normal(100_003).astype(np.float32) * (rng.random(100_003) < 0.1)
mask, ones = bitmask.find(array)
values = bitmask.gather(array, mask, ones)
back = bitmask.unpack(mask, values, array.size)
assert np.array_equal(back, array)
print(hashlib.sha256(mask.tobytes() + values.tobytes()).hexdigest())
"""
    seen = set()
    for name in native.isas():
        done = subprocess.run(
            [sys.executable, "-c", program],
            env=os.environ | {"SKINNY_ISA": name},
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        seen.add(done.stdout)
    assert len(seen) == 1
