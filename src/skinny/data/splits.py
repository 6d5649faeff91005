"""The two doors for a training loop: batches to learn from, batches to be judged by."""

# ruff: noqa: PT028  (test_batches is no test)

from typing import Any

import torch

from skinny.data.augment import Augment
from skinny.data.batches import Batches, MemoryBatches
from skinny.data.errors import DataError
from skinny.data.folder_batches import FolderBatches
from skinny.data.item_batches import ItemBatches
from skinny.data.preprocessing import AsItComes, Normalization, Preprocessing
from skinny.data.sets import Dataset, FolderSet, ImageSet, Split
from skinny.data.share import WHOLE, Share
from skinny.data.whitening import fit_cached


def fit_preprocessing(dataset: Dataset, *, whiten: bool = False) -> Preprocessing:
    """What both splits of a data set go through, fitted on its training split alone."""
    if not whiten:
        return AsItComes() if dataset.prepared else Normalization.of(dataset.mean, dataset.std)
    if not isinstance(dataset.train, ImageSet):
        raise DataError(
            f"whitening needs the images in memory, and those of {dataset.name} are not"
        )
    return fit_cached(dataset.train.images)


def training_batches(
    dataset: Dataset,
    *,
    batch_size: int,
    seed: int,
    augment: Augment = "none",
    whiten: bool = False,
    drop_last: bool = False,
    device: str | torch.device = "cpu",
    channels_last: bool = False,
    workers: int | None = None,
    share: Share = WHOLE,
) -> Batches:
    """The training split, in another order every epoch.

    augment: `none`, `flip` (mirror half of the images) or `flip-crop` (also shift by up to four
        pixels; images from a folder: cut the square at random).
    whiten: global contrast normalisation and ZCA instead of mean and standard deviation.
    workers: processes that decode images of a folder; data in memory needs none.
    share: which images of every batch are this process's.
    """
    return _batches(
        dataset.train,
        preprocessing=fit_preprocessing(dataset, whiten=whiten),
        batch_size=batch_size,
        seed=seed,
        augment=augment,
        shuffle=True,
        drop_last=drop_last,
        device=device,
        channels_last=channels_last,
        workers=workers,
        share=share,
    )


def test_batches(
    dataset: Dataset,
    *,
    batch_size: int,
    whiten: bool = False,
    device: str | torch.device = "cpu",
    channels_last: bool = False,
    workers: int | None = None,
    share: Share = WHOLE,
) -> Batches:
    """The test split, every image once, in its own order, the same every epoch."""
    return _batches(
        dataset.test,
        preprocessing=fit_preprocessing(dataset, whiten=whiten),
        batch_size=batch_size,
        seed=0,
        augment="none",
        shuffle=False,
        drop_last=False,
        device=device,
        channels_last=channels_last,
        workers=workers,
        share=share,
    )


def _batches(split: Split, *, workers: int | None, **options: Any) -> Batches:
    if isinstance(split, ImageSet):
        return MemoryBatches(split, **options)
    if isinstance(split, FolderSet):
        return FolderBatches(split, workers=workers, **options)
    return ItemBatches(split, workers=workers, **options)
