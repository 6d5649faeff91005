import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from skinny.iht import fake_quantize


def drawn(seed, shape, sparse=True):
    draw = torch.Generator().manual_seed(seed)
    x = torch.randn(shape, generator=draw)
    return x * (torch.rand(shape, generator=draw) < 0.4) if sparse else x


@given(st.integers(0, 999))
def test_a_weight_is_rounded_for_each_output_channel(seed):
    weight = drawn(seed, (5, 3, 2, 2))
    weight[2] = 0
    found = fake_quantize.int8_weight(weight)
    for row, rounded in zip(weight.numpy(), found.numpy(), strict=True):
        scale = np.float32(np.abs(row).max() / np.float32(127)) or np.float32(1)
        q = np.clip(np.rint(row / scale), -127, 127)
        np.testing.assert_array_equal(rounded, q * scale)
    assert not found[weight == 0].any()


@given(st.integers(0, 999), st.floats(-4, 0), st.floats(0, 4))
def test_an_input_is_rounded_within_its_range_and_passes_its_gradient_there(seed, low, high):
    x = drawn(seed, (50,), sparse=False).mul(2).requires_grad_()
    low32, high32 = torch.tensor(low), torch.tensor(high)
    y = fake_quantize.int8_input(x, low32, high32)
    y.sum().backward()
    scale = float((high32 - low32) / 255) or 1.0
    zero = round(float(-low32 / scale))
    q = np.clip(np.rint(x.detach().double().numpy() / scale) + zero, 0, 255)
    off = np.abs(y.detach().numpy() - (q - zero) * scale)
    assert off.max() <= scale * 1.001  # one step, at ties
    assert (off < 1e-5).mean() > 0.9
    far = (x - y).detach().abs() > scale
    assert not x.grad[far].any()
    assert (x.grad[~far & ((x - y).detach().abs() < 0.49 * scale)] == 1).all()


def test_zero_is_exact_in_every_range():
    x = torch.zeros(3)
    for low, high in [(-1.0, 2.0), (0.0, 0.3), (-0.7, 0.0), (0.0, 0.0)]:
        assert not fake_quantize.int8_input(x, torch.tensor(low), torch.tensor(high)).any()


@pytest.mark.parametrize("size", [4, 16])
def test_a_codebook_moves_to_the_means_of_what_it_stands_for(size):
    weight = drawn(3, (20, 30))
    codebook = fake_quantize.make_codebook(weight, size)
    rounded, moved = fake_quantize.codebook_weight(weight, codebook)
    assert torch.equal(rounded == 0, weight == 0)
    assert len(rounded[weight != 0].unique()) <= size
    for number in rounded[weight != 0].unique():
        torch.testing.assert_close(weight[rounded == number].mean(), number, atol=1e-6, rtol=1e-5)
    assert torch.equal(moved.sort().values, moved)
    worse = torch.linspace(weight.min(), weight.max(), size)
    off = (weight[weight != 0][:, None] - worse).abs().min(1).values.square().sum()
    assert (rounded - weight).square().sum() < off


def test_a_layer_without_weights_has_a_codebook_all_the_same():
    weight = torch.zeros(3, 4)
    rounded, _ = fake_quantize.codebook_weight(weight, fake_quantize.make_codebook(weight, 4))
    assert not rounded.any()
