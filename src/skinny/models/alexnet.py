"""AlexNet (Krizhevsky, Sutskever, Hinton 2012) as Caffe's `bvlc_alexnet` lays it out."""

import math
from collections import OrderedDict
from typing import Literal, get_args

import torch
from torch import nn

from skinny.errors import SkinnyError
from skinny.models.check import check_arguments

Init = Literal["caffe", "he"]

_SIZE = 227
_SMALLEST = 63  # smaller images have no window left for the last pooling
_CONVOLUTIONS, _CONNECTED = (96, 256, 384, 384, 256), 4096


class AlexNet(nn.Sequential):
    """[batch, channels, height, width] -> [batch, classes]; 227x227 unless made for another size.

    Images fit whose maps are, at the end, as many pixels as fc6 expects: 199 to 230 on either side
    where it expects 6x6.
    """

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        height, width = images.shape[-2:]
        channels = len(self.get_parameter("conv5.weight"))
        pixels = self.get_parameter("fc6.weight").shape[1] // channels
        if _pixels_left(height) * _pixels_left(width) != pixels:
            raise SkinnyError(
                f"this AlexNet does not take images of {height}x{width} pixels: they end as "
                f"{_pixels_left(height)}x{_pixels_left(width)}, and fc6 expects {pixels} in all "
                "(6x6 for images of 227x227); resize or crop them, or give it their image_size"
            )
        scores: torch.Tensor = super().forward(images)
        return scores


def alexnet(
    classes: int = 1000,
    channels: int = 3,
    *,
    image_size: tuple[int, int] = (_SIZE, _SIZE),
    width: float = 1.0,
    dropout: float = 0.5,
    init: Init = "caffe",
) -> AlexNet:
    """AlexNet: 60,965,224 parameters at 1000 classes.

    Two groups in conv2, conv4 and conv5; local response normalisation before pooling (as in Caffe,
    not after it as in the article's CaffeNet variant).

    - `image_size` (height, width): what fc6 is made for.
    - `width` multiplies every width but the classes'.
    - `init`: "caffe" draws from N(0, 0.01^2), fc6 and fc7 from N(0, 0.005^2), with biases 0 but
      0.1 in conv2, conv4, conv5, fc6 and fc7; narrow networks hardly begin to train from there.
      "he" draws from N(0, 2 / fan_in), with biases 0.
    """
    check_arguments(classes=classes, channels=channels, dropout=dropout)
    if not 0 < width < float("inf"):
        raise SkinnyError(f"width is {width}; it must be above 0")
    if init not in get_args(Init):
        raise SkinnyError(f"init is {init!r}; one of {', '.join(get_args(Init))} is meant")
    if min(image_size) < _SMALLEST:
        raise SkinnyError(
            f"AlexNet needs images of at least {_SMALLEST}x{_SMALLEST} pixels, got "
            f"{image_size[0]}x{image_size[1]}; enlarge the images"
        )
    # in pairs, for the groups
    c1, c2, c3, c4, c5 = (2 * max(1, round(full * width / 2)) for full in _CONVOLUTIONS)
    fc = max(1, round(_CONNECTED * width))
    pixels = _pixels_left(image_size[0]) * _pixels_left(image_size[1])
    layers: OrderedDict[str, nn.Module] = OrderedDict(
        conv1=_drawn(nn.Conv2d(channels, c1, 11, stride=4), init, bias=0.0),
        relu1=nn.ReLU(),
        norm1=_norm(),
        pool1=_pool(),
        conv2=_drawn(nn.Conv2d(c1, c2, 5, padding=2, groups=2), init, bias=0.1),
        relu2=nn.ReLU(),
        norm2=_norm(),
        pool2=_pool(),
        conv3=_drawn(nn.Conv2d(c2, c3, 3, padding=1), init, bias=0.0),
        relu3=nn.ReLU(),
        conv4=_drawn(nn.Conv2d(c3, c4, 3, padding=1, groups=2), init, bias=0.1),
        relu4=nn.ReLU(),
        conv5=_drawn(nn.Conv2d(c4, c5, 3, padding=1, groups=2), init, bias=0.1),
        relu5=nn.ReLU(),
        pool5=_pool(),
        flatten=nn.Flatten(),
        fc6=_drawn(nn.Linear(c5 * pixels, fc), init, std=0.005, bias=0.1),
        relu6=nn.ReLU(),
        drop6=nn.Dropout(dropout),
        fc7=_drawn(nn.Linear(fc, fc), init, std=0.005, bias=0.1),
        relu7=nn.ReLU(),
        drop7=nn.Dropout(dropout),
        fc8=_drawn(nn.Linear(fc, classes), init, bias=0.0),
    )
    return AlexNet(layers)


def _pixels_left(size: int) -> int:
    """Of one side of an image, after conv1 and three poolings: 6 of 227."""
    size = (size - 11) // 4 + 1
    for _ in range(3):
        size = math.ceil((size - 3) / 2) + 1
    return size


def _norm() -> nn.Module:
    # Caffe and PyTorch alike divide alpha by the window's size, and add to 1
    return nn.LocalResponseNorm(5, alpha=1e-4, beta=0.75, k=1.0)


def _pool() -> nn.Module:
    return nn.MaxPool2d(3, stride=2, ceil_mode=True)


def _drawn(
    layer: nn.Conv2d | nn.Linear, init: Init, *, bias: float, std: float = 0.01
) -> nn.Module:
    if init == "he":
        std, bias = math.sqrt(2 / layer.weight[0].numel()), 0.0
    nn.init.normal_(layer.weight, std=std)
    assert layer.bias is not None
    nn.init.constant_(layer.bias, bias)
    return layer
