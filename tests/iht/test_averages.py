"""Averages of the weights get the masks of the model they average."""

import copy

import pytest
import torch
from tests.iht.networks import LINE, batches, network, optimizer_for, step, train
from torch import nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from skinny.errors import SkinnyError
from skinny.iht.controller import IHT

AVERAGES = {
    "swa": lambda model: AveragedModel(model),
    "ema": lambda model: AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.9)),
    "compiled": lambda model: AveragedModel(torch.compile(model, backend="eager")),
}


@pytest.mark.parametrize("kind", AVERAGES)
def test_an_average_over_all_spans_is_dense_until_the_final_masks_are_applied(kind):
    model = network()
    average = AVERAGES[kind](model)
    optimizer = optimizer_for(model)
    iht = IHT(model, optimizer, LINE)
    train(model, optimizer, iht, 8, check=lambda: average.update_parameters(model))
    weights = [p for name, p in average.named_parameters() if p.dim() >= 2]
    dense = [p.detach().clone() for p in weights]
    assert all((p != 0).all() for p in dense)
    assert iht.apply_to(average) == iht.finish()
    for before, now, mask in zip(dense, weights, iht.masks.values(), strict=True):
        assert torch.equal(now, torch.where(mask, before, 0))


def test_a_copy_kept_by_hand_gets_the_masks_and_the_model_is_left_alone():
    model = network()
    ema = copy.deepcopy(model)
    optimizer = optimizer_for(model)
    iht = IHT(model, optimizer, LINE)
    train(model, optimizer, iht, 7)
    with torch.no_grad():
        for mine, its in zip(ema.parameters(), model.parameters(), strict=True):
            mine.lerp_(its, 0.1)
    before = copy.deepcopy(model.state_dict())
    iht.apply_to(nn.DataParallel(ema))
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())
    masks = {name: p != 0 for name, p in ema.named_parameters() if name in iht.masks}
    assert all(torch.equal(masks[name], mask) for name, mask in iht.masks.items())
    step(ema, optimizer_for(ema), *batches()[0])  # no mask is enforced on the copy


def test_a_dense_span_has_no_masks_to_apply():
    model = network()
    iht = IHT(model, optimizer_for(model), LINE)
    for _ in range(5):  # the second dense span: there are masks, and they are not enforced
        iht.begin_epoch()
    with pytest.raises(SkinnyError, match="no masks are enforced in a dense span"):
        iht.apply_to(copy.deepcopy(model))


def test_another_network_is_refused_before_anything_is_changed():
    model = network()
    iht = IHT(model, optimizer_for(model), LINE)
    for _ in range(3):
        iht.begin_epoch()
    other = network()
    other[6] = nn.Linear(8, 4)
    with pytest.raises(SkinnyError, match=r"no copy .* has no 6\.weight of the shape \(3, 8\)"):
        iht.apply_to(other)
    assert (other[0].weight != 0).all()
