import math

import pytest
import torch
from torch import nn

from skinny.errors import SkinnyError
from skinny.models import nin_cifar, nin_digits, nin_mnist

ALL = pytest.mark.parametrize(
    ("make", "channels", "size"),
    [(nin_cifar, 3, 32), (nin_mnist, 1, 28), (nin_digits, 1, 8)],
)


def count(model: nn.Module) -> int:
    return sum(parameter.numel() for parameter in model.parameters())


@pytest.mark.parametrize(
    ("model", "parameters"),
    [
        (nin_cifar(), 966_986),
        (nin_cifar(classes=100), 966_986 + 90 * 193),
        (nin_cifar(width=2), 3_832_458),
        (nin_mnist(), 349_674),
        (nin_digits(batch_norm=False), 70_986),
        (nin_digits(), 71_402),
        (nin_cifar(dropout=0, init="caffe", last_relu=True), 966_986),
        # a convolution followed by batch normalisation trades its bias for two vectors
        (nin_cifar(batch_norm=True), 966_986 + 192 + 160 + 96 + 192 * 5),
    ],
)
def test_parameter_counts(model, parameters):
    assert count(model) == parameters


def test_nin_half_has_half_the_parameters_as_in_the_paper():
    half = nin_cifar(width=math.sqrt(1 / 2))
    assert count(half) / 1e6 == pytest.approx(0.489, abs=0.0005)
    assert half.cccp6.out_channels == 10


def test_the_layers_of_the_cifar_network_are_those_of_caffe():
    layers = {
        name: (layer.in_channels, layer.out_channels, layer.kernel_size[0], layer.padding[0])
        for name, layer in nin_cifar().named_children()
        if isinstance(layer, nn.Conv2d)
    }
    assert layers == {
        "conv1": (3, 192, 5, 2),
        "cccp1": (192, 160, 1, 0),
        "cccp2": (160, 96, 1, 0),
        "conv2": (96, 192, 5, 2),
        "cccp3": (192, 192, 1, 0),
        "cccp4": (192, 192, 1, 0),
        "conv3": (192, 192, 3, 1),
        "cccp5": (192, 192, 1, 0),
        "cccp6": (192, 10, 1, 0),
    }


def test_the_order_of_layers_between_two_convolutions():
    names = list(dict(nin_cifar(batch_norm=True).named_children()))
    start = names.index("cccp2")
    assert names[start : start + 6] == [
        "cccp2",
        "bn_cccp2",
        "relu_cccp2",
        "pool1",
        "drop1",
        "conv2",
    ]
    assert names[-4:] == ["relu_cccp5", "cccp6", "pool3", "flatten"]


def test_state_dict_keys_are_layer_names_whatever_the_dropout():
    keys = set(nin_mnist().state_dict())
    convolutions = ["conv1", "conv2", "conv3", *(f"cccp{i}" for i in range(1, 7))]
    assert keys == {f"{name}.{part}" for name in convolutions for part in ("weight", "bias")}
    assert set(nin_mnist(dropout=0, last_relu=True).state_dict()) == keys


@ALL
def test_scores_of_a_batch(make, channels, size):
    model = make(classes=7, width=0.25)
    assert model(torch.randn(5, channels, size, size)).shape == (5, 7)


@pytest.mark.parametrize("size", [(4, 4), (5, 4), (7, 9), (31, 33), (33, 6), (64, 48)])
def test_any_image_of_at_least_four_pixels_fits(size):
    model = nin_cifar(channels=1, width=0.1)
    assert model(torch.randn(2, 1, *size)).shape == (2, 10)


@pytest.mark.parametrize("size", [(3, 8), (8, 3), (1, 1)])
def test_a_smaller_image_is_a_clear_error(size):
    with pytest.raises(SkinnyError, match=f"at least 4x4 pixels, got {size[0]}x{size[1]}"):
        nin_digits()(torch.randn(2, 1, *size))


