"""Batches of an `ItemSet`, read by worker processes as they are needed.

Whatever an item draws at random (a transform of the user's, say) is seeded by (seed, epoch, index
of the image), so that an epoch is the same whatever the number of processes and wherever it begins.
"""

import contextlib
import random
from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Dataset

from skinny.data.augment import Augment, augment_batch, check_augment
from skinny.data.batches import AUGMENT, BatchSampler, generator, seed_of
from skinny.data.errors import DataError
from skinny.data.folder_batches import default_workers, key_loader
from skinny.data.preprocessing import Preprocessing
from skinny.data.sets import ItemSet
from skinny.data.share import WHOLE, Share

_Sample = tuple[Tensor, int] | str  # an image and its label, or what is wrong with it


class ItemBatches:
    """augment: flips and shifts of a batch, as for images in memory, after the items' own."""

    def __init__(
        self,
        split: ItemSet,
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
        self._items = _Items(split, seed)
        self._device = torch.device(device)
        self._preprocessing = preprocessing.to(self._device)
        self._augment: Augment = augment
        self._format = torch.channels_last if channels_last else torch.contiguous_format
        self._workers = default_workers(share) if workers is None else workers
        self.images = self._sampler.images

    def __len__(self) -> int:
        return len(self._sampler)

    def size(self, index: int) -> int:
        return self._sampler.size(index)

    def epoch(self, epoch: int, start: int = 0) -> Iterator[tuple[Tensor, Tensor]]:
        loader = key_loader(
            self._items, self._sampler, epoch, start, _collate, self._workers, self._device
        )
        for index, batch in enumerate(loader, start):
            if isinstance(batch, str):
                raise DataError(batch)
            images = self._preprocessing(batch[0].to(self._device, non_blocking=True))
            stream = generator(self._sampler.seed, epoch, AUGMENT, index)
            images = augment_batch(
                images, self._augment, stream, batch=self.size(index), share=self._sampler.share
            )
            yield (
                images.contiguous(memory_format=self._format),
                batch[1].to(self._device, non_blocking=True),
            )


class _Items(Dataset[_Sample]):
    """Image and label by (epoch, index). Copied into every worker."""

    def __init__(self, split: ItemSet, seed: int) -> None:
        self._split, self._seed = split, seed

    def __len__(self) -> int:
        return len(self._split)

    def __getitem__(self, key: tuple[int, int]) -> _Sample:
        epoch, index = key
        try:
            with seeded(self._seed, epoch, index):
                image, label = self._split.read(int(self._split.numbers[index]))
        except DataError as error:  # with a worker's traceback inside if it were raised here
            return str(error)
        return image, label


@contextlib.contextmanager
def seeded(*key: int) -> Iterator[None]:
    """The random generators of torch, NumPy and Python, seeded by numbers and put back after."""
    seed = seed_of(*key)
    python, numpy = random.getstate(), np.random.get_state()
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        random.seed(seed)
        np.random.seed(seed % 2**32)
        try:
            yield
        finally:
            random.setstate(python)
            np.random.set_state(numpy)


def _collate(samples: list[_Sample]) -> tuple[Tensor, Tensor] | str:
    found: list[tuple[Tensor, int]] = []
    for sample in samples:
        if isinstance(sample, str):
            return sample
        found.append(sample)
    images, labels = zip(*found, strict=True)
    return torch.stack(images), torch.tensor(labels)
