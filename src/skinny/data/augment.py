"""Flips and crops of a whole batch at once, on the device it is on."""

from typing import Literal, get_args

import torch
from torch import Generator, Tensor
from torch.nn import functional as F

from skinny.data.errors import DataError
from skinny.data.share import WHOLE, Share

Augment = Literal["none", "flip", "flip-crop"]

PADDING = 4
"""Pixels a crop may be shifted by in each direction. Zeros come in: the mean, once normalised."""


def check_augment(augment: str) -> None:
    if augment not in get_args(Augment):
        raise DataError(f"augment is {augment!r}; one of {', '.join(get_args(Augment))} is meant")


def augment_batch(
    images: Tensor,
    augment: Augment,
    generator: Generator,
    padding: int = PADDING,
    *,
    batch: int | None = None,
    share: Share = WHOLE,
) -> Tensor:
    """Mirror each image [n, c, h, w] with probability 1/2, and shift it by up to `padding` pixels.

    The generator is a CPU one whatever the device, so that a seed means the same on all of them.
    Where `images` are the share of a batch of `batch` images, numbers are drawn for all of these:
    what happens to an image does not depend on the number of processes.
    """
    if augment == "none":
        return images
    count = len(images) if batch is None else batch
    mine = share.of(count)
    flipped = _flip(images, torch.randint(2, (count,), generator=generator)[mine] == 1)
    if augment == "flip":
        return flipped
    shifts = torch.randint(2 * padding + 1, (2, count), generator=generator)[:, mine]
    return _shift(flipped, shifts, padding)


def _flip(images: Tensor, mirrored: Tensor) -> Tensor:
    """Images [n, c, h, w], those that `mirrored` [n] names left to right."""
    width = images.shape[3]
    columns = torch.arange(width)
    columns = torch.where(mirrored[:, None], width - 1 - columns, columns).to(images.device)
    return images.gather(3, columns[:, None, None, :].expand_as(images))


def _shift(images: Tensor, shifts: Tensor, padding: int) -> Tensor:
    """Windows at `shifts` [2, n] (down, right) of the padded images, of their original size."""
    n, _, height, width = images.shape
    padded = F.pad(images, (padding, padding, padding, padding))
    # a view [n, c, down, right, h, w] of all windows; indexing copies one of each image
    windows = padded.unfold(2, height, 1).unfold(3, width, 1)
    down, right = shifts.to(images.device)
    return windows[torch.arange(n, device=images.device), :, down, right]
