"""Who judges a run: held-out training images for all that is tuned, or fewer test images."""

from dataclasses import replace

import torch

from skinny.data import Dataset, ImageSet
from skinny.data.statistics import channel_statistics
from skinny.data.subset import balanced_subset, stratified_split
from skinny.errors import SkinnyError

_SEED = 0  # always the same images, as with train_size


def hold_out(dataset: Dataset, train_size: int | None, val_size: int) -> Dataset:
    """The data set with `val_size` of its training images, by class shares, in place of its test.

    With `train_size` the images trained on are the very ones that are trained on without a
    hold-out, and the held-out ones are others. Without it, the training split becomes smaller.
    """
    labels, classes = dataset.train.labels, len(dataset.classes)
    spare = len(labels) - (classes if train_size is None else train_size)
    if not 1 <= val_size <= spare:
        raise SkinnyError(
            f"val_size is {val_size}, but {spare} of the {len(labels)} training images of "
            f"{dataset.name} can be held out; give less"
        )
    if train_size is None:
        train, held = stratified_split(labels, val_size, classes, _SEED)
    else:
        train = balanced_subset(labels, train_size, classes, _SEED)
        others = torch.ones(len(labels), dtype=torch.bool)
        others[train] = False
        rest = others.nonzero().flatten()
        held = rest[stratified_split(labels[rest], val_size, classes, _SEED)[1]]
    kept = dataset.train.take(train)
    made = replace(dataset, train=kept, test=dataset.train.take(held))
    if not isinstance(kept, ImageSet):
        return made
    mean, std = channel_statistics(kept.images)
    return replace(made, mean=mean, std=std)


def share_of_test(dataset: Dataset, test_size: int) -> Dataset:
    """The data set with `test_size` of its test images, the classes as equal as they allow."""
    count, classes = len(dataset.test), len(dataset.classes)
    if not classes <= test_size <= count:
        raise SkinnyError(
            f"test_size is {test_size}; {dataset.name} has {count} test images of {classes} "
            f"classes: give {classes} to {count}"
        )
    chosen = balanced_subset(dataset.test.labels, test_size, classes, _SEED)
    return replace(dataset, test=dataset.test.take(chosen))
