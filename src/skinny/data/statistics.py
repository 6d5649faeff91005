"""Mean and standard deviation per channel of uint8 images."""

import math

import torch
from torch import Tensor

_CHUNK = 1024  # images at once: the squares take four bytes a pixel


def channel_statistics(images: Tensor) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Mean and standard deviation of each channel of uint8 [n, c, h, w], in units of [0, 1].

    The sums are integers, so the result is the same to the bit whatever the number of threads. A
    channel that never varies gets a standard deviation of one grey level, so that dividing by it is
    harmless.
    """
    total = torch.zeros(images.shape[1], dtype=torch.int64, device=images.device)
    squares = torch.zeros_like(total)
    for chunk in images.split(_CHUNK):
        total += chunk.sum(dim=(0, 2, 3), dtype=torch.int64)
        squares += chunk.to(torch.int32).square_().sum(dim=(0, 2, 3), dtype=torch.int64)
    count = images.numel() // images.shape[1]
    means = [value / count for value in total.tolist()]
    deviations = [
        max(1.0, math.sqrt(max(0.0, square / count - mean * mean)))
        for square, mean in zip(squares.tolist(), means, strict=True)
    ]
    return tuple(mean / 255 for mean in means), tuple(std / 255 for std in deviations)