@pytest.mark.parametrize("size", [8, 9, 16, 31])
def test_average_pooling_follows_caffes_rule_at_the_border(size):
    """Caffe: ceil((n - 3) / 2) + 1 windows; one that sticks out is averaged over what is inside."""
    image = torch.randn(size, size, dtype=torch.float64)
    windows = math.ceil((size - 3) / 2) + 1
    expected = torch.stack(
        [
            image[2 * i : 2 * i + 3, 2 * j : 2 * j + 3].mean()
            for i in range(windows)
            for j in range(windows)
        ]
    ).view(windows, windows)
    torch.testing.assert_close(nin_cifar(width=0.1).pool2(image[None, None])[0, 0], expected)


@pytest.mark.parametrize("batch_norm", [False, True])
def test_he_initialisation(batch_norm):
    torch.manual_seed(0)
    model = nin_cifar(batch_norm=batch_norm)
    for layer in (model.conv1, model.conv2, model.cccp4, model.conv3, model.cccp6):
        fan_in = layer.weight[0].numel()
        assert layer.weight.std().item() == pytest.approx(math.sqrt(2 / fan_in), rel=0.06)
        assert abs(layer.weight.mean().item()) < 0.1 * math.sqrt(2 / fan_in)
        assert layer.bias is None or not layer.bias.any()


@pytest.mark.parametrize("make", [nin_cifar, nin_mnist])
def test_caffe_initialisation(make):
    torch.manual_seed(0)
    for layer in make(init="caffe").children():
        if isinstance(layer, nn.Conv2d):
            assert layer.weight.std().item() == pytest.approx(0.05, rel=0.06)
            assert not layer.bias.any()


@ALL
@pytest.mark.parametrize("batch_norm", [False, True])
def test_every_parameter_gets_a_gradient(make, channels, size, batch_norm):
    torch.manual_seed(0)
    model = make(width=0.25, batch_norm=batch_norm)
    scores = model(torch.randn(16, channels, size, size))
    nn.functional.cross_entropy(scores, torch.arange(16) % 10).backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.any(), name


def test_the_last_relu_is_optional_and_makes_scores_non_negative():
    torch.manual_seed(0)
    free, clipped = nin_digits(dropout=0), nin_digits(dropout=0, last_relu=True)
    clipped.load_state_dict(free.state_dict())
    images = torch.randn(32, 1, 8, 8)
    assert free(images).min() < 0 <= clipped(images).min()


def test_one_seed_makes_one_network():
    def make(seed):
        torch.manual_seed(seed)
        return nin_digits().state_dict()

    first, again, other = make(1), make(1), make(2)
    assert all(torch.equal(first[key], again[key]) for key in first)
    assert not torch.equal(first["conv1.weight"], other["conv1.weight"])


@ALL
@pytest.mark.parametrize("batch_norm", [False, True])
def test_torch_export_gives_the_same_scores_for_any_batch(make, channels, size, batch_norm):
    model = make(width=0.25, batch_norm=batch_norm).eval()
    images = torch.randn(3, channels, size, size)
    batch = torch.export.Dim("batch")
    program = torch.export.export(model, (images[:2],), dynamic_shapes=({0: batch},))
    torch.testing.assert_close(program.module()(images), model(images))


def test_torch_compile_finds_one_graph():
    model = nin_digits().eval()
    images = torch.randn(2, 1, 8, 8)
    compiled = torch.compile(model, backend="eager", fullgraph=True)
    torch.testing.assert_close(compiled(images), model(images))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"classes": 0}, "classes must be .* at least 1, got 0"),
        ({"channels": 1.5}, "channels must be .* got 1.5"),
        ({"width": 0}, "width .* above 0, got 0"),
        ({"width": math.nan}, "width .* got nan"),
        ({"dropout": 1.0}, "dropout .* got 1.0"),
        ({"dropout": -0.1}, "dropout .* got -0.1"),
        ({"init": "xavier"}, "init must be one of he, caffe, got 'xavier'"),
    ],
)
def test_bad_arguments_are_clear_errors(arguments, message):
    with pytest.raises(SkinnyError, match=message):
        nin_cifar(**arguments)
