"""A small network with every kind of layer, its optimizers and its batches, for the tests here."""

import pytest
import torch
from torch import nn

from skinny.iht import timeline

SGD, Adam, AdamW, RMSprop = (
    torch.optim.SGD,
    torch.optim.Adam,
    torch.optim.AdamW,
    torch.optim.RMSprop,
)
OPTIMIZERS = {
    "sgd": (SGD, {"lr": 0.1}),
    "momentum and decay": (SGD, {"lr": 0.05, "momentum": 0.9, "weight_decay": 1e-2}),
    "nesterov": (SGD, {"lr": 0.05, "momentum": 0.9, "nesterov": True, "weight_decay": 1e-2}),
    "adam": (Adam, {"lr": 1e-2, "weight_decay": 1e-2}),
    "adamw": (AdamW, {"lr": 1e-2, "weight_decay": 1e-1}),
    "amsgrad": (AdamW, {"lr": 1e-2, "amsgrad": True}),
    "rmsprop": (RMSprop, {"lr": 1e-3, "momentum": 0.9, "centered": True, "weight_decay": 1e-2}),
}
every_optimizer = pytest.mark.parametrize("kind", OPTIMIZERS)
LINE = timeline.sdnn(epochs=8, sparsity=0.8, dense=2, sparse=2, r0=0.5)  # D2 S2 D2 S2


def network(seed=0):
    torch.manual_seed(seed)
    return nn.Sequential(
        nn.Conv2d(1, 6, 3, padding=1),
        nn.BatchNorm2d(6),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(6 * 4 * 4, 8),
        nn.ReLU(),
        nn.Linear(8, 3),
    )


def batches(count=3, seed=0):
    draw = torch.Generator().manual_seed(seed)
    return [
        (torch.randn(8, 1, 4, 4, generator=draw), torch.randint(0, 3, (8,), generator=draw))
        for _ in range(count)
    ]


def optimizer_for(model, kind="momentum and decay"):
    factory, options = OPTIMIZERS[kind]
    return factory(model.parameters(), **options)


def step(model, optimizer, x, y):
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(x), y).backward()
    optimizer.step()


def train(model, optimizer, iht, epochs, check=lambda: None):
    for _ in range(epochs):
        iht.begin_epoch()
        for x, y in batches():
            step(model, optimizer, x, y)
            check()


def assert_truncated_are_zero(iht):
    for name, weight in iht.weights.items():
        truncated = weight[~iht.masks[name]]
        assert (truncated == 0).all()
        assert not torch.signbit(truncated).any()


def weights_of(model):
    return {name: value.clone() for name, value in model.state_dict().items()}


def assert_same(a, b):
    assert a.keys() == b.keys()
    for name in a:
        assert torch.equal(a[name], b[name]), name
