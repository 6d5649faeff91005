"""Which images of a set: class-balanced subsets and stratified splits, by index."""

import bisect

import torch
from torch import Tensor

from skinny.data.errors import DataError


def balanced_subset(labels: Tensor, size: int, classes: int, seed: int) -> Tensor:
    """Indices of `size` images with the classes as equal as the data allows, in ascending order.

    Every class gets size // classes images; a remainder goes one each to the classes of lowest
    number. A class that has fewer images gives all of them and the others share the difference.
    For one seed a smaller subset is part of every larger one, because each class is taken in one
    fixed random order.
    """
    if not classes <= size <= len(labels):
        raise DataError(
            f"a training subset of {size} images was asked for, but it must have at least one image"
            f" of each of the {classes} classes and at most the {len(labels)} there are"
        )
    members = _shuffled_members(labels, classes, seed)
    quotas = _fill([len(indices) for indices in members], size)
    chosen = [indices[:quota] for indices, quota in zip(members, quotas, strict=True)]
    return torch.cat(chosen).sort().values


def stratified_split(
    labels: Tensor, test_size: int, classes: int, seed: int
) -> tuple[Tensor, Tensor]:
    """Indices (train, test), ascending: the test split has each class in proportion to its count.

    Shares are rounded down and what is missing goes to the largest remainders, ties to the lower
    class, so that exactly `test_size` images are in the test split.
    """
    members = _shuffled_members(labels, classes, seed)
    exact = [len(indices) * test_size / len(labels) for indices in members]
    quotas = [int(share) for share in exact]
    by_remainder = sorted(range(classes), key=lambda c: (quotas[c] - exact[c], c))
    for c in by_remainder[: test_size - sum(quotas)]:
        quotas[c] += 1
    test = torch.cat([indices[:quota] for indices, quota in zip(members, quotas, strict=True)])
    train = torch.cat([indices[quota:] for indices, quota in zip(members, quotas, strict=True)])
    return train.sort().values, test.sort().values


def _shuffled_members(labels: Tensor, classes: int, seed: int) -> list[Tensor]:
    generator = torch.Generator().manual_seed(seed)
    members = []
    for c in range(classes):
        indices = torch.nonzero(labels == c).flatten()
        members.append(indices[torch.randperm(len(indices), generator=generator)])
    return members


def _fill(available: list[int], size: int) -> list[int]:
    """How many to take of each, as equal as `available` allows, `size` in all."""
    level = bisect.bisect_right(
        range(size + 1), size, key=lambda level: sum(min(count, level) for count in available)
    )
    quotas = [min(count, level - 1) for count in available]
    larger = [c for c, count in enumerate(available) if count > quotas[c]]
    for c in larger[: size - sum(quotas)]:
        quotas[c] += 1
    return quotas
