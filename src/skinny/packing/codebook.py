"""A few numbers that stand for many: k-means in one dimension.

With the values sorted, a cluster is a range of them, and its mean comes from prefix sums. So a
round of Lloyd's algorithm costs a search for each border, whatever the number of values.
"""

import numpy as np
from numpy.typing import NDArray

_ROUNDS = 100


def make(values: NDArray[np.float64], size: int) -> NDArray[np.float32]:
    """At most `size` numbers, in order, of small squared distance to the values.

    They set out evenly between the least and the largest value, so that large weights, which matter
    most and are few, have numbers of their own; numbers nearest to no value are left out.
    """
    if values.size == 0:
        return np.zeros(1, np.float32)
    ordered = np.sort(values)
    distinct = ordered[np.concatenate([[True], ordered[1:] != ordered[:-1]])]
    if distinct.size <= size:  # as after training with a codebook: nothing is lost
        with np.errstate(over="ignore"):
            return np.unique(distinct.astype(np.float32))
    sums = np.concatenate([[0.0], np.cumsum(ordered)])
    centres = np.linspace(ordered[0], ordered[-1], size)
    for _ in range(_ROUNDS):
        ends = np.searchsorted(ordered, _borders(centres), side="right")
        first, last = np.concatenate([[0], ends]), np.concatenate([ends, [ordered.size]])
        counts = last - first
        kept = counts > 0
        means = (sums[last] - sums[first])[kept] / counts[kept]
        if means.size == centres.size and np.array_equal(means, centres):
            break
        centres = means
    with np.errstate(over="ignore"):
        return np.unique(centres.astype(np.float32))


def nearest(values: NDArray[np.float64], codebook: NDArray[np.float32]) -> NDArray[np.uint8]:
    """The index of the nearest number of the codebook, the lower one of two."""
    borders = _borders(codebook.astype(np.float64))
    return np.searchsorted(borders, values, side="left").astype(np.uint8)


def _borders(centres: NDArray[np.float64]) -> NDArray[np.float64]:
    middle: NDArray[np.float64] = centres[:-1] / 2 + centres[1:] / 2
    return middle
