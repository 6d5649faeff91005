"""Batches of images that are decoded by worker processes as they are needed.

Every random choice about an image comes from (seed, epoch, index of the image), so an epoch is the
same whatever the number of workers and wherever it begins.
"""

import multiprocessing
import os
import warnings
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from skinny.data.augment import Augment, check_augment
from skinny.data.batches import BatchSampler
from skinny.data.errors import CorruptImageWarning, DataError
from skinny.data.preprocessing import Preprocessing
from skinny.data.sets import FolderSet
from skinny.data.share import WHOLE, Share
from skinny.images import ImageError, read_image

_MAX_SUBSTITUTES = 16
_MAX_WORKERS = 8


class _Failure(NamedTuple):
    path: Path
    reason: str
    substitute: Path | None  # None: none was found


_Sample = tuple[Tensor, int, _Failure | None]


class FolderBatches:
    """Batches of a `FolderSet`: uint8 from the workers, normalised on the device.

    augment: `none` cuts at the centre; `flip` also mirrors; `flip-crop` cuts at random and mirrors.
    workers: processes that decode; 0 decodes in this one, None takes one a core, at most eight,
        and fewer where several processes that train share the cores.

    An image that cannot be decoded is replaced by the next one of its class in the order of the
    files (the first follows the last), with a `CorruptImageWarning` that names both, once a file.
    If sixteen in a row cannot be decoded, or the class has no other, the folder is at fault and a
    `DataError` says so.
    """

    def __init__(
        self,
        split: FolderSet,
        *,
        batch_size: int,
        preprocessing: Preprocessing,
        seed: int = 0,
        augment: Augment = "none",
        shuffle: bool = False,
        drop_last: bool = False,
        device: str | torch.device = "cpu",
        channels_last: bool = False,
        workers: int | None = None,
        share: Share = WHOLE,
    ) -> None:
        check_augment(augment)
        self._sampler = BatchSampler(
            len(split),
            batch_size=batch_size,
            seed=seed,
            shuffle=shuffle,
            drop_last=drop_last,
            share=share,
        )
        self._images = _Images(split, seed, augment)
        self._device = torch.device(device)
        self._preprocessing = preprocessing.to(self._device)
        self._format = torch.channels_last if channels_last else torch.contiguous_format
        self._workers = default_workers(share) if workers is None else workers
        self._named: set[Path] = set()
        self.images = self._sampler.images

    def __len__(self) -> int:
        return len(self._sampler)

    def size(self, index: int) -> int:
        return self._sampler.size(index)

    def epoch(self, epoch: int, start: int = 0) -> Iterator[tuple[Tensor, Tensor]]:
        loader = key_loader(
            self._images, self._sampler, epoch, start, _collate, self._workers, self._device
        )
        for pixels, labels, failures in loader:
            self._report(failures)
            images = self._preprocessing(pixels.to(self._device, non_blocking=True))
            yield (
                images.contiguous(memory_format=self._format),
                labels.to(self._device, non_blocking=True),
            )

    def _report(self, failures: list[_Failure]) -> None:
        for path, reason, substitute in failures:
            if substitute is None:
                raise DataError(
                    f"{path}: cannot be decoded ({reason}), nor can the images of its class that"
                    " could take its place; the folder is damaged"
                )
            if path not in self._named:
                self._named.add(path)
                warnings.warn(
                    f"{path}: cannot be decoded ({reason}); {substitute} takes its place",
                    CorruptImageWarning,
                    stacklevel=3,
                )


class _Images(Dataset[_Sample]):
    """Pixels, label and failures of one image, by (epoch, index). Copied into every worker."""

    def __init__(self, split: FolderSet, seed: int, augment: Augment) -> None:
        self._split, self._seed, self._augment = split, seed, augment
        self._labels = split.labels.numpy()

    def __len__(self) -> int:
        return len(self._split)

    def __getitem__(self, key: tuple[int, int]) -> _Sample:
        epoch, index = key
        split, label = self._split, int(self._labels[index])
        first_reason = ""
        for candidate in self._same_class(index):
            random = np.random.default_rng((self._seed, epoch, index))
            mirror = self._augment != "none" and bool(random.integers(2))
            try:
                pixels = read_image(
                    split.path(candidate),
                    resize=split.resize,
                    crop=split.crop,
                    random=random if self._augment == "flip-crop" else None,
                )
            except ImageError as error:
                first_reason = first_reason or error.reason
                continue
            if mirror:
                pixels = pixels[:, ::-1]
            chw = np.ascontiguousarray(pixels.transpose(2, 0, 1))
            failure = None
            if candidate != index:
                failure = _Failure(split.path(index), first_reason, split.path(candidate))
            return torch.from_numpy(chw), label, failure
        # Raised here it would reach the user with a worker's traceback inside: hand it over.
        blank = torch.zeros(3, split.crop, split.crop, dtype=torch.uint8)
        return blank, label, _Failure(split.path(index), first_reason, None)

    def _same_class(self, index: int) -> Iterator[int]:
        """The image and those that may take its place; the labels are in ascending order."""
        label = self._labels[index]
        first, end = np.searchsorted(self._labels, [label, label + 1]).tolist()
        for offset in range(min(end - first, _MAX_SUBSTITUTES)):
            yield first + (index - first + offset) % (end - first)


def key_loader(
    samples: Dataset[Any],
    sampler: BatchSampler,
    epoch: int,
    start: int,
    collate: Callable[[list[Any]], Any],
    workers: int,
    device: torch.device,
) -> Iterable[Any]:
    """Batches of the samples that (epoch, index) names, made by worker processes."""
    return DataLoader(
        samples,
        batch_sampler=(
            [(epoch, index) for index in indices.tolist()]
            for _, indices in sampler.batches(epoch, start)
        ),
        num_workers=workers,
        collate_fn=collate,
        pin_memory=device.type == "cuda",
        # A loader draws a seed for its workers. From torch's own generator that would move a
        # resumed run's dropout away from that of a run that went through.
        generator=torch.Generator(),
    )


def _collate(samples: list[_Sample]) -> tuple[Tensor, Tensor, list[_Failure]]:
    pixels, labels, failures = zip(*samples, strict=True)
    return torch.stack(pixels), torch.tensor(labels), [f for f in failures if f is not None]


def default_workers(share: Share) -> int:
    if multiprocessing.current_process().daemon:  # which may start none
        return 0
    usable = (
        len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    )
    return min(max(1, usable // share.neighbours), _MAX_WORKERS)
