"""The LeNets of the pruning literature: 784-300-100-10, and Caffe's variant of LeNet-5."""

from collections import OrderedDict

import torch
from torch import nn

from skinny.errors import SkinnyError
from skinny.models.check import check_arguments

_SMALLEST_IMAGE = 16  # below it the second convolution of LeNet-5 has no window left


class LeNet(nn.Sequential):
    """[batch, channels, height, width] -> [batch, classes], for images of one size."""

    def __init__(self, layers: OrderedDict[str, nn.Module], image: tuple[int, int, int]) -> None:
        super().__init__(layers)
        self._image = image

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        if tuple(images.shape[1:]) != self._image:
            raise SkinnyError(
                f"this LeNet was made for images of {_by(self._image)}, got "
                f"{_by(images.shape[1:])}; make one for your size with image_size="
            )
        scores: torch.Tensor = super().forward(images)
        return scores


def lenet_300_100(
    classes: int = 10, channels: int = 1, *, image_size: tuple[int, int] = (28, 28)
) -> LeNet:
    """LeNet-300-100 (LeCun et al. 1998): two hidden layers; 266,610 parameters for MNIST.

    Weights and biases begin as PyTorch has them: uniform in +-1 / sqrt(fan_in).
    """
    check_arguments(classes=classes, channels=channels, dropout=0.0)
    height, width = _checked_size(image_size, smallest=1)
    layers: OrderedDict[str, nn.Module] = OrderedDict(
        flatten=nn.Flatten(),
        fc1=nn.Linear(channels * height * width, 300),
        relu1=nn.ReLU(),
        fc2=nn.Linear(300, 100),
        relu2=nn.ReLU(),
        fc3=nn.Linear(100, classes),
    )
    return LeNet(layers, (channels, height, width))


def lenet_5(
    classes: int = 10, channels: int = 1, *, image_size: tuple[int, int] = (28, 28)
) -> LeNet:
    """LeNet-5 as Caffe lays it out (20 and 50 maps, 500 units): 431,080 parameters for MNIST.

    Caffe's file has no ReLU after its two convolutions: max pooling is their only non-linearity.
    Here each has one, as PyTorch versions usually do; the weights are the same. Initialised
    as `lenet_300_100`.
    """
    check_arguments(classes=classes, channels=channels, dropout=0.0)
    height, width = _checked_size(image_size, smallest=_SMALLEST_IMAGE)
    maps = _after_stage(_after_stage(height)) * _after_stage(_after_stage(width))
    layers: OrderedDict[str, nn.Module] = OrderedDict(
        conv1=nn.Conv2d(channels, 20, 5),
        pool1=nn.MaxPool2d(2),  # before the ReLU, which then has a quarter of the values to pass
        relu1=nn.ReLU(),
        conv2=nn.Conv2d(20, 50, 5),
        pool2=nn.MaxPool2d(2),
        relu2=nn.ReLU(),
        flatten=nn.Flatten(),
        fc1=nn.Linear(50 * maps, 500),
        relu3=nn.ReLU(),
        fc2=nn.Linear(500, classes),
    )
    return LeNet(layers, (channels, height, width))


def _after_stage(side: int) -> int:
    """What a convolution of 5x5 without padding and a max pool of 2x2 leave of a side."""
    return (side - 4) // 2


def _checked_size(image_size: tuple[int, int], smallest: int) -> tuple[int, int]:
    if len(image_size) != 2 or any(
        not isinstance(side, int) or side < smallest for side in image_size
    ):
        raise SkinnyError(
            f"image_size is {image_size!r}; it is (height, width), each at least {smallest}"
        )
    return image_size


def _by(sizes: tuple[int, ...] | torch.Size) -> str:
    return "x".join(map(str, sizes))
