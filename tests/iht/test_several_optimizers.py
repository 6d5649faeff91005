"""Several optimizers under one budget, and optimizers inside a wrapper."""

import copy

import pytest
import torch
from tests.iht.networks import LINE, assert_truncated_are_zero, batches, network, optimizer_for
from torch import nn
from torch.distributed.checkpoint.state_dict import get_optimizer_state_dict

from skinny.errors import SkinnyError
from skinny.iht import timeline
from skinny.iht.controller import IHT

BY_STEP = timeline.sdnn(steps=12, sparsity=0.8, dense=2, sparse=2)


def muon_and_adamw(model):
    """Muon for matrices, AdamW for the rest: the convolution is in the rest."""
    matrices = [p for p in model.parameters() if p.dim() == 2]
    rest = [p for p in model.parameters() if p.dim() != 2]
    return [
        torch.optim.Muon(matrices, lr=0.02, momentum=0.9, weight_decay=0.1),
        torch.optim.AdamW(rest, lr=0.01, weight_decay=0.1),
    ]


def step(model, optimizers, x, y):
    for optimizer in optimizers:
        optimizer.zero_grad()
    nn.functional.cross_entropy(model(x), y).backward()
    for optimizer in optimizers:
        optimizer.step()


class Wrapper(torch.optim.Optimizer):
    """As `accelerate` wraps optimizers: an Optimizer by name, without what its __init__ makes."""

    def __init__(self, optimizer):
        self.optimizer = optimizer

    @property
    def param_groups(self):
        return self.optimizer.param_groups

    @property
    def state(self):
        return self.optimizer.state

    def zero_grad(self, set_to_none=True):
        self.optimizer.zero_grad(set_to_none)

    def step(self, closure=None):
        self.optimizer.step(closure)


def test_one_budget_holds_over_the_weights_of_all_optimizers():
    model = network()
    optimizers = muon_and_adamw(model)
    iht = IHT(model, optimizers, LINE, budget="global")
    for _ in range(8):
        iht.begin_epoch()
        for x, y in batches():
            step(model, optimizers, x, y)
            if iht.sparse:
                assert_truncated_are_zero(iht)
    kept = iht.finish()
    assert list(kept) == ["0.weight", "4.weight", "6.weight"]
    assert sum(kept.values()) == round(0.2 * sum(w.numel() for w in iht.weights.values()))


def test_the_state_of_truncated_weights_is_cleared_in_every_optimizer():
    model = network()
    optimizers = muon_and_adamw(model)
    iht = IHT(model, optimizers, timeline.oneshot(epochs=2, sparsity=0.5, dense=1))
    iht.begin_epoch()
    step(model, optimizers, *batches()[0])
    iht.begin_epoch()
    momentum = optimizers[0].state[model[4].weight]["momentum_buffer"]
    moment = optimizers[1].state[model[0].weight]["exp_avg_sq"]
    for name, state in (("4.weight", momentum), ("0.weight", moment)):
        assert not state[~iht.masks[name]].any()
        assert state[iht.masks[name]].any()


@pytest.mark.parametrize("order", [1, -1])
def test_a_step_is_counted_when_every_optimizer_has_stepped(order):
    model = network()
    optimizers = muon_and_adamw(model)
    iht = IHT(model, optimizers, BY_STEP)
    for number, (x, y) in enumerate(batches(12)):
        assert iht.span is BY_STEP.spans[BY_STEP.index(number)]
        step(model, optimizers[::order], x, y)
    assert [record.at for record in iht.history] == [2, 6, 10]
    iht.finish()


def test_an_optimizer_that_steps_less_often_does_not_hold_the_count_back():
    model = network()
    often, seldom = muon_and_adamw(model)
    iht = IHT(model, [often, seldom], BY_STEP)
    for number, (x, y) in enumerate(batches(12)):
        step(model, [often, seldom] if number % 3 == 2 else [often], x, y)
    assert iht._cursor.position == 12
    iht.finish()


def test_several_optimizers_resume_exactly():
    def begin():
        model = network()
        optimizers = muon_and_adamw(model)
        return model, optimizers, IHT(model, optimizers, BY_STEP)

    data = batches(12)
    model, optimizers, iht = begin()
    for x, y in data[:7]:
        step(model, optimizers, x, y)
    states = copy.deepcopy([owner.state_dict() for owner in (model, *optimizers, iht)])
    for x, y in data[7:]:
        step(model, optimizers, x, y)
    again, again_optimizers, again_iht = begin()
    for owner, state in zip((again, *again_optimizers, again_iht), states, strict=True):
        owner.load_state_dict(state)
    for x, y in data[7:]:
        step(again, again_optimizers, x, y)
    assert all(
        torch.equal(a, b) for a, b in zip(again.parameters(), model.parameters(), strict=True)
    )
    assert again_iht.history == iht.history


def test_a_wrapped_optimizer_is_taken_out_of_its_wrapper():
    model, bare = network(), network()
    wrapped, plain = Wrapper(Wrapper(optimizer_for(model))), optimizer_for(bare)
    iht, bare_iht = IHT(model, wrapped, BY_STEP), IHT(bare, plain, BY_STEP)
    for x, y in batches(12):
        step(model, [wrapped], x, y)
        step(bare, [plain], x, y)
    assert iht.finish() == bare_iht.finish()
    assert all(
        torch.equal(a, b) for a, b in zip(model.parameters(), bare.parameters(), strict=True)
    )


def test_weights_that_no_optimizer_holds_are_refused_by_name():
    model = network()
    optimizers = muon_and_adamw(model)[:1]
    with pytest.raises(SkinnyError, match=r"the optimizer does not hold 0\.weight: give"):
        IHT(model, optimizers, LINE)


@pytest.mark.parametrize("given", ["adam", [None], Wrapper(None)])
def test_what_is_not_an_optimizer_is_refused(given):
    with pytest.raises(SkinnyError, match=r"IHT needs torch.optim.Optimizer, one or a list; a "):
        IHT(network(), given, LINE)


@pytest.mark.parametrize("line", [LINE, BY_STEP], ids=["epochs", "steps"])
def test_a_step_by_which_a_checkpoint_makes_state_is_none_of_the_training(line):
    model = network()
    optimizer = optimizer_for(model, "adamw")
    iht = IHT(model, optimizer, line)
    get_optimizer_state_dict(model, optimizer)
    assert optimizer.state
    assert iht._cursor.position == 0
    iht.begin_epoch()
    step(model, [optimizer], *batches()[0])
    assert iht._cursor.position == 1


def test_a_step_of_a_warm_up_that_begins_at_zero_is_counted():
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
    iht = IHT(model, optimizer, BY_STEP)
    for x, y in batches(3):
        step(model, [optimizer], x, y)
    assert iht._cursor.position == 3
