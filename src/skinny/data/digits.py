"""The 1,797 handwritten digits that ship with scikit-learn: 8 x 8 pixels, no download."""

import numpy as np
import torch

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
    from sklearn.datasets import load_digits as load  # here because it takes a second to import

    bunch = load()
    images = torch.from_numpy(np.rint(bunch.images * (255 / _LEVELS)).astype(np.uint8))[:, None]
    labels = torch.from_numpy(bunch.target.astype(np.int64))
    everything = ImageSet(images, labels)
    train, test = stratified_split(labels, TEST_IMAGES, 10, _SPLIT_SEED)
    return everything.take(train), everything.take(test)
