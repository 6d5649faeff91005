"""AlexNet (Krizhevsky, Sutskever, Hinton 2012) as Caffe's `bvlc_alexnet` lays it out."""

from collections import OrderedDict

import torch
from torch import nn

from skinny.errors import SkinnyError
from skinny.models.check import check_arguments

_SMALLEST, _LARGEST = 199, 230  # images in between also end as the 6x6 maps that fc6 expects


class AlexNet(nn.Sequential):
    """[batch, channels, 227, 227] -> [batch, classes]; any size from 199 to 230 fits."""

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        height, width = images.shape[-2:]
        if not (_SMALLEST <= height <= _LARGEST and _SMALLEST <= width <= _LARGEST):
            raise SkinnyError(
                f"AlexNet takes images of 227x227 pixels ({_SMALLEST} to {_LARGEST} on either side "
                f"fit as well), got {height}x{width}; resize or crop them"
            )
        scores: torch.Tensor = super().forward(images)
        return scores


def alexnet(classes: int = 1000, channels: int = 3, *, dropout: float = 0.5) -> AlexNet:
    """AlexNet: 60,965,224 parameters at 1000 classes.

    Two groups in conv2, conv4 and conv5; local response normalisation before pooling (as in Caffe,
    not after it as in the article's CaffeNet variant); Caffe's initialisation: N(0, 0.01^2), fc6
    and fc7 N(0, 0.005^2), biases 0 but 0.1 in conv2, conv4, conv5, fc6 and fc7.
    """
    check_arguments(classes=classes, channels=channels, dropout=dropout)
    layers: OrderedDict[str, nn.Module] = OrderedDict(
        conv1=_gaussian(nn.Conv2d(channels, 96, 11, stride=4), bias=0.0),
        relu1=nn.ReLU(),
        norm1=_norm(),
        pool1=_pool(),
        conv2=_gaussian(nn.Conv2d(96, 256, 5, padding=2, groups=2), bias=0.1),
        relu2=nn.ReLU(),
        norm2=_norm(),
        pool2=_pool(),
        conv3=_gaussian(nn.Conv2d(256, 384, 3, padding=1), bias=0.0),
        relu3=nn.ReLU(),
        conv4=_gaussian(nn.Conv2d(384, 384, 3, padding=1, groups=2), bias=0.1),
        relu4=nn.ReLU(),
        conv5=_gaussian(nn.Conv2d(384, 256, 3, padding=1, groups=2), bias=0.1),
        relu5=nn.ReLU(),
        pool5=_pool(),
        flatten=nn.Flatten(),
        fc6=_gaussian(nn.Linear(256 * 6 * 6, 4096), std=0.005, bias=0.1),
        relu6=nn.ReLU(),
        drop6=nn.Dropout(dropout),
        fc7=_gaussian(nn.Linear(4096, 4096), std=0.005, bias=0.1),
        relu7=nn.ReLU(),
        drop7=nn.Dropout(dropout),
        fc8=_gaussian(nn.Linear(4096, classes), bias=0.0),
    )
    return AlexNet(layers)


def _norm() -> nn.Module:
    # Caffe and PyTorch alike divide alpha by the window's size, and add to 1
    return nn.LocalResponseNorm(5, alpha=1e-4, beta=0.75, k=1.0)


def _pool() -> nn.Module:
    return nn.MaxPool2d(3, stride=2, ceil_mode=True)


def _gaussian(layer: nn.Conv2d | nn.Linear, *, bias: float, std: float = 0.01) -> nn.Module:
    nn.init.normal_(layer.weight, std=std)
    assert layer.bias is not None
    nn.init.constant_(layer.bias, bias)
    return layer
