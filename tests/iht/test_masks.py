import pytest
import torch

from skinny.errors import SkinnyError
from skinny.iht import masks


def test_masks_have_the_counts_and_the_memory_format_of_their_weights():
    weight = torch.randn(8, 4, 3, 3).to(memory_format=torch.channels_last)
    made = masks.build({"w": weight}, {"w": 100})
    assert int(made["w"].sum()) == 100
    assert made["w"].stride() == weight.stride()


def test_a_bad_layer_is_named():
    weights = {"good": torch.randn(3, 3), "bad": torch.tensor([[float("nan")]])}
    with pytest.raises(SkinnyError, match="layer bad: cannot threshold: 1 of 1 entries are NaN"):
        masks.build(weights, {"good": 1, "bad": 1})


def test_applying_gives_plus_zero_whatever_was_there():
    x = torch.tensor([float("nan"), float("-inf"), -1.0, 2.0])
    masks.apply_(x, torch.tensor([False, False, False, True]))
    assert x.tolist() == [0.0, 0.0, 0.0, 2.0]
    assert not torch.signbit(x).any()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_applying_bits_is_the_same_to_the_bit(dtype):
    draw = torch.Generator().manual_seed(0)
    x = torch.randn(6, 4, 3, 3, generator=draw).to(dtype, memory_format=torch.channels_last)
    x[0, 0] = torch.tensor([float("nan"), float("inf"), -0.0]).to(dtype)
    mask = torch.rand(x.shape, generator=draw) < 0.5
    expected, got = x.clone(), x.clone()
    masks.apply_(expected, mask)
    masks.apply_bits_(got, masks.as_bits(mask, got))
    bits = {2: torch.int16, 4: torch.int32, 8: torch.int64}[x.element_size()]
    assert torch.equal(expected.view(bits), got.view(bits))


def test_change_ratio_is_the_share_of_differing_entries():
    a = torch.tensor([True, True, False, False])
    b = torch.tensor([True, False, True, False])
    assert masks.change_ratio(a, b) == 0.5
    assert masks.change_ratio(a, a) == 0.0
