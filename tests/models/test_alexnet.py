import pytest
import torch
from torch import nn

from skinny.errors import SkinnyError
from skinny.models import alexnet


@pytest.fixture(scope="module")
def model():
    torch.manual_seed(0)
    return alexnet().eval()


def test_parameter_count(model):
    assert sum(parameter.numel() for parameter in model.parameters()) == 60_965_224


def test_weights_per_layer(model):
    assert {key: tuple(value.shape) for key, value in model.state_dict().items()} == {
        "conv1.weight": (96, 3, 11, 11),
        "conv1.bias": (96,),
        "conv2.weight": (256, 48, 5, 5),
        "conv2.bias": (256,),
        "conv3.weight": (384, 256, 3, 3),
        "conv3.bias": (384,),
        "conv4.weight": (384, 192, 3, 3),
        "conv4.bias": (384,),
        "conv5.weight": (256, 192, 3, 3),
        "conv5.bias": (256,),
        "fc6.weight": (4096, 9216),
        "fc6.bias": (4096,),
        "fc7.weight": (4096, 4096),
        "fc7.bias": (4096,),
        "fc8.weight": (1000, 4096),
        "fc8.bias": (1000,),
    }


def test_normalisation_comes_before_pooling(model):
    names = list(dict(model.named_children()))
    assert names[:8] == ["conv1", "relu1", "norm1", "pool1", "conv2", "relu2", "norm2", "pool2"]


@pytest.mark.parametrize(
    ("layer", "std", "bias"),
    [
        ("conv1", 0.01, 0.0),
        ("conv2", 0.01, 0.1),
        ("conv3", 0.01, 0.0),
        ("conv4", 0.01, 0.1),
        ("conv5", 0.01, 0.1),
        ("fc6", 0.005, 0.1),
        ("fc7", 0.005, 0.1),
        ("fc8", 0.01, 0.0),
    ],
)
def test_initialisation_is_that_of_caffe(model, layer, std, bias):
    weight = getattr(model, layer).weight
    assert weight.std().item() == pytest.approx(std, rel=0.02)
    assert abs(weight.mean().item()) < 0.02 * std
    assert (getattr(model, layer).bias == bias).all()


def test_response_normalisation_follows_caffes_formula(model):
    """y_c = x_c / (1 + alpha / 5 * sum of the five nearest channels' squares) ^ beta."""
    maps = 50 * torch.rand(1, 7, 2, 2)
    squares = torch.nn.functional.pad(maps**2, (0, 0, 0, 0, 2, 2))
    sums = torch.stack([squares[0, c : c + 5].sum(0) for c in range(7)])[None]
    torch.testing.assert_close(model.norm1(maps), maps / (1 + 1e-4 / 5 * sums) ** 0.75)


@pytest.mark.parametrize("size", [(227, 227), (224, 224), (199, 230)])
@torch.no_grad()
def test_images_that_fit(model, size):
    assert model(torch.randn(1, 3, *size)).shape == (1, 1000)


@pytest.mark.parametrize("size", [(198, 227), (227, 231), (32, 32)])
def test_images_that_do_not_fit_are_a_clear_error(model, size):
    with pytest.raises(SkinnyError, match=f"{size[0]}x{size[1]} pixels.*6x6 for .*227x227"):
        model(torch.randn(1, 3, *size))


@pytest.mark.parametrize("size", [(63, 63), (64, 199), (112, 128)])
@torch.no_grad()
def test_a_network_made_for_images_of_another_size_takes_them(size):
    model = alexnet(classes=3, image_size=size, width=0.05)
    assert model(torch.randn(2, 3, *size)).shape == (2, 3)
    with pytest.raises(SkinnyError, match="does not take images of 227x227"):
        model(torch.randn(1, 3, 227, 227))


def test_width_multiplies_every_layer_but_the_classes():
    widths = [
        layer.weight.shape[0]
        for layer in alexnet(10, width=0.5).children()
        if hasattr(layer, "weight")
    ]
    assert widths == [48, 128, 192, 192, 128, 2048, 2048, 10]


def test_he_initialisation_keeps_the_scale_of_a_narrow_network():
    torch.manual_seed(0)
    model = alexnet(10, image_size=(64, 64), width=0.1, init="he")
    assert model.fc7.weight.std().item() == pytest.approx((2 / 410) ** 0.5, rel=0.02)
    assert not any(layer.bias.any() for layer in model.children() if hasattr(layer, "bias"))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"width": 0.0}, "width is 0.0; it must be above 0"),
        ({"init": "xavier"}, "init is 'xavier'; one of caffe, he is meant"),
        ({"image_size": (62, 227)}, "at least 63x63 pixels, got 62x227"),
    ],
)
def test_bad_arguments_are_one_sentence(changes, message):
    with pytest.raises(SkinnyError, match=message):
        alexnet(**changes)


def test_every_parameter_gets_a_gradient(model):
    model(torch.randn(1, 3, 199, 199)).logsumexp(1).sum().backward()
    missing = [name for name, p in model.named_parameters() if p.grad is None or not p.grad.any()]
    model.zero_grad()
    assert not missing


def test_classes_channels_and_dropout_are_the_users():
    model = alexnet(classes=5, channels=1, dropout=0.1)
    assert model.fc8.out_features == 5
    assert model.conv1.in_channels == 1
    assert [layer.p for layer in model.modules() if isinstance(layer, nn.Dropout)] == [0.1, 0.1]
    with pytest.raises(SkinnyError, match="classes must be"):
        alexnet(classes=-1)


@torch.no_grad()
def test_torch_export_gives_the_same_scores(model):
    images = torch.randn(2, 3, 227, 227)
    program = torch.export.export(model, (images,))
    torch.testing.assert_close(program.module()(images), model(images))
