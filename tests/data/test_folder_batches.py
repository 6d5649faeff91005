import warnings

import numpy as np
import pytest
import torch
from PIL import Image

from skinny.data.errors import CorruptImageWarning, DataError
from skinny.data.folder import load_folder
from skinny.data.folder_batches import FolderBatches
from skinny.data.preprocessing import Normalization

# Python 3.12 and later warn of what torch's loader does to start its workers.
pytestmark = pytest.mark.filterwarnings("ignore:This process .* is multi-threaded")

AS_PIXELS = Normalization.of((0.0,) * 3, (1 / 255,) * 3)


def batches(split, **options):
    options = {"batch_size": 5, "seed": 1, "shuffle": True, "augment": "flip-crop"} | options
    return FolderBatches(split, preprocessing=AS_PIXELS, **({"workers": 0} | options))


@pytest.fixture
def split(tmp_path, write):
    return load_folder(write.image_folder(tmp_path / "data"), name="f", crop=8).train


def images_of(batches, epoch=0, start=0):
    return torch.cat([images for images, _ in batches.epoch(epoch, start)])


def test_workers_change_nothing(split):
    for epoch in (0, 1):
        alone, helped = (list(batches(split, workers=w).epoch(epoch)) for w in (0, 2))
        for (x, y), (x_helped, y_helped) in zip(alone, helped, strict=True):
            assert torch.equal(x, x_helped)
            assert torch.equal(y, y_helped)


@pytest.mark.parametrize("start", [0, 1, 2, 3])
def test_the_rest_of_an_epoch_is_the_same_to_the_bit(split, start):
    whole = list(batches(split).epoch(4))
    rest = list(batches(split).epoch(4, start))
    assert len(rest) == 3 - start
    for (x, y), (x_again, y_again) in zip(whole[start:], rest, strict=True):
        assert torch.equal(x, x_again)
        assert torch.equal(y, y_again)


@pytest.mark.parametrize("workers", [0, 2])
def test_the_global_generator_is_not_moved(split, workers):
    state = torch.get_rng_state()
    list(batches(split, workers=workers).epoch(0))
    assert torch.equal(torch.get_rng_state(), state)


def test_an_epoch_can_be_left_in_the_middle(split):
    chosen = batches(split, workers=2)
    for _ in chosen.epoch(0):
        break
    assert len(list(chosen.epoch(1))) == 3


def test_epochs_and_seeds_differ(split):
    first = images_of(batches(split))
    assert not torch.equal(first, images_of(batches(split), epoch=1))
    assert not torch.equal(first, images_of(batches(split, seed=2)))


def test_the_same_image_is_cut_differently_in_another_epoch(split):
    plan = {"shuffle": False, "batch_size": 12}
    assert not torch.equal(
        images_of(batches(split, **plan)), images_of(batches(split, **plan), epoch=1)
    )


def test_testing_gives_centre_crops_in_order(split):
    images = images_of(batches(split, shuffle=False, augment="none"))
    assert images.shape == (12, 3, 8, 8)
    for i in range(12):
        pixels = np.asarray(Image.open(split.path(i)))[1:9, 2:10].transpose(2, 0, 1)
        np.testing.assert_allclose(images[i].numpy(), pixels, atol=1e-3)


def test_flip_alone_keeps_the_centre(split):
    plain = images_of(batches(split, shuffle=False, augment="none"))
    flipped = images_of(batches(split, shuffle=False, augment="flip"))
    same = (plain == flipped).flatten(1).all(1)
    mirrored = (plain.flip(3) == flipped).flatten(1).all(1)
    assert (same ^ mirrored).all()
    assert 0 < mirrored.sum() < 12


def test_channels_last_and_lengths(split):
    chosen = batches(split, channels_last=True, drop_last=True)
    images, labels = next(chosen.epoch(0))
    assert images.is_contiguous(memory_format=torch.channels_last)
    assert labels.dtype == torch.int64
    assert len(chosen) == 2
    assert chosen.images == 10


@pytest.mark.parametrize("workers", [0, 2])
def test_a_corrupt_image_is_named_once_and_the_next_of_its_class_replaces_it(split, workers):
    broken = split.path(5)  # the last cat: the first cat follows it
    broken.write_bytes(broken.read_bytes()[:100])
    chosen = batches(split, shuffle=False, augment="none", workers=workers)
    with pytest.warns(CorruptImageWarning) as caught:
        images = images_of(chosen)
    assert len(caught) == 1
    message = str(caught[0].message)
    assert message.startswith(f"{broken}: cannot be decoded (")
    assert message.endswith(f"{split.path(0)} takes its place")
    assert torch.equal(images[5], images[0])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert torch.equal(images_of(chosen, epoch=1), images)


def test_neighbouring_corrupt_images_are_passed_over_together(split):
    for i in (1, 2):
        split.path(i).write_bytes(b"")
    chosen = batches(split, shuffle=False, augment="none")
    with pytest.warns(CorruptImageWarning) as caught:
        images = images_of(chosen)
    assert [str(w.message).split(":")[0] for w in caught] == [str(split.path(i)) for i in (1, 2)]
    assert torch.equal(images[1], images[3])
    assert torch.equal(images[2], images[3])


def test_a_missing_image_is_treated_like_a_corrupt_one(split):
    split.path(7).unlink()
    with pytest.warns(CorruptImageWarning, match="there is no such file"):
        assert len(images_of(batches(split))) == 12


@pytest.mark.parametrize("workers", [0, 2])
def test_a_class_of_which_nothing_can_be_read_ends_in_one_sentence(split, workers):
    for i in range(6):
        split.path(i).write_bytes(b"rubbish")
    with pytest.raises(DataError, match="the folder is damaged") as caught:
        list(batches(split, workers=workers).epoch(0))
    assert "\n" not in str(caught.value)


def test_a_jpeg_cut_short_is_corrupt(tmp_path, write):
    root = write.image_folder(tmp_path / "data", suffix=".jpg", size=(64, 64))
    split = load_folder(root, name="f").train
    contents = split.path(3).read_bytes()
    split.path(3).write_bytes(contents[: len(contents) // 2])
    with pytest.warns(CorruptImageWarning, match=r"003.jpg: cannot be decoded \(.*truncated"):
        images_of(batches(split))


def test_an_image_of_absurd_size_is_corrupt(split, monkeypatch):
    monkeypatch.setattr("skinny.images.files._MOST_PIXELS", 100)  # the images have 120
    with pytest.raises(DataError, match=r"at most 100 are read"):
        images_of(batches(split))
