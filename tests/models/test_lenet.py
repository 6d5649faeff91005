import pytest
import torch
from torch import nn

from skinny import models
from skinny.errors import SkinnyError
from skinny.models import lenet_5, lenet_300_100

MAKERS = [lenet_300_100, lenet_5]


@pytest.mark.parametrize(
    ("make", "parameters", "weights"),
    [(lenet_300_100, 266_610, 266_200), (lenet_5, 431_080, 430_500)],
)
def test_as_many_parameters_as_published(make, parameters, weights):
    sizes = [parameter.numel() for parameter in make().parameters()]
    matrices = [parameter.numel() for parameter in make().parameters() if parameter.dim() > 1]
    assert (sum(sizes), sum(matrices)) == (parameters, weights)


@pytest.mark.parametrize(
    ("make", "shapes"),
    [
        (lenet_300_100, {"fc1": (300, 784), "fc2": (100, 300), "fc3": (10, 100)}),
        (
            lenet_5,
            {
                "conv1": (20, 1, 5, 5),
                "conv2": (50, 20, 5, 5),
                "fc1": (500, 800),
                "fc2": (10, 500),
            },
        ),
    ],
)
def test_weights_per_layer(make, shapes):
    state = make().state_dict()
    assert {
        name.removesuffix(".weight"): tuple(tensor.shape)
        for name, tensor in state.items()
        if name.endswith(".weight")
    } == shapes
    assert set(state) == {f"{layer}.{kind}" for layer in shapes for kind in ("weight", "bias")}


@pytest.mark.parametrize("make", MAKERS)
def test_scores_of_a_batch(make):
    assert make()(torch.zeros(3, 1, 28, 28)).shape == (3, 10)


@pytest.mark.parametrize("make", MAKERS)
def test_weights_begin_as_pytorch_has_them(make):
    torch.manual_seed(0)
    for layer in make():
        if isinstance(layer, nn.Linear | nn.Conv2d):
            bound = layer.weight[0].numel() ** -0.5
            assert 0.9 * bound < layer.weight.abs().max() <= bound
            assert 0 < layer.bias.abs().max() <= bound


def test_every_layer_of_lenet_5_but_the_last_has_a_relu():
    kinds = [type(layer).__name__ for layer in lenet_5()]
    assert kinds == [
        *("Conv2d", "MaxPool2d", "ReLU"),
        *("Conv2d", "MaxPool2d", "ReLU"),
        *("Flatten", "Linear", "ReLU", "Linear"),
    ]


@pytest.mark.parametrize(
    ("name", "size", "first"),
    [("lenet-300-100", (8, 8), (300, 192)), ("lenet-5", (16, 20), (500, 100))],
)
def test_by_name_for_images_of_another_size(name, size, first):
    model = models.build(name, classes=4, channels=3, image_size=size)
    assert tuple(model.fc1.weight.shape) == first
    assert model(torch.zeros(2, 3, *size)).shape == (2, 4)


@pytest.mark.parametrize("make", MAKERS)
def test_images_of_another_size_than_it_was_made_for_are_refused(make):
    with pytest.raises(SkinnyError, match=r"images of 1x28x28, got 1x32x32; .*image_size"):
        make()(torch.zeros(1, 1, 32, 32))


@pytest.mark.parametrize(
    ("make", "size", "smallest"),
    [(lenet_300_100, (0, 8), 1), (lenet_5, (8, 8), 16), (lenet_5, (28,), 16)],
)
def test_impossible_sizes_are_refused(make, size, smallest):
    with pytest.raises(SkinnyError, match=rf"\(height, width\), each at least {smallest}"):
        make(image_size=size)
