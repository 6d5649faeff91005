import copy
import functools

import pytest
import torch
import torch.nn.functional as F
from tests.export import networks
from torch import nn

from skinny import models
from skinny.errors import SkinnyError
from skinny.export import UnsupportedOperationError, take_graph
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


@functools.cache
def network(name):
    """The model in eval mode, its graph, and the side of its input."""
    torch.manual_seed(0)
    build, side = NETWORKS[name]
    model = shake(build()).eval()
    return model, take_graph(model, torch.zeros(1, 3, side, side)), side


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
    graph = take_graph(model, torch.zeros(1, 3, 227, 227))
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
    take_graph(model, torch.randn(4, 3, 32, 32))
    assert [module.training for module in model.modules()] == modes
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())


class Uses(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.inner = nn.Sequential(nn.Conv2d(3, 4, 3), Calls(function))

    def forward(self, x):
        return self.inner(x)


class Calls(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function
        self.weight = nn.Parameter(torch.ones(4, 1, 1))

    def forward(self, x):
        return self.function(x, self.weight)


@pytest.mark.parametrize(
    ("function", "operation"),
    [
        (lambda x, w: torch.cumsum(x, 1), "cumsum"),
        (lambda x, w: x * x.sigmoid(), "mul"),
        (lambda x, w: x + 1, "add of a number"),
        (lambda x, w: x + w, "add of a stored tensor"),
        (lambda x, w: x.mean(1), "mean over other dimensions"),
        (lambda x, w: x / (x * x + 1.0).pow(0.5), "mul|div"),
        (lambda x, w: F.interpolate(x, scale_factor=2.0), "upsample"),
        (lambda x, w: F.conv2d(x, w.expand(4, 4, 1, 1)), "expand"),
        (lambda x, w: F.max_pool2d(x, 2, return_indices=True)[1], "getitem"),
        (lambda x, w: x.transpose(0, 1), "transpose"),
        (lambda x, w: x.reshape(-1, 2, *x.shape[2:]), "that changes the batch"),
        (lambda x, w: F.batch_norm(x, None, None, training=True), "batch"),
        (lambda x, w: x.clamp(min=0.1), "without both limits"),
        (lambda x, w: F.celu(x), "celu"),
    ],
)
def test_other_operations_are_refused_with_their_name_and_place(function, operation):
    with pytest.raises(UnsupportedOperationError, match=operation) as caught:
        take_graph(Uses(function), torch.zeros(1, 3, 8, 8))
    assert "module 'inner.1' (Calls)" in str(caught.value)
    assert "weights_only=True" in str(caught.value)


def test_one_dimensional_and_transposed_convolutions_are_refused():
    with pytest.raises(UnsupportedOperationError, match="conv1d, which the forward of Conv1d"):
        take_graph(nn.Conv1d(3, 4, 3), torch.zeros(1, 3, 8))
    with pytest.raises(UnsupportedOperationError, match="conv_transpose2d"):
        take_graph(nn.Sequential(nn.ConvTranspose2d(3, 4, 3)), torch.zeros(1, 3, 8, 8))


def test_lopsided_same_padding_is_refused():
    with pytest.raises(UnsupportedOperationError, match="not the same on both sides"):
        take_graph(nn.Conv2d(3, 4, 2, padding="same"), torch.zeros(1, 3, 8, 8))


class Branches(nn.Module):
    def forward(self, x):
        return x.relu() if x.sum() > 0 else x.tanh()


def test_a_model_torch_cannot_export_is_told_so():
    with pytest.raises(SkinnyError, match=r"torch\.export cannot .* Branches.*weights_only"):
        take_graph(Branches(), torch.zeros(1, 3))


@pytest.mark.parametrize("example", [torch.zeros(2, 3, dtype=torch.int64), torch.tensor(1.0), "x"])
def test_an_example_that_is_none_is_told(example):
    with pytest.raises(SkinnyError, match="the example must be a floating tensor"):
        take_graph(nn.Linear(3, 3), (example,))


def test_the_example_may_be_of_another_type_than_the_model():
    graph = take_graph(nn.Linear(3, 3).half(), torch.zeros(1, 3))
    assert [node["op"] for node in graph["nodes"]] == ["linear"]


def test_values_that_no_output_needs_are_left_out():
    class Wasteful(nn.Module):
        def forward(self, x):
            x.tanh()
            return x.relu()

    graph = take_graph(Wasteful(), torch.zeros(1, 3))
    assert [node["op"] for node in graph["nodes"]] == ["relu"]


def test_several_inputs_and_outputs_keep_their_order():
    class Two(nn.Module):
        def forward(self, left, right):
            return left + right, right.relu()

    graph = take_graph(Two(), (torch.zeros(1, 3), torch.zeros(1, 3)))
    left, right = torch.randn(2, 3), torch.randn(2, 3)
    both, rectified = run_torch(graph, {}, left, right)
    torch.testing.assert_close(both, left + right)
    torch.testing.assert_close(rectified, right.relu())
