"""Normalisation of pixels as one multiplication and one addition."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]


def scale_and_shift(
    mean: Sequence[float], std: Sequence[float], scale: float = 1 / 255
) -> tuple[Floats, Floats]:
    """(a, b), [channels] each, such that (x * scale - mean) / std = a x + b per channel."""
    deviations = np.asarray(std, np.float64)
    a = scale / deviations
    b = -np.asarray(mean, np.float64) / deviations
    return a.astype(np.float32), b.astype(np.float32)
