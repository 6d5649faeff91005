"""Network in Network (Lin, Chen, Yan 2013), as its authors' Caffe models lay it out.

Three stages, each a k x k convolution and two 1x1 convolutions ("cccp" layers), every one followed
by ReLU. The first stage ends in max pooling, the second in average pooling, both 3x3 with stride 2
and followed by dropout; the third ends in one map per class and global average pooling.

    conv1 cccp1 cccp2 pool1 | conv2 cccp3 cccp4 pool2 | conv3 cccp5 cccp6 pool3

Pooling rounds up (`ceil_mode`): n pixels become ceil((n - 3) / 2) + 1. Caffe does the same, and
like PyTorch without padding it divides a window that sticks out by the pixels inside, not by nine.
"""

import math
from collections import OrderedDict
from collections.abc import Iterator
from typing import Literal, NamedTuple, get_args

import torch
from torch import nn

from skinny.errors import SkinnyError
from skinny.models.check import check_arguments

Init = Literal["he", "caffe"]

_SMALLEST_IMAGE = 4  # below it the second pooling has no window left


class _Stage(NamedTuple):
    kernel: int
    widths: tuple[int, ...]  # the class layer is not listed: it is as wide as there are classes


class NIN(nn.Sequential):
    """[batch, channels, height, width] -> [batch, classes], for any images of at least 4x4."""

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        height, width = images.shape[-2:]
        if height < _SMALLEST_IMAGE or width < _SMALLEST_IMAGE:
            raise SkinnyError(
                f"NIN halves its images twice and needs at least {_SMALLEST_IMAGE}x"
                f"{_SMALLEST_IMAGE} pixels, got {height}x{width}; enlarge the images"
            )
        scores: torch.Tensor = super().forward(images)
        return scores


def nin_cifar(
    classes: int = 10,
    channels: int = 3,
    *,
    width: float = 1.0,
    batch_norm: bool = False,
    dropout: float = 0.5,
    init: Init = "he",
    last_relu: bool = False,
) -> NIN:
    """NIN for CIFAR-10 and CIFAR-100: 966,986 parameters at 10 classes.

    - `width` multiplies every width but the classes', rounded to the nearest: sqrt(1/2) is the
      paper's NIN_1/2 (about 0.49 M parameters), 2 is its NIN_2 (3,832,458).
    - `batch_norm` puts batch normalisation between each convolution and its ReLU; those
      convolutions then have no bias, which the normalisation would subtract again. The class layer
      is not normalised.
    - `init`: "caffe" draws all weights from N(0, 0.05^2); "he" from N(0, 2 / fan_in). Biases are 0.
    - `last_relu`: Caffe's model, the paper's baseline, has a ReLU on the class layer too. A class
      whose map is negative on every image then gets no gradient and is never predicted, so that a
      run may fail by its seed; it is off unless asked for.
    """
    stages = (
        _Stage(5, (192, 160, 96)),
        _Stage(5, (192, 192, 192)),
        _Stage(3, (192, 192)),
    )
    return _nin(stages, classes, channels, width, batch_norm, dropout, init, last_relu)


def nin_mnist(
    classes: int = 10,
    channels: int = 1,
    *,
    width: float = 1.0,
    batch_norm: bool = False,
    dropout: float = 0.5,
    init: Init = "he",
    last_relu: bool = False,
) -> NIN:
    """NIN for MNIST: 349,674 parameters at 10 classes. Options as for `nin_cifar`.

    The published tables give kernels and widths; padding (2, so that a convolution keeps the size)
    and the kind of pooling are those of the CIFAR network.
    """
    stages = (
        _Stage(5, (96, 64, 48)),
        _Stage(5, (128, 96, 48)),
        _Stage(5, (128, 96)),
    )
    return _nin(stages, classes, channels, width, batch_norm, dropout, init, last_relu)


def nin_digits(
    classes: int = 10,
    channels: int = 1,
    *,
    width: float = 1.0,
    batch_norm: bool = True,
    dropout: float = 0.0,
    init: Init = "he",
    last_relu: bool = False,
) -> NIN:
    """A NIN for 8x8 images, small enough to train in seconds. Options as for `nin_cifar`.

    Unlike the others it has batch normalisation and no dropout unless told otherwise: a network so
    narrow underfits with dropout once most of its weights are gone.
    """
    stages = (
        _Stage(3, (32, 32, 32)),
        _Stage(3, (64, 64, 64)),
        _Stage(3, (64, 64)),
    )
    return _nin(stages, classes, channels, width, batch_norm, dropout, init, last_relu)


def _nin(
    stages: tuple[_Stage, ...],
    classes: int,
    channels: int,
    width: float,
    batch_norm: bool,
    dropout: float,
    init: Init,
    last_relu: bool,
) -> NIN:
    check_arguments(classes=classes, channels=channels, dropout=dropout)
    if not (math.isfinite(width) and width > 0):
        raise SkinnyError(f"width multiplies the widths of NIN and must be above 0, got {width}")
    if init not in get_args(Init):
        raise SkinnyError(f"init must be one of {', '.join(get_args(Init))}, got {init!r}")

    layers: OrderedDict[str, nn.Module] = OrderedDict()
    pools: Iterator[nn.Module] = iter(
        (
            nn.MaxPool2d(3, stride=2, ceil_mode=True),
            nn.AvgPool2d(3, stride=2, ceil_mode=True),
            nn.AdaptiveAvgPool2d(1),
        )
    )
    inputs, cccp = channels, 0
    for number, stage in enumerate(stages, start=1):
        last_stage = number == len(stages)
        outputs = [max(1, round(wide * width)) for wide in stage.widths]
        if last_stage:
            outputs.append(classes)
        for position, wide in enumerate(outputs):
            if position:
                cccp += 1
            name = f"cccp{cccp}" if position else f"conv{number}"
            kernel = 1 if position else stage.kernel
            is_class_layer = last_stage and position == len(outputs) - 1
            normalised = batch_norm and not is_class_layer
            layers[name] = _convolution(inputs, wide, kernel, bias=not normalised, init=init)
            if normalised:
                layers[f"bn_{name}"] = nn.BatchNorm2d(wide)
            if last_relu or not is_class_layer:
                layers[f"relu_{name}"] = nn.ReLU()
            inputs = wide
        layers[f"pool{number}"] = next(pools)
        if dropout and not last_stage:
            layers[f"drop{number}"] = nn.Dropout(dropout)
    layers["flatten"] = nn.Flatten()
    return NIN(layers)


def _convolution(inputs: int, outputs: int, kernel: int, *, bias: bool, init: Init) -> nn.Conv2d:
    layer = nn.Conv2d(inputs, outputs, kernel, padding=kernel // 2, bias=bias)
    std = 0.05 if init == "caffe" else math.sqrt(2 / (inputs * kernel**2))
    nn.init.normal_(layer.weight, std=std)
    if layer.bias is not None:
        nn.init.zeros_(layer.bias)
    return layer
