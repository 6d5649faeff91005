import copy
import functools

import pytest
import torch
from tests.export import networks
from torch import nn

from skinny import models
from skinny.errors import SkinnyError
from skinny.export import check
from skinny.export.examples import Examples
from skinny.export.model import _array
from skinny.export.stored import Stored
from skinny.export.torch_import import take_graph
from skinny.graph.format1 import to_format1
from skinny.packing import graph as graphs
from skinny.peers.torch_graph import run as run_torch

NETWORKS = {
    "nin": (lambda: models.build("nin-cifar", classes=10, channels=3, image_size=(32, 32)), 32),
    "vgg": (networks.vgg, 32),
    "resnet": (networks.ResNet, 32),
    "pre-activation": (networks.PreActivation, 16),
    "activations": (networks.Activations, 8),
    "pools": (networks.Pools, 15),
    "shapes": (networks.Shapes, 16),
}


def shake(model):
    """Statistics and scales as after training, not the ones and zeros of initialisation."""
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.running_mean.normal_()
            module.running_var.uniform_(0.5, 2)
            if module.affine:
                nn.init.normal_(module.weight)
                nn.init.normal_(module.bias)
    return model


def outputs(model, x):
    with torch.no_grad():
        result = model(x)
    return list(result) if isinstance(result, tuple) else [result]


def taken(model, example):
    """The model's graph in format 1."""
    graph, _ = take_graph(model, Examples(model, example))
    tensors = Stored({name: _array(tensor) for name, tensor in model.state_dict().items()})
    return to_format1(graph, tensors.spec, tensors.array)


@functools.cache
def network(name):
    """The model in eval mode, its graph, and the side of its input."""
    torch.manual_seed(0)
    build, side = NETWORKS[name]
    model = shake(build()).eval()
    return model, taken(model, torch.zeros(1, 3, side, side)), side


@pytest.mark.parametrize("name", NETWORKS)
def test_the_graph_computes_what_the_model_does(name):
    model, graph, side = network(name)
    shapes = {name: tuple(tensor.shape) for name, tensor in model.state_dict().items()}
    assert graphs.check(copy.deepcopy(graph), shapes.get) == graph
    for batch in (1, 3):
        x = torch.randn(batch, 3, side, side)
        expected = outputs(model, x)
        with torch.no_grad():
            computed = run_torch(graph, model.state_dict(), x)
        for ours, theirs in zip(computed, expected, strict=True):
            torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)


def test_alexnet_becomes_its_own_layers():
    model = models.build("alexnet", classes=1000, channels=3, image_size=(227, 227))
    graph = taken(model, torch.zeros(1, 3, 227, 227))
    assert [node["op"] for node in graph["nodes"]] == [
        *("conv", "relu", "lrn", "max_pool"),
        *("conv", "relu", "lrn", "max_pool"),
        *("conv", "relu", "conv", "relu", "conv", "relu", "max_pool"),
        *("flatten", "linear", "relu", "linear", "relu", "linear"),
    ]
    assert graph["nodes"][4]["groups"] == 2
    assert graph["inputs"][0]["shape"] == [None, 3, 227, 227]


def test_every_operation_of_the_format_is_reached_by_some_network():
    seen: set[str] = set()
    for name in NETWORKS:
        seen |= {node["op"] for node in network(name)[1]["nodes"]}
    assert seen == set(graphs.OPERATIONS)


def test_the_model_is_left_as_it_was():
    model = networks.vgg().train()
    model[1].eval()  # a frozen batch norm
    before = copy.deepcopy(model.state_dict())
    modes = [module.training for module in model.modules()]
    taken(model, torch.randn(4, 3, 32, 32))
    assert [module.training for module in model.modules()] == modes
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())


class Branches(nn.Module):
    def forward(self, x):
        return x.relu() if x.sum() > 0 else x.tanh()


def test_a_model_torch_cannot_export_is_told_so():
    with pytest.raises(SkinnyError, match=r"torch\.export cannot .* Branches.*weights_only"):
        check(Branches(), torch.zeros(1, 3))


@pytest.mark.parametrize("example", [torch.tensor(1.0), "x", ()])
def test_an_example_that_is_none_is_told(example):
    with pytest.raises(SkinnyError, match="the example"):
        check(nn.Linear(3, 3), (example,) if isinstance(example, str) else example)


def test_the_example_may_be_of_another_type_than_the_model():
    graph = taken(nn.Linear(3, 3).half(), torch.zeros(1, 3))
    assert [node["op"] for node in graph["nodes"]] == ["linear"]


def test_values_that_no_output_needs_are_left_out():
    class Wasteful(nn.Module):
        def forward(self, x):
            x.tanh()
            return x.relu()

    graph = taken(Wasteful(), torch.zeros(1, 3))
    assert [node["op"] for node in graph["nodes"]] == ["relu"]
