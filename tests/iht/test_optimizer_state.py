"""What an optimizer keeps of truncated weights, and how restored ones set out."""

import pytest
import torch
from tests.iht.networks import every_optimizer, network, optimizer_for, train
from torch import nn

from skinny.iht import optimizer_state, timeline
from skinny.iht.controller import IHT

LR = 1e-3
ADAPTIVE = {
    "adam": lambda p: torch.optim.Adam(p, lr=LR),
    "adamw": lambda p: torch.optim.AdamW(p, lr=LR),
    "adamw, fused": lambda p: torch.optim.AdamW(p, lr=LR, fused=True),
    "amsgrad": lambda p: torch.optim.Adam(p, lr=LR, amsgrad=True),
    "nadam": lambda p: torch.optim.NAdam(p, lr=LR),
    "radam": lambda p: torch.optim.RAdam(p, lr=LR),
    "adamax": lambda p: torch.optim.Adamax(p, lr=LR),
    "rmsprop": lambda p: torch.optim.RMSprop(p, lr=LR),
    "rmsprop, centered": lambda p: torch.optim.RMSprop(p, lr=LR, centered=True, momentum=0.9),
    "adagrad": lambda p: torch.optim.Adagrad(p, lr=LR),
    "adadelta": lambda p: torch.optim.Adadelta(p),
    "rprop": lambda p: torch.optim.Rprop(p, lr=LR),
}


def spans(*lengths):
    """Dense, sparse, dense, ... epochs."""
    pieces = [(length, 0.0 if i % 2 == 0 else 0.5) for i, length in enumerate(lengths)]
    return timeline._timeline("spans", "epoch", pieces)


@pytest.mark.parametrize("sparse_steps", [2, 1000])
@pytest.mark.parametrize("kind", ADAPTIVE)
def test_a_restored_weight_moves_no_further_than_its_neighbours(kind, sparse_steps):
    """Under a constant gradient Adam moved it by 6.6 times the learning rate, RMSprop by ten."""
    torch.manual_seed(0)
    model = nn.Linear(16, 16, bias=False)
    optimizer = ADAPTIVE[kind](model.parameters())
    iht = IHT(model, optimizer, spans(1, 1, 1))
    gradient = torch.where(torch.rand(16, 16) < 0.5, -1.0, 1.0)

    def step():
        before = model.weight.detach().clone()
        model.weight.grad = gradient.clone()
        optimizer.step()
        return (model.weight.detach() - before).abs()

    for steps in (10, sparse_steps):
        iht.begin_epoch()
        for _ in range(steps):
            step()
    mask = iht.masks["weight"]
    iht.begin_epoch()
    for _ in range(150):
        moved = step()
        assert moved[~mask].max() <= 1.05 * moved[mask].max()


@every_optimizer
def test_restored_weights_have_no_momentum_and_kept_ones_lose_nothing(kind):
    model = network()
    optimizer = optimizer_for(model, kind)
    iht = IHT(model, optimizer, spans(2, 2, 2))
    train(model, optimizer, iht, 4)
    before = {
        (name, key): value.clone()
        for name, weight in iht.weights.items()
        for key, value in optimizer.state[weight].items()
        if torch.is_tensor(value)
    }
    iht.begin_epoch()
    for name, weight in iht.weights.items():
        mask = iht.masks[name]
        for key, value in optimizer.state[weight].items():
            if not torch.is_tensor(value) or value.shape != weight.shape:
                continue
            assert torch.equal(value[mask], before[name, key][mask])
            if key in ("exp_avg", "momentum_buffer", "grad_avg"):
                assert not value[~mask].any()
            else:
                mean = float(before[name, key][mask].mean())
                assert value[~mask].tolist() == pytest.approx([mean] * int((~mask).sum()))


def test_state_that_is_not_of_floats_is_left_alone():
    state = {"state1": torch.full((3,), 7, dtype=torch.uint8), "step": 4}
    optimizer_state.clear(state, torch.tensor([True, False, True]))
    optimizer_state.refill(state, torch.tensor([True, False, True]))
    assert state["state1"].tolist() == [7, 7, 7]


@pytest.mark.parametrize("kind", [*ADAPTIVE, "momentum"])
def test_an_optimizer_that_has_stepped_is_told_from_a_new_one(kind):
    make = ADAPTIVE.get(kind, lambda p: torch.optim.SGD(p, lr=LR, momentum=0.9))
    weight = nn.Parameter(torch.ones(3))
    optimizer = make([weight])
    assert not optimizer_state.has_stepped(optimizer.state.get(weight, {}))
    weight.grad = torch.ones(3)
    optimizer.step()
    assert optimizer_state.has_stepped(optimizer.state[weight])
