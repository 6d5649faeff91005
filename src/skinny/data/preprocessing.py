"""From uint8 pixels to what a network sees."""

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from skinny.images import scale_and_shift


class Preprocessing(Protocol):
    """A fixed map from uint8 [n, c, h, w] to float32 of the same shape, on the same device."""

    def to(self, device: torch.device) -> "Preprocessing": ...

    def __call__(self, images: Tensor) -> Tensor: ...


class AsItComes:
    """For images that are float32 and prepared."""

    def to(self, device: torch.device) -> "AsItComes":
        return self

    def __call__(self, images: Tensor) -> Tensor:
        return images


@dataclass(frozen=True)
class Normalization:
    """(x / 255 - mean) / std per channel, as one multiplication and one addition."""

    scale: Tensor  # [c, 1, 1]
    shift: Tensor  # [c, 1, 1]

    @classmethod
    def of(cls, mean: tuple[float, ...], std: tuple[float, ...]) -> "Normalization":
        """`mean` and `std` in units of [0, 1], one per channel."""
        scale, shift = map(torch.from_numpy, scale_and_shift(mean, std))
        return cls(scale[:, None, None], shift[:, None, None])

    def to(self, device: torch.device) -> "Normalization":
        return Normalization(self.scale.to(device), self.shift.to(device))

    def __call__(self, images: Tensor) -> Tensor:
        return images.to(torch.float32).mul_(self.scale).add_(self.shift)
