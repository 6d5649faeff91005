import pytest
import torch
from torch import Generator
from torch.nn import functional as F

from skinny.data.augment import augment_batch, check_augment
from skinny.data.errors import DataError


def images_of(n=64, c=3, h=7, w=9):
    return torch.rand(n, c, h, w, generator=Generator().manual_seed(1))


def reference(images, mirrored, down, right, padding):
    """One image at a time."""
    out = []
    for image, m, i, j in zip(images, mirrored, down, right, strict=True):
        image = image.flip(-1) if m else image
        image = F.pad(image, (padding,) * 4)
        out.append(image[:, i : i + images.shape[2], j : j + images.shape[3]])
    return torch.stack(out)


@pytest.mark.parametrize("padding", [0, 1, 4])
@pytest.mark.parametrize("channels", [1, 3])
def test_flip_and_crop_agree_with_doing_it_image_by_image(padding, channels):
    images = images_of(c=channels)
    ours = augment_batch(images, "flip-crop", Generator().manual_seed(3), padding)
    generator = Generator().manual_seed(3)
    mirrored = torch.randint(2, (len(images),), generator=generator)
    down, right = torch.randint(2 * padding + 1, (2, len(images)), generator=generator)
    assert torch.equal(ours, reference(images, mirrored, down, right, padding))


def test_flip_mirrors_about_half_and_leaves_the_rest():
    images = images_of(n=400)
    flipped = augment_batch(images, "flip", Generator().manual_seed(0))
    same = (flipped == images).flatten(1).all(1)
    mirrored = (flipped == images.flip(3)).flatten(1).all(1)
    assert (same ^ mirrored).all()
    assert 150 < mirrored.sum() < 250


def test_every_shift_occurs_and_zeros_come_in():
    images = torch.ones(2000, 1, 5, 5)
    shifted = augment_batch(images, "flip-crop", Generator().manual_seed(0), 2)
    rows = shifted.amax((1, 3)).unique(dim=0)
    assert len(rows) == 5
    assert shifted.unique().tolist() == [0.0, 1.0]


def test_none_changes_nothing_and_a_wrong_word_is_an_error():
    images = images_of()
    assert augment_batch(images, "none", Generator()) is images
    with pytest.raises(DataError, match="augment is 'mirror'; one of none, flip, flip-crop"):
        check_augment("mirror")
