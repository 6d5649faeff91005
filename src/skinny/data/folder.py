"""ImageNet, Imagenette, or any folder of class folders of JPEG or PNG images.

    PATH/train/<class>/*.jpg     PATH/test/<class>/*.jpg     (or `val`, or `validation`)

The class folders of `train`, sorted by name, are the classes. `resize` and `crop` default to
AlexNet's 256 and 227 where the images are large enough; smaller images keep their size: both become
the median shorter side of a sample of the training images.
"""

import os
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from skinny.data.errors import DataError
from skinny.data.reading import naming
from skinny.data.sets import Dataset, FolderSet
from skinny.data.statistics import channel_statistics
from skinny.images import ImageError, read_image, shorter_side

IMAGENET_MEAN = (0.485, 0.456, 0.406)
IMAGENET_STD = (0.229, 0.224, 0.225)

ALEXNET_RESIZE, ALEXNET_CROP = 256, 227

_SUFFIXES = (".jpg", ".jpeg", ".png")

_TEST_NAMES = ("test", "val", "validation")
_IMAGENET_TEST_NAMES = ("val", "validation", "test")
_SAMPLE = 256


def load_folder(
    root: Path, *, name: str, resize: int | None = None, crop: int | None = None
) -> Dataset:
    """The data set in a folder with `train` and `test` (`val`, `validation`) class folders.

    Mean and standard deviation come from the centre crops of at most 256 training images, spread
    evenly over the classes.
    """
    train_files, train_labels, test_files, test_labels, classes = _list(root, _TEST_NAMES)
    resize, crop = sizes(resize, crop, lambda: _median_side(root, train_files))
    train = FolderSet(root, train_files, train_labels, resize, crop)
    test = FolderSet(root, test_files, test_labels, resize, crop)
    mean, std = channel_statistics(_sample_images(train))
    return Dataset(name, train, test, classes, mean, std)


PHOTOGRAPHS: dict[str, tuple[str, ...]] = {
    "imagenet": ("imagenet", "ImageNet", "ILSVRC2012", "ILSVRC/Data/CLS-LOC", ""),
    "imagenette": ("imagenette", "imagenette2", "imagenette2-320", "imagenette2-160"),
}
"""Data sets of `train` and `val` with a folder of each synset, and the usual names of theirs."""


def load_photographs(
    name: str, root: Path, *, resize: int | None = None, crop: int | None = None
) -> Dataset:
    """One of `PHOTOGRAPHS`; a synset's name is the class's name."""
    train_files, train_labels, test_files, test_labels, classes = _list(root, _IMAGENET_TEST_NAMES)
    resize, crop = sizes(resize, crop, lambda: ALEXNET_RESIZE)
    train = FolderSet(root, train_files, train_labels, resize, crop)
    test = FolderSet(root, test_files, test_labels, resize, crop)
    return Dataset(name, train, test, classes, IMAGENET_MEAN, IMAGENET_STD)


def find_photographs(name: str, folders: list[Path]) -> Path | None:
    """The first place that has `train` and `val` in one of the usual sub-folders."""
    for folder in folders:
        with naming(folder):
            for root in (folder / usual for usual in PHOTOGRAPHS[name]):
                if (root / "train").is_dir() and _test_folder(root, _IMAGENET_TEST_NAMES):
                    return root
    return None


