"""Folders that `save_to_disk` of Hugging Face `datasets` made (extra `datasets`).

A `DatasetDict` has a split `train` and one to test by; of a single `Dataset`, a fixed stratified
fifth is the test split. One column holds images, encoded as in files, one the labels.
"""

import io
from dataclasses import dataclass
from pathlib import Path
from statistics import median_low
from typing import Any

import numpy as np
import torch
from torch import Tensor

from skinny.data.errors import DataError
from skinny.data.folder import sample, sizes
from skinny.data.items import GREY, make_dataset
from skinny.data.sets import Dataset
from skinny.images import FORMATS, read_image
from skinny.images.geometry import pillow

_TEST_NAMES = ("test", "validation", "val", "valid", "dev")
_LABEL_NAMES = ("label", "labels", "target", "fine_label")


def load_from_disk(
    path: Path, *, name: str, resize: int | None = None, crop: int | None = None
) -> Dataset:
    """resize, crop: as for a folder of images; images of one size stay as they are without them."""
    try:
        import datasets
    except ModuleNotFoundError:
        raise DataError(
            f"{name} needs the package datasets: pip install 'skinny-nn[datasets]'"
        ) from None
    if not path.is_dir():
        raise DataError(f"{path}: no such folder")
    try:
        found: Any = datasets.load_from_disk(str(path))
    except Exception as error:  # of any type: Arrow, JSON and files may all be damaged
        reason = " ".join(str(error).split())
        raise DataError(f"{path}: not a folder that save_to_disk made ({reason:.200})") from error
    splits = found if isinstance(found, datasets.DatasetDict) else {"train": found}
    if "train" not in splits:
        raise DataError(f"{path}: has no split 'train'; its splits are {', '.join(splits)}")
    test = next((splits[name] for name in _TEST_NAMES if name in splits), None)
    if len(splits) > 1 and test is None:
        raise DataError(
            f"{path}: of {', '.join(splits)}, none is called {' or '.join(_TEST_NAMES)}"
        )
    image, label = _columns(path, splits["train"].features, datasets)
    rows = splits["train"].data.column(image)
    facts = [_header(rows[index].as_py(), f"{path}, image {index}") for index in sample(len(rows))]
    channels = 1 if all(mode in GREY for mode, _ in facts) else 3
    shapes = {shape for _, shape in facts}
    if len(shapes) > 1 or resize is not None or crop is not None:
        resize, crop = sizes(resize, crop, lambda: median_low(min(shape) for _, shape in facts))
    made = [
        None
        if split is None
        else _Rows(
            str(path),
            split.data.column(image),
            split.data.column(label),
            getattr(splits["train"].features[label], "names", None),
            channels,
            resize,
            crop,
        )
        for split in (splits["train"], test)
    ]
    return make_dataset(name, made[0], made[1], resize=resize, crop=crop)


@dataclass(frozen=True)
class _Rows:
    """Images and labels of an Arrow table, by row."""

    path: str
    images: Any
    targets_column: Any
    classes: tuple[str, ...] | None
    channels: int
    resize: int | None
    crop: int | None

    @property
    def targets(self) -> list[int]:
        found: list[int] = self.targets_column.to_pylist()
        return found

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, row: int) -> tuple[Tensor, int]:
        file = _file(self.images[row].as_py(), f"{self.path}, image {row}")
        pixels = read_image(file, channels=self.channels, resize=self.resize, crop=self.crop)
        return (
            torch.from_numpy(np.ascontiguousarray(pixels.transpose(2, 0, 1))),
            self.targets_column[row].as_py(),
        )


def _columns(path: Path, features: Any, datasets: Any) -> tuple[str, str]:
    """The names of the columns that hold images and labels."""
    images = [key for key, feature in features.items() if isinstance(feature, datasets.Image)]
    named = [key for key, feature in features.items() if isinstance(feature, datasets.ClassLabel)]
    numbers = [key for key in _LABEL_NAMES if "int" in str(getattr(features.get(key), "dtype", ""))]
    labels = named if len(named) == 1 else [key for key in _LABEL_NAMES if key in named] or numbers
    if len(images) != 1 or not labels:
        columns = ", ".join(
            f"{key} ({type(feature).__name__})" for key, feature in features.items()
        )
        raise DataError(
            f"{path}: needs one column of type Image and one of type ClassLabel, or of whole "
            f"numbers called {' or '.join(_LABEL_NAMES)}; its columns are {columns}"
        )
    return images[0], labels[0]


def _file(cell: dict[str, Any] | None, where: str) -> Any:
    """What Pillow opens: the bytes that are stored, or the path of a file beside them."""
    if cell is None or (cell["bytes"] is None and not cell["path"]):
        raise DataError(f"{where}: there is none in its row")
    if cell["bytes"] is None:
        return cell["path"]
    file = io.BytesIO(cell["bytes"])
    file.name = where
    return file


def _header(cell: dict[str, Any] | None, where: str) -> tuple[str, tuple[int, int]]:
    """Pillow's mode, and width and height."""
    try:
        with pillow().open(_file(cell, where), formats=FORMATS) as image:
            return image.mode, image.size
    except Exception as error:
        raise DataError(f"{where}: cannot be read as an image ({error})") from error
