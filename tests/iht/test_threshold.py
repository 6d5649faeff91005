import subprocess
import sys

import hypothesis.extra.numpy as hnp
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from skinny.errors import SkinnyError
from skinny.iht.threshold import (
    count_largest,
    hard_threshold,
    magnitude_mask,
    random_mask,
    random_threshold,
)

DTYPES = [torch.float16, torch.bfloat16, torch.float32, torch.float64]


def reference_mask(x, k, within=None):
    """Sort by (falling magnitude, rising index) and keep the first k."""
    magnitude = x.reshape(-1).double().abs()
    if within is not None:
        magnitude = torch.where(within.reshape(-1), magnitude, -1.0)
    order = torch.argsort(magnitude, descending=True, stable=True)
    mask = torch.zeros(x.numel(), dtype=torch.bool)
    mask[order[:k]] = True
    return mask.view(x.shape)


finite = st.floats(allow_nan=False, allow_infinity=False, width=32)
few_values = st.sampled_from([0.0, -0.0, 1.0, -1.0, 1e-40, -1e-40, 3e38, 1.5])
arrays = hnp.arrays(
    np.float32, hnp.array_shapes(max_dims=4, max_side=7), elements=st.one_of(finite, few_values)
)


@given(arrays, st.data())
def test_keeps_exactly_k_of_largest_magnitude_with_ties_to_the_lower_index(array, data):
    x = torch.from_numpy(array)
    k = data.draw(st.integers(0, x.numel()))
    mask = magnitude_mask(x, k)
    assert int(mask.sum()) == k
    assert torch.equal(mask, reference_mask(x, k))


@given(arrays, st.data())
def test_chooses_only_within_the_given_entries(array, data):
    x = torch.from_numpy(array)
    within = torch.from_numpy(data.draw(hnp.arrays(bool, array.shape)))
    k = data.draw(st.integers(0, int(within.sum())))
    mask = magnitude_mask(x, k, within)
    assert not (mask & ~within).any()
    assert torch.equal(mask, reference_mask(x, k, within))
    chosen = random_mask(x, k, within, generator=torch.Generator().manual_seed(0))
    assert int(chosen.sum()) == k
    assert not (chosen & ~within).any()


@pytest.mark.parametrize("dtype", DTYPES)
def test_agrees_with_sorting_for_every_float_type(dtype):
    x = torch.randn(50, 41, generator=torch.Generator().manual_seed(1)).to(dtype)
    for k in (0, 1, 205, 2049, 2050):
        assert torch.equal(magnitude_mask(x, k), reference_mask(x, k))


@pytest.mark.parametrize("dtype", DTYPES)
def test_an_array_of_equal_values_keeps_its_first_entries(dtype):
    mask = magnitude_mask(torch.full((5, 5), -0.25, dtype=dtype), 7)
    assert mask.view(-1).tolist() == [True] * 7 + [False] * 18


def test_ties_across_pieces_are_counted_once():
    x = torch.ones(3 * (1 << 20) + 5)
    x[-1] = 2.0
    k = (1 << 20) + 3
    mask = magnitude_mask(x, k)
    assert int(mask.sum()) == k
    assert mask[-1]
    assert mask[: k - 1].all()


def test_flat_index_is_the_logical_one_whatever_the_memory_format():
    x = torch.randint(-2, 3, (6, 4, 3, 3), generator=torch.Generator().manual_seed(2)).float()
    strided = x.to(memory_format=torch.channels_last)
    assert torch.equal(magnitude_mask(strided, 40), magnitude_mask(x, 40))
    assert torch.equal(
        magnitude_mask(x.permute(3, 2, 0, 1), 40), reference_mask(x.permute(3, 2, 0, 1), 40)
    )


def test_hard_threshold_zeroes_all_but_the_largest():
    x = torch.tensor([[3.0, -1.0], [-4.0, 2.0]])
    assert hard_threshold(x, 2).tolist() == [[3.0, 0.0], [-4.0, 0.0]]
    assert hard_threshold(x, 0).tolist() == [[0.0, 0.0], [0.0, 0.0]]


def test_random_threshold_has_the_same_interface_and_follows_its_generator():
    x = torch.arange(1.0, 1001.0)
    one, again = (
        random_threshold(x, 100, generator=torch.Generator().manual_seed(3)) for _ in range(2)
    )
    other = random_threshold(x, 100, generator=torch.Generator().manual_seed(4))
    assert torch.equal(one, again)
    assert not torch.equal(one, other)
    assert int((one != 0).sum()) == 100
    assert 300 < one[one != 0].mean() < 700  # not the largest: chosen whatever their values


@given(st.lists(arrays, min_size=1, max_size=4), st.data())
def test_counts_over_several_tensors_are_those_of_their_concatenation(tensors, data):
    xs = [torch.from_numpy(array) for array in tensors]
    joined = torch.cat([x.reshape(-1) for x in xs])
    k = data.draw(st.integers(0, joined.numel()))
    expected = reference_mask(joined, k).split([x.numel() for x in xs])
    assert count_largest(xs, k) == [int(mask.sum()) for mask in expected]


def test_counts_compare_tensors_of_different_types_by_value():
    a = torch.tensor([1.0, 4.0], dtype=torch.float16)
    b = torch.tensor([3.0, 2.0], dtype=torch.float32)
    assert count_largest([a, b], 2) == [1, 1]


@pytest.mark.parametrize(
    ("x", "k", "complaint"),
    [
        (torch.ones(4), 5, r"k = 5 of 4"),
        (torch.ones(4), -1, r"k = -1 of 4"),
        (torch.ones(4), 2.0, r"k is 2.0; it must be a whole number"),
        (torch.ones(4, dtype=torch.int32), 1, r"torch.int32; allowed: float16"),
        (torch.tensor([1.0, float("nan")]), 1, r"1 of 2 entries are NaN or infinite"),
        (torch.tensor([float("inf"), float("-inf")]), 1, r"2 of 2 entries are NaN or infinite"),
    ],
)
def test_bad_input_is_refused_in_one_sentence(x, k, complaint):
    with pytest.raises(SkinnyError, match=complaint):
        magnitude_mask(x, k)


def test_large_finite_values_whose_sum_overflows_are_fine():
    assert magnitude_mask(torch.full((4,), 3e38), 2).tolist() == [True, True, False, False]


def test_thresholding_a_large_layer_takes_little_memory():
    """Peak memory of a process, before and after: at most twice the tensor on top."""
    script = """
import resource, torch
from skinny.iht.threshold import magnitude_mask
magnitude_mask(torch.randn(4096), 100)
x = torch.randn(4096, 2304)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
mask = magnitude_mask(x, x.numel() // 10)
after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
assert int(mask.sum()) == x.numel() // 10
print((after - before) * 1024 / (4 * x.numel()))
"""
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert float(run.stdout) < 2.0