def _list(
    root: Path, test_names: tuple[str, ...]
) -> tuple[NDArray[np.bytes_], Tensor, NDArray[np.bytes_], Tensor, tuple[str, ...]]:
    with naming(root):
        exists, has_train = root.is_dir(), (root / "train").is_dir()
        test_folder = _test_folder(root, test_names)
    if not exists:
        raise DataError(f"{root}: no such folder")
    if not has_train or test_folder is None:
        raise DataError(
            f"{root}: needs a folder 'train' and one called {' or '.join(map(repr, test_names))}"
        )
    train = _class_folders(root / "train")
    test = _class_folders(test_folder)
    unknown = sorted(set(test) - set(train))
    if unknown:
        raise DataError(f"{test_folder}: class folder {unknown[0]!r} is not in {root / 'train'}")
    absent = sorted(set(train) - set(test))
    if absent:
        warnings.warn(
            f"{test_folder}: no images of {len(absent)} of {len(train)} classes ({absent[0]!r}, the"
            " first of them), so accuracy says nothing about these",
            stacklevel=4,
        )
    classes = tuple(sorted(train))
    return (
        *_files_and_labels(root, root / "train", train, classes),
        *_files_and_labels(root, test_folder, test, classes),
        classes,
    )


def _test_folder(root: Path, names: tuple[str, ...]) -> Path | None:
    return next((root / name for name in names if (root / name).is_dir()), None)


def _class_folders(folder: Path) -> dict[str, list[str]]:
    """Image file names, sorted, by class folder."""
    with naming(folder), os.scandir(folder) as entries:
        children = [entry for entry in entries if not entry.name.startswith(".")]
    names = sorted(child.name for child in children if child.is_dir())
    if not names:
        loose = any(child.name.lower().endswith(_SUFFIXES) for child in children)
        raise DataError(
            f"{folder}: "
            + ("has images but no class folders" if loose else "is empty")
            + "; it needs a folder of images for each class"
        )
    folders = {name: _image_files(folder / name) for name in names}
    empty = next((name for name, files in folders.items() if not files), None)
    if empty is not None:
        raise DataError(
            f"{folder / empty}: has no {', '.join(_SUFFIXES)} files; remove it or fill it"
        )
    return folders


def _image_files(folder: Path) -> list[str]:
    with naming(folder):
        names = os.listdir(folder)
    return sorted(
        name for name in names if name.lower().endswith(_SUFFIXES) and not name.startswith(".")
    )


def _files_and_labels(
    root: Path, folder: Path, files: dict[str, list[str]], classes: tuple[str, ...]
) -> tuple[NDArray[np.bytes_], Tensor]:
    prefix = folder.relative_to(root)
    paths = [os.fsencode(prefix / c / name) for c in classes for name in files.get(c, ())]
    counts = torch.tensor([len(files.get(c, ())) for c in classes])
    return np.array(paths, dtype=np.bytes_), torch.arange(len(classes)).repeat_interleave(counts)


def sizes(resize: int | None, crop: int | None, natural: Callable[[], int]) -> tuple[int, int]:
    if resize is None:
        resize = max(min(natural(), ALEXNET_RESIZE), crop or 0)
    if crop is None:
        crop = ALEXNET_CROP if resize == ALEXNET_RESIZE else resize
    if not 1 <= crop <= resize:
        raise DataError(f"crop is {crop} and resize {resize}; 1 <= crop <= resize is needed")
    return resize, crop


def sample(count: int) -> list[int]:
    """At most _SAMPLE numbers below `count`, evenly spread."""
    return sorted({int(i) for i in np.linspace(0, count - 1, min(count, _SAMPLE))})


def _median_side(root: Path, files: NDArray[np.bytes_]) -> int:
    sides = []
    for index in sample(len(files)):
        try:
            sides.append(shorter_side(root / os.fsdecode(bytes(files[index]))))
        except ImageError:  # a corrupt file is reported when its turn comes
            continue
    if not sides:
        raise DataError(f"{root / 'train'}: none of its images can be read")
    return sorted(sides)[len(sides) // 2]


def _sample_images(split: FolderSet) -> Tensor:
    images = []
    for index in sample(len(split)):
        try:
            pixels = read_image(split.path(index), resize=split.resize, crop=split.crop)
        except ImageError:  # a corrupt file is reported when its turn comes
            continue
        images.append(torch.from_numpy(pixels).permute(2, 0, 1))
    if not images:
        raise DataError(f"{split.root / 'train'}: none of its images can be read")
    return torch.stack(images)
