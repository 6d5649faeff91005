"""A data set by its name."""

import os
from dataclasses import replace
from pathlib import Path

import torch

from skinny.data import cifar, idx
from skinny.data.catalog import OFFICIAL, Entry, IdxEntry
from skinny.data.digits import load_digits
from skinny.data.errors import DataError
from skinny.data.factory import load_factory
from skinny.data.fetch import fetch
from skinny.data.folder import PHOTOGRAPHS, find_photographs, load_folder, load_photographs
from skinny.data.hugging_face import load_from_disk
from skinny.data.locate import Found, find, require, search_path
from skinny.data.npz import load_npz
from skinny.data.sets import Dataset, ImageSet
from skinny.data.statistics import channel_statistics
from skinny.data.subset import balanced_subset

NAMES = (
    *("digits", *OFFICIAL, *PHOTOGRAPHS, "folder:PATH", "npz:PATH", "datasets:PATH"),
    "package.module:function",
)
_KINDS = ("folder", "npz", "datasets")  # of data at a path

_IDX_SIZE = 28


def load(
    name: str,
    *,
    data_dir: str | os.PathLike[str] | None = None,
    download: bool = True,
    train_size: int | None = None,
    seed: int = 0,
    resize: int | None = None,
    crop: int | None = None,
) -> Dataset:
    """A data set: `digits`, `mnist`, `fashion-mnist`, `cifar10`, `cifar100`, `imagenet`,
    `imagenette`, `folder:PATH` (class folders of JPEG or PNG images), `npz:PATH`, `datasets:PATH`
    (what Hugging Face's `save_to_disk` wrote, see `skinny.data.hugging_face`) or your own as
    `package.module:function` (see `skinny.data.factory`).

    data_dir: the folder searched first; the order is in `skinny.data.locate`.
    download: fetch official files that are found nowhere, into the first folder of that order.
    train_size: the size of a class-balanced training subset, chosen by `seed`; see
        `balanced_subset` for what happens when classes do not divide it. Mean and standard
        deviation are then those of the subset (of images on disk: still of a sample of all).
    resize, crop: for `imagenet`, `imagenette`, `folder:` and `datasets:`, see `skinny.data.folder`.
    """
    folders = search_path(data_dir)
    if name in PHOTOGRAPHS:
        dataset = load_photographs(name, _root(name, folders), resize=resize, crop=crop)
    elif name.startswith("folder:"):
        dataset = load_folder(_path(name), name=name, resize=resize, crop=crop)
    elif name.startswith("datasets:"):
        dataset = load_from_disk(_path(name), name=name, resize=resize, crop=crop)
    elif resize is not None or crop is not None:
        raise DataError(
            f"resize and crop are for {', '.join(PHOTOGRAPHS)}, folder:PATH and datasets:PATH, "
            f"not for {name}"
        )
    elif is_users(name):
        dataset = load_factory(name)
    else:
        train, test, classes = _load_in_memory(name, folders, download)
        dataset = Dataset(name, train, test, classes, *channel_statistics(train.images))
    if train_size is None:
        return dataset
    chosen = balanced_subset(dataset.train.labels, train_size, len(dataset.classes), seed)
    subset = dataset.train.take(chosen)
    if not isinstance(subset, ImageSet):
        return replace(dataset, train=subset)
    mean, std = channel_statistics(subset.images)
    return replace(dataset, train=subset, mean=mean, std=std)


def is_users(name: str) -> bool:
    """Whether a data set is made by a function of the user's, which loading it imports."""
    kind, colon, _ = name.partition(":")
    return bool(colon) and kind not in _KINDS


def _load_in_memory(
    name: str, folders: list[Path], download: bool
) -> tuple[ImageSet, ImageSet, tuple[str, ...]]:
    if name == "digits":
        return *load_digits(), tuple("0123456789")
    if name.startswith("npz:"):
        return load_npz(_path(name))
    if name not in OFFICIAL:
        raise DataError(f"there is no data set {name!r}; known are {', '.join(NAMES)}")
    entry = OFFICIAL[name]
    found = find(entry, folders)
    if download and (found is None or not found.complete):
        _download(entry, folders[0], found)
    train, test = read_official(require(entry, folders))
    return train, test, entry.classes


def _download(entry: Entry, root: Path, partly: Found | None) -> None:
    try:
        fetch(entry, root)
    except DataError as error:
        if partly is None:
            raise
        missing = ", ".join(partly.missing)
        raise DataError(
            f"{entry.name} in {partly.folder} is incomplete ({missing} missing), and {error}"
        ) from error


def _path(name: str) -> Path:
    kind, _, path = name.partition(":")
    if not path:
        raise DataError(f"{name!r} names no path; write {kind}:PATH")
    return Path(path).expanduser()


def read_official(found: Found) -> tuple[ImageSet, ImageSet]:
    """Training and test split of a complete set of official files."""
    entry, files = found.entry, found.files
    classes = len(entry.classes)
    if isinstance(entry, IdxEntry):
        names = entry.files
        splits = [
            idx.read_pair(files[images], files[labels], classes=classes, size=_IDX_SIZE)
            for images, labels in ((names[0], names[1]), (names[2], names[3]))
        ]
    else:
        splits = _read_cifar(found, classes)
    train, test = (
        # copied: what the readers give may be a read-only view of a file's bytes
        ImageSet(torch.tensor(images), torch.from_numpy(labels))
        for images, labels in splits
    )
    return train, test


def _read_cifar(found: Found, classes: int) -> list[cifar.Split]:
    form = found.cifar
    assert form is not None  # every place where CIFAR is found is one of its forms
    if form.archive in found.files:
        members = tuple(
            tuple(f"{form.folder}/{file}" for file in split) for split in (form.train, form.test)
        )
        return cifar.read_archive(found.files[form.archive], members, form.version, classes)
    return [
        cifar.read_files(tuple(found.files[file] for file in split), form.version, classes)
        for split in (form.train, form.test)
    ]


def _root(name: str, folders: list[Path]) -> Path:
    root = find_photographs(name, folders)
    if root is None:
        raise DataError(
            f"{name} was not found in {', '.join(map(str, folders))}; it is not downloaded:"
            f" put its class folders in {name}/train and {name}/val of one of these"
        )
    return root
