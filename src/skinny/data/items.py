"""From a `torch.utils.data.Dataset` of anybody's to splits that can be trained on.

An item is an image and its label. The image is a tensor [channels, height, width] or
[height, width]; or, with the channels last, a NumPy array or a Pillow image. uint8 is normalised;
floats are taken as they come. The label is a whole number from 0 on. All images have one shape.
Labels come from `targets` or `labels` of the data set if it has them; if not, every item is read
once. The names of classes are its `classes`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import IterableDataset, Subset, TensorDataset

from skinny.data.errors import DataError
from skinny.data.folder import sample
from skinny.data.item_batches import seeded
from skinny.data.sets import Dataset, ImageSet, ItemSet
from skinny.data.statistics import channel_statistics
from skinny.data.subset import stratified_split
from skinny.errors import SkinnyError

_TEST_SHARE = 5
_SPLIT_SEED = 0
GREY = ("1", "L", "I;16")  # Pillow's modes of one channel


@dataclass(frozen=True)
class Items:
    """Reads the items of `source`, and says what is wrong with them; `name` is for the errors."""

    source: Any
    name: str
    labels: Tensor | None = None
    shape: tuple[int, ...] | None = None
    dtype: torch.dtype | None = None

    def __call__(self, number: int) -> tuple[Tensor, int]:
        where = f"item {number} of {self.name}"
        try:
            item = self.source[number]
        except SkinnyError as error:
            raise DataError(f"{where}: {error}") from error
        except Exception as error:
            raise DataError(f"{where} failed: {type(error).__name__}: {error}") from error
        if not isinstance(item, Sequence) or len(item) != 2:
            raise DataError(f"{where} is a {type(item).__name__}; a pair (image, label) is needed")
        image, label = _image(item[0], where), _label(item[1], where)
        if self.shape is not None and (image.shape, image.dtype) != (self.shape, self.dtype):
            raise DataError(
                f"{where} is {image.dtype} {list(image.shape)} and the first one {self.dtype} "
                f"{list(self.shape)}; all must be alike: resize and crop them in the data set"
            )
        if self.labels is not None and label != self.labels[number]:
            raise DataError(
                f"{where} has the label {label}, and its `targets` say {int(self.labels[number])}"
            )
        return image, label


def make_dataset(
    name: str,
    train: Any,
    test: Any | None,
    *,
    resize: int | None = None,
    crop: int | None = None,
) -> Dataset:
    """Both splits; without a test split, a fixed stratified fifth of the training split is one."""
    train_set = _split(train, f"the training split of {name}", resize, crop)
    test_set = None if test is None else _split(test, f"the test split of {name}", resize, crop)
    classes = _class_names(name, train, train_set.labels)
    if test_set is None:
        size = len(train_set) // _TEST_SHARE
        if size < 1:
            raise DataError(f"{name}: {len(train_set)} images are too few to set a fifth apart")
        at = stratified_split(train_set.labels, size, len(classes), _SPLIT_SEED)
        train_set, test_set = train_set.take(at[0]), train_set.take(at[1])
    elif int(test_set.labels.max()) >= len(classes):
        raise DataError(
            f"{name}: a test image has the label {int(test_set.labels.max())}, and there are "
            f"{len(classes)} classes, counted from 0"
        )
    kinds = [(split.image_size, _channels(split), _dtype(split)) for split in (train_set, test_set)]
    if kinds[0] != kinds[1]:
        raise DataError(
            f"{name}: training images are {_described(*kinds[0])}, test images "
            f"{_described(*kinds[1])}"
        )
    channels = _channels(train_set)
    if _dtype(train_set) != torch.uint8:
        zeros, ones = (0.0,) * channels, (1.0,) * channels
        return Dataset(name, train_set, test_set, classes, zeros, ones, prepared=True)
    return Dataset(name, train_set, test_set, classes, *channel_statistics(_sample(train_set)))


def _split(source: Any, name: str, resize: int | None, crop: int | None) -> ImageSet | ItemSet:
    if isinstance(source, IterableDataset) or not (
        hasattr(source, "__len__") and hasattr(source, "__getitem__")
    ):
        raise DataError(
            f"{name} is a {type(source).__name__}; a torch.utils.data.Dataset with a length, whose "
            "items are read by index, is needed"
        )
    if len(source) == 0:
        raise DataError(f"{name} is empty")
    image, _ = Items(source, name)(0)
    labels = _labels(source)
    if labels is None:
        read = Items(source, name)
        labels = torch.tensor([read(number)[1] for number in range(len(source))])
    if len(labels) != len(source) or int(labels.min()) < 0:
        raise DataError(
            f"{name} has {len(source)} items and {len(labels)} labels, from {int(labels.min())} on;"
            " as many are needed, from 0 on"
        )
    if isinstance(source, TensorDataset) and image.dtype == torch.uint8 and image.ndim == 3:
        images = source.tensors[0]
        return ImageSet(images if images.ndim == 4 else images[:, None], labels)
    shape = (image.shape[0], image.shape[1], image.shape[2])
    read = Items(source, name, labels, shape, image.dtype)
    return ItemSet(read, torch.arange(len(labels)), labels, shape, image.dtype, resize, crop)


def _image(value: Any, where: str) -> Tensor:
    """uint8 or float32 [channels, height, width]."""
    if hasattr(value, "convert") and hasattr(value, "mode"):  # of Pillow
        value = np.array(value.convert("L" if value.mode in GREY else "RGB"))
    if isinstance(value, np.ndarray):
        value = torch.from_numpy(value if value.ndim < 3 else np.moveaxis(value, -1, 0).copy())
    if not isinstance(value, Tensor):
        raise DataError(
            f"{where} has a {type(value).__name__} for an image; a tensor, an array or a Pillow "
            "image is needed"
        )
    image: Tensor = value[None] if value.ndim == 2 else value
    known = image.dtype == torch.uint8 or image.is_floating_point()
    if image.ndim != 3 or 0 in image.shape or not known:
        raise DataError(
            f"{where} is an image of {image.dtype} {list(image.shape)}; uint8 or float "
            "[channels, height, width] is needed"
        )
    return image if image.dtype == torch.uint8 else image.to(torch.float32)


def _label(value: Any, where: str) -> int:
    if isinstance(value, Tensor | np.ndarray | np.generic) and value.ndim == 0:
        value = value.item()
    if not isinstance(value, int) or value < 0:
        raise DataError(f"{where} has the label {value!r:.60}; a whole number from 0 on is needed")
    return int(value)


def _labels(source: Any) -> Tensor | None:
    """Labels that need no item to be read."""
    if isinstance(source, Subset):
        known = _labels(source.dataset)
        return None if known is None else known[torch.as_tensor(source.indices)]
    found: Any = getattr(source, "targets", getattr(source, "labels", None))
    if isinstance(source, TensorDataset) and len(source.tensors) == 2:
        found = source.tensors[1]
    try:
        labels = torch.as_tensor(found)
    except (TypeError, ValueError, RuntimeError):
        return None
    plain = labels.ndim == 1 and not labels.is_floating_point() and labels.dtype != torch.bool
    return labels.to(torch.int64) if plain else None


def _class_names(name: str, source: Any, labels: Tensor) -> tuple[str, ...]:
    while isinstance(source, Subset):
        source = source.dataset
    highest, named = int(labels.max()), getattr(source, "classes", None)
    if named is not None:
        if highest >= len(named):
            raise DataError(f"{name}: there is a label {highest}, and {len(named)} classes")
        return tuple(map(str, named))
    present = set(labels.tolist())
    absent = next((label for label in range(highest) if label not in present), None)
    if absent is not None:
        raise DataError(
            f"{name}: labels go up to {highest} but no training image has label {absent}; number "
            "the classes without gaps, or name them in `classes`"
        )
    return tuple(map(str, range(highest + 1)))


def _sample(split: ImageSet | ItemSet) -> Tensor:
    """Images from which mean and standard deviation are taken: all that lie in memory, or some."""
    if isinstance(split, ImageSet):
        return split.images
    images = []
    for index in sample(len(split)):
        with seeded(0, index):
            images.append(split.read(int(split.numbers[index]))[0])
    return torch.stack(images)


def _channels(split: ImageSet | ItemSet) -> int:
    return split.images.shape[1] if isinstance(split, ImageSet) else split.shape[0]


def _dtype(split: ImageSet | ItemSet) -> torch.dtype:
    return torch.uint8 if isinstance(split, ImageSet) else split.dtype


def _described(size: tuple[int, int], channels: int, dtype: torch.dtype) -> str:
    return f"{dtype} {[channels, *size]}"
