"""What a data set is: images and labels of a training and a test split, and how they are named."""

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor


@dataclass(frozen=True)
class ImageSet:
    """Images that fit in memory.

    images: uint8 [n, channels, height, width]; labels: int64 [n].
    """

    images: Tensor
    labels: Tensor

    def __post_init__(self) -> None:
        if self.images.dtype != torch.uint8 or self.images.ndim != 4:
            raise ValueError(f"images must be uint8 [n, c, h, w], not {_describe(self.images)}")
        if self.labels.dtype != torch.int64 or self.labels.shape != self.images.shape[:1]:
            raise ValueError(f"labels must be int64 [n], not {_describe(self.labels)}")

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def image_size(self) -> tuple[int, int]:
        return self.images.shape[2], self.images.shape[3]

    def take(self, indices: Tensor) -> "ImageSet":
        return ImageSet(self.images[indices], self.labels[indices])


@dataclass(frozen=True)
class FolderSet:
    """Images that stay on disk until a batch needs them.

    files: paths relative to `root`, as encoded bytes in one NumPy array, sorted by class. A list of
    a million `str` would be copied into every worker process, because reading one writes its
    reference count.
    resize: the shorter side is scaled to this many pixels; crop: then a square of this many is cut.
    """

    root: Path
    files: NDArray[np.bytes_]
    labels: Tensor
    resize: int
    crop: int

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def image_size(self) -> tuple[int, int]:
        return self.crop, self.crop

    def path(self, index: int) -> Path:
        return self.root / os.fsdecode(bytes(self.files[index]))

    def take(self, indices: Tensor) -> "FolderSet":
        return replace(self, files=self.files[indices.numpy()], labels=self.labels[indices])


@dataclass(frozen=True)
class ItemSet:
    """Images that somebody else's data set hands out one by one.

    read: an image, uint8 or float32 of the given shape, and its label, by the number of an item.
    numbers: those of the items that are in this set.
    resize, crop: what `read` does to images whose files differ in size; None: nothing.
    """

    read: Callable[[int], tuple[Tensor, int]]
    numbers: Tensor
    labels: Tensor
    shape: tuple[int, int, int]
    dtype: torch.dtype
    resize: int | None = None
    crop: int | None = None

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def image_size(self) -> tuple[int, int]:
        return self.shape[1:]

    def take(self, indices: Tensor) -> "ItemSet":
        return replace(self, numbers=self.numbers[indices], labels=self.labels[indices])


Split = ImageSet | FolderSet | ItemSet


@dataclass(frozen=True)
class Dataset:
    """A training and a test split with the same classes.

    mean, std: per channel, of the training images, with pixels scaled to [0, 1].
    prepared: the images are floats that are trained on as they come; mean is then 0 and std 1.
    """

    name: str
    train: Split
    test: Split
    classes: tuple[str, ...]
    mean: tuple[float, ...]
    std: tuple[float, ...]
    prepared: bool = False

    @property
    def channels(self) -> int:
        return len(self.mean)

    @property
    def image_size(self) -> tuple[int, int]:
        """Height and width of what the batches hold."""
        return self.train.image_size


def _describe(tensor: Tensor) -> str:
    return f"{tensor.dtype} {list(tensor.shape)}"
