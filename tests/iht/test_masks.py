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


def test_change_ratio_is_the_share_of_differing_entries():
    a = torch.tensor([True, True, False, False])
    b = torch.tensor([True, False, True, False])
    assert masks.change_ratio(a, b) == 0.5
    assert masks.change_ratio(a, a) == 0.0
