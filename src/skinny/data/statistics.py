"""Mean and standard deviation per channel of uint8 images."""

import math

import torch
from torch import Tensor


def channel_statistics(images: Tensor) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Mean and standard deviation of each channel of uint8 [n, c, h, w], in units of [0, 1].

    Computed from how often each of the 256 levels occurs, in integers, so the result is the same to
    the bit whatever the number of threads. A channel that never varies gets a standard deviation of
    one level, so that dividing by it is harmless.
    """
    means, deviations = [], []
    for channel in range(images.shape[1]):
        counts = torch.bincount(images[:, channel].flatten(), minlength=256).tolist()
        total = sum(counts)
        mean = sum(level * count for level, count in enumerate(counts)) / total
        variance = sum((level - mean) ** 2 * count for level, count in enumerate(counts)) / total
        means.append(mean / 255)
        deviations.append(max(1.0, math.sqrt(variance)) / 255)
    return tuple(means), tuple(deviations)
