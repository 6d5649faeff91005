"""The 1,797 handwritten digits that ship with scikit-learn: 8 x 8 pixels, no download."""

import importlib.util
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from skinny.data.sets import ImageSet
from skinny.data.subset import stratified_split

TEST_IMAGES = 360
_SPLIT_SEED = 0
_LEVELS = 16  # the pixels count 0 to 16


def load_digits() -> tuple[ImageSet, ImageSet]:
    """Training (1,437) and test (360) images, uint8 [n, 1, 8, 8] with 16 levels spread over 0-255.

    The split is stratified and always the same, whatever the seed of a run: otherwise accuracies of
    two runs would be measured on different images.
    """
    table = _table()
    pixels = np.rint(table[:, :-1] * (255 / _LEVELS)).astype(np.uint8)
    images = torch.from_numpy(pixels.reshape(-1, 1, 8, 8))
    labels = torch.from_numpy(table[:, -1].astype(np.int64))
    everything = ImageSet(images, labels)
    train, test = stratified_split(labels, TEST_IMAGES, 10, _SPLIT_SEED)
    return everything.take(train), everything.take(test)


def _table() -> NDArray[np.float64]:
    """[1797, 65]: 64 pixels and the label. Read from scikit-learn's file where it lies as usual:
    importing scikit-learn takes longer than a short training."""
    found = importlib.util.find_spec("sklearn")
    if found is not None and found.origin is not None:
        file = Path(found.origin).parent / "datasets" / "data" / "digits.csv.gz"
        if file.exists():
            return np.loadtxt(file, delimiter=",")
    from sklearn.datasets import load_digits as load

    bunch = load()
    return np.column_stack([bunch.data, bunch.target])
