"""The paper's networks as plain PyTorch modules that know nothing about pruning."""

from skinny.models.alexnet import alexnet
from skinny.models.nin import nin_cifar, nin_digits, nin_mnist
from skinny.models.registry import build, names

__all__ = ["alexnet", "build", "names", "nin_cifar", "nin_digits", "nin_mnist"]
