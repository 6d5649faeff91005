"""Batches of an epoch as a pure function of (seed, epoch): there is no state to save.

A run that was killed in the middle of an epoch asks for its batches from an index on, and gets the
same, to the bit, as if it had gone on.
"""

from collections.abc import Iterator
from typing import Protocol

import numpy as np
import torch
from torch import Generator, Tensor

from skinny.data.augment import Augment, augment_batch, check_augment
from skinny.data.errors import DataError
from skinny.data.preprocessing import Preprocessing
from skinny.data.sets import ImageSet
from skinny.data.share import WHOLE, Share

_ORDER, AUGMENT = 0, 1  # what a random stream is for


class Batches(Protocol):
    """What a training or evaluation loop needs of a data set.

    images: how many images one epoch shows, to all processes together.
    """

    images: int

    def __len__(self) -> int:
        """Steps per epoch."""
        ...

    def size(self, index: int) -> int:
        """How many images batch `index` of an epoch has, for all processes together."""
        ...

    def epoch(self, epoch: int, start: int = 0) -> Iterator[tuple[Tensor, Tensor]]:
        """The batches of this epoch from index `start` on: float32 [n, c, h, w] and int64 [n].

        Of each batch, this process's share; batches of which it has none are left out.
        """
        ...


class BatchSampler:
    """Which images, in which order, make the batches of each epoch."""

    def __init__(
        self,
        count: int,
        *,
        batch_size: int,
        seed: int,
        shuffle: bool,
        drop_last: bool,
        share: Share = WHOLE,
    ) -> None:
        if batch_size < 1:
            raise DataError(f"the batch size is {batch_size}; it must be at least 1")
        if drop_last and count < batch_size:
            raise DataError(f"{count} images do not fill one batch of {batch_size}")
        if seed < 0:
            raise DataError(f"the seed is {seed}; it must not be negative")
        self.count, self.batch_size, self.seed, self.shuffle = count, batch_size, seed, shuffle
        self.share = share
        self._length = count // batch_size if drop_last else -(-count // batch_size)
        self.images = min(count, self._length * batch_size)

    def __len__(self) -> int:
        """Batches per epoch."""
        return self._length

    def size(self, index: int) -> int:
        return min(self.batch_size, self.count - index * self.batch_size)

    def batches(self, epoch: int, start: int) -> Iterator[tuple[int, Tensor]]:
        """(index of the batch, indices int64 of this process's images of it) from `start` on."""
        if not 0 <= start <= self._length:
            raise DataError(f"an epoch has {self._length} batches, so it cannot begin at {start}")
        if self.shuffle:
            order = torch.randperm(self.count, generator=generator(self.seed, epoch, _ORDER))
        else:
            order = torch.arange(self.count)
        for index in range(start, self._length):
            whole = order[index * self.batch_size : (index + 1) * self.batch_size]
            if len(mine := whole[self.share.of(len(whole))]):
                yield index, mine


class MemoryBatches:
    """Batches of images that lie on the training device as one uint8 tensor."""

    def __init__(
        self,
        split: ImageSet,
        *,
        batch_size: int,
        preprocessing: Preprocessing,
        seed: int = 0,
        augment: Augment = "none",
        shuffle: bool = False,
        drop_last: bool = False,
        device: str | torch.device = "cpu",
        channels_last: bool = False,
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
        self._device = torch.device(device)
        self._images = split.images.to(self._device)
        self._labels = split.labels.to(self._device)
        self._preprocessing = preprocessing.to(self._device)
        self._augment: Augment = augment
        self._format = torch.channels_last if channels_last else torch.contiguous_format
        self.images = self._sampler.images

    def __len__(self) -> int:
        return len(self._sampler)

    def size(self, index: int) -> int:
        return self._sampler.size(index)

    def epoch(self, epoch: int, start: int = 0) -> Iterator[tuple[Tensor, Tensor]]:
        for index, indices in self._sampler.batches(epoch, start):
            at = indices.to(self._device, non_blocking=True)
            images = self._preprocessing(self._images[at])
            if self._augment != "none":
                stream = generator(self._sampler.seed, epoch, AUGMENT, index)
                images = augment_batch(
                    images,
                    self._augment,
                    stream,
                    batch=self.size(index),
                    share=self._sampler.share,
                )
            yield images.contiguous(memory_format=self._format), self._labels[at]


def generator(*key: int) -> Generator:
    """A CPU generator seeded by numbers, such that neighbouring keys give unrelated streams."""
    return Generator().manual_seed(seed_of(*key))


def seed_of(*key: int) -> int:
    """A seed from numbers, unrelated to those of neighbouring keys."""
    return int(np.random.SeedSequence(key).generate_state(1, np.uint64)[0])
