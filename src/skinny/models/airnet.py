"""A small convolutional network for fast trainings on CIFAR, after Jordan's airbench (2024).

A convolution of 2x2, then three stages of two 3x3 convolutions each with a 2x2 max pool after the
first, then one maximum over what is left of the image and a linear layer. Activations are ReLU,
where airbench has GELU. `begin_whitened` gives it airbench's initial weights.
"""

from collections import OrderedDict

import torch
from torch import nn

from skinny.errors import SkinnyError
from skinny.models.check import check_arguments

_STEM, _STAGES = 24, (64, 256, 256)
_SMALLEST_IMAGE = 9  # 2x2 convolution, three poolings: a pixel is left
_AT_ONCE = 500  # images
_LEAST_VARIANCE = 5e-4  # added to each, so that noise in directions without variance stays small


class AirNet(nn.Sequential):
    """[batch, channels, height, width] -> [batch, classes], for any images of at least 9x9."""

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        height, width = images.shape[-2:]
        if height < _SMALLEST_IMAGE or width < _SMALLEST_IMAGE:
            raise SkinnyError(
                f"this network halves its images three times and needs at least {_SMALLEST_IMAGE}x"
                f"{_SMALLEST_IMAGE} pixels, got {height}x{width}; enlarge the images"
            )
        scores: torch.Tensor = super().forward(images)
        return scores


def airnet(classes: int = 10, channels: int = 3, *, width: float = 1.0) -> AirNet:
    """1,972,826 parameters at 10 classes and width 1, 498,138 at width 0.5.

    `width` multiplies the widths of the three stages (64, 256 and 256 channels); the stem has 24.
    """
    check_arguments(classes=classes, channels=channels, dropout=0.0)
    if not 0 < width < float("inf"):
        raise SkinnyError(f"width is {width}; it must be above 0")
    layers: OrderedDict[str, nn.Module] = OrderedDict(
        stem=nn.Conv2d(channels, _STEM, 2, bias=False),
        stem_norm=nn.BatchNorm2d(_STEM),
        stem_relu=nn.ReLU(),
    )
    before = _STEM
    for stage, full in enumerate(_STAGES, 1):
        after = max(1, round(full * width))
        layers[f"conv{stage}a"] = nn.Conv2d(before, after, 3, padding=1, bias=False)
        layers[f"pool{stage}"] = nn.MaxPool2d(2)
        layers[f"norm{stage}a"] = nn.BatchNorm2d(after)
        layers[f"relu{stage}a"] = nn.ReLU()
        layers[f"conv{stage}b"] = nn.Conv2d(after, after, 3, padding=1, bias=False)
        layers[f"norm{stage}b"] = nn.BatchNorm2d(after)
        layers[f"relu{stage}b"] = nn.ReLU()
        before = after
    layers["maximum"] = nn.AdaptiveMaxPool2d(1)
    layers["flatten"] = nn.Flatten()
    layers["classes"] = nn.Linear(before, classes)
    return AirNet(layers)


@torch.no_grad()
def begin_whitened(model: nn.Module, images: torch.Tensor) -> None:
    """Airbench's initial weights, which about halve the epochs to an accuracy.

    The first layer computes the principal components of the patches of `images` [n, c, h, w],
    which are training images as the network gets them, each divided by its standard deviation,
    and their negatives (a ReLU passes one of the two). It is frozen: no optimizer trains it and
    nothing prunes it. A 3x3 convolution begins as the identity of as many channels as it can.
    """
    if not isinstance(model, AirNet):
        raise SkinnyError(f"only airnet can begin whitened, not {type(model).__name__}")
    for layer in model.modules():
        if isinstance(layer, nn.Conv2d) and layer is not model.stem:
            nn.init.dirac_(layer.weight[: layer.in_channels])
    stem = model.get_parameter("stem.weight")
    filters = _whitening(images, stem.shape[-1]).to(stem)
    taken = filters[: len(stem) // 2]
    stem[: len(taken)], stem[len(stem) // 2 :][: len(taken)] = taken, -taken
    stem.requires_grad_(False)


def _whitening(images: torch.Tensor, kernel: int) -> torch.Tensor:
    """[c * kernel * kernel, c, kernel, kernel]: principal components by falling variance, each
    divided by its standard deviation."""
    channels = images.shape[1]
    squares = torch.zeros(2 * (channels * kernel * kernel,), dtype=torch.float64)
    count = 0
    for some in images.split(_AT_ONCE):  # patches take four times the memory of their images
        windows = some.double().unfold(2, kernel, 1).unfold(3, kernel, 1)  # [n, c, h, w, k, k]
        patches = windows.permute(0, 2, 3, 1, 4, 5).reshape(-1, len(squares))
        squares += patches.T @ patches
        count += len(patches)
    variances, components = torch.linalg.eigh(squares / count)
    scaled: torch.Tensor = components.T / (variances + _LEAST_VARIANCE).sqrt()[:, None]
    return scaled.flip(0).reshape(-1, channels, kernel, kernel)
