"""The end is checked: does the budget hold, and does packing say so when it does not?"""

import gc
import warnings
import weakref

import pytest
import torch
from tests.iht.networks import LINE, batches, network, optimizer_for, train
from torch import nn

import skinny
from skinny.errors import SkinnyError
from skinny.iht import timeline
from skinny.iht.controller import IHT


def trained(epochs, line=LINE):
    model = network()
    optimizer = optimizer_for(model)
    iht = IHT(model, optimizer, line)
    train(model, optimizer, iht, epochs)
    return model, iht


@pytest.mark.parametrize("epochs", [7, 8, 9])
def test_a_training_in_its_last_span_meets_its_budget(epochs):
    _, iht = trained(epochs)
    assert iht.finish() == iht.history[-1].kept


@pytest.mark.parametrize("epochs", [0, 1, 3, 4, 6])
def test_a_loop_shorter_than_its_timeline_is_an_error_that_says_so(epochs):
    _, iht = trained(epochs)
    with pytest.raises(SkinnyError) as error:
        iht.finish()
    assert str(error.value) == (
        f"the training ended after {epochs} of 8 epochs, before the last span (sparse at 80.0%) "
        "began with epoch 7: train on, or give the timeline the length of the training"
    )


def test_steps_that_a_loss_scaler_skipped_are_missed():
    model = network()
    optimizer = optimizer_for(model)
    iht = IHT(model, optimizer, timeline.sdnn(steps=4, sparsity=0.5, dense=1, sparse=1))
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**10)
    for number, (x, y) in enumerate(batches(4)):
        optimizer.zero_grad()
        scaler.scale(nn.functional.cross_entropy(model(x), y)).backward()
        if number < 2:
            model[0].bias.grad.fill_(float("inf"))
        scaler.step(optimizer)
        scaler.update()
    assert not iht.sparse
    with pytest.raises(SkinnyError, match=r"after 2 of 4 steps \(steps that a loss scaler"):
        iht.finish()


@pytest.mark.parametrize(
    ("line", "epochs"),
    [(timeline.dense(epochs=3), 1), (timeline.dsd(epochs=3, sparsity=0.5), 3)],
)
def test_a_timeline_that_ends_dense_promises_no_budget(line, epochs):
    _, iht = trained(epochs, line)
    left = iht.finish()
    assert sum(left.values()) > 0.9 * sum(weight.numel() for weight in iht.weights.values())


def test_weights_that_something_else_revived_are_counted():
    model, iht = trained(8)
    with torch.no_grad():
        model[4].weight.fill_(1.0)
    kept = iht.history[-1].kept["4.weight"]
    assert kept < 768
    with pytest.raises(SkinnyError, match=f"4.weight has 768 weights, and its budget is {kept}"):
        iht.finish()


def packs(model, path):
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        skinny.pack(model, path / "model.skinny", weights_only=True)
    return [str(warning.message) for warning in seen]


def test_packing_warns_while_the_budget_does_not_hold(tmp_path):
    model, iht = trained(6)
    (said,) = packs(model, tmp_path)
    assert said.startswith("the model is not yet what its IHT promises: the training ended after 6")
    assert packs(torch.compile(model, backend="eager"), tmp_path) == [said]
    assert packs(model[4], tmp_path) == [said]
    assert packs(nn.Sequential(nn.ReLU(), model), tmp_path) == [said]
    assert packs(network(), tmp_path) == []
    iht.begin_epoch()
    assert packs(model, tmp_path) == []


def test_packing_asks_nothing_of_an_iht_that_was_detached(tmp_path):
    model, iht = trained(6)
    iht.detach()
    assert packs(model, tmp_path) == []


def test_packing_warns_when_only_the_model_is_left_of_the_training(tmp_path):
    model = trained(6)[0]
    gc.collect()
    assert len(packs(model, tmp_path)) == 1


def test_nothing_keeps_a_model_and_its_iht_alive():
    model, iht = trained(3)
    gone = weakref.ref(iht), weakref.ref(model), weakref.ref(model[4].weight)
    del model, iht
    gc.collect()
    assert [reference() for reference in gone] == [None] * 3
