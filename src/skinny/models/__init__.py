"""Networks as plain PyTorch modules that know nothing about pruning."""

from skinny.models.airnet import airnet, begin_whitened
from skinny.models.alexnet import alexnet
from skinny.models.lenet import lenet_5, lenet_300_100
from skinny.models.nin import nin_cifar, nin_digits, nin_mnist
from skinny.models.registry import build, names

__all__ = [
    "airnet",
    "alexnet",
    "begin_whitened",
    "build",
    "lenet_5",
    "lenet_300_100",
    "names",
    "nin_cifar",
    "nin_digits",
    "nin_mnist",
]
