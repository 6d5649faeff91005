import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from skinny.data.batches import MemoryBatches
from skinny.data.errors import DataError
from skinny.data.preprocessing import Normalization
from skinny.data.sets import ImageSet

PART = ImageSet(
    torch.randint(256, (50, 3, 6, 6), generator=torch.Generator().manual_seed(0)).to(torch.uint8),
    torch.arange(50),  # a label names its image
)
PLAIN = Normalization.of((0.5, 0.4, 0.3), (0.2, 0.3, 0.1))


def batches(**options):
    options = {"batch_size": 8, "shuffle": True, "augment": "flip-crop", "seed": 1} | options
    return MemoryBatches(PART, preprocessing=PLAIN, **options)


def labels_of(batches, epoch):
    return torch.cat([labels for _, labels in batches.epoch(epoch)]).tolist()


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 2**63),
    epoch=st.integers(0, 10_000),
    start=st.integers(0, 7),
    augment=st.sampled_from(["none", "flip", "flip-crop"]),
)
def test_the_rest_of_an_epoch_is_the_same_to_the_bit(seed, epoch, start, augment):
    whole = list(batches(seed=seed, augment=augment).epoch(epoch))
    rest = list(batches(seed=seed, augment=augment).epoch(epoch, start))
    assert len(rest) == len(whole) - start
    for (x, y), (x_again, y_again) in zip(whole[start:], rest, strict=True):
        assert torch.equal(x, x_again)
        assert torch.equal(y, y_again)


def test_the_global_generators_are_neither_read_nor_moved():
    torch.manual_seed(3)
    state = torch.get_rng_state()
    first = [x for x, _ in batches().epoch(0)]
    assert torch.equal(torch.get_rng_state(), state)
    torch.manual_seed(4)
    assert all(map(torch.equal, first, (x for x, _ in batches().epoch(0))))


def test_an_epoch_shows_every_image_once_in_an_order_of_its_own():
    orders = [labels_of(batches(), epoch) for epoch in (0, 1)]
    orders.append(labels_of(batches(seed=2), 0))
    assert all(sorted(order) == list(range(50)) for order in orders)
    assert orders[0] != orders[1] != orders[2] != orders[0]


def test_every_batch_of_every_epoch_is_augmented_in_its_own_way():
    alike = ImageSet(PART.images[:1].repeat(32, 1, 1, 1), torch.zeros(32, dtype=torch.int64))
    chosen = MemoryBatches(alike, preprocessing=PLAIN, batch_size=16, augment="flip-crop", seed=1)
    shown = [images for epoch in (0, 1) for images, _ in chosen.epoch(epoch)]
    assert len({images.numpy().tobytes() for images in shown}) == 4


def test_without_shuffling_the_order_is_that_of_the_data():
    assert labels_of(batches(shuffle=False), 5) == list(range(50))


def test_pixels_are_normalised_per_channel():
    images, labels = next(batches(augment="none").epoch(0))
    expected = PART.images[labels].double() / 255
    mean, std = torch.tensor([0.5, 0.4, 0.3]), torch.tensor([0.2, 0.3, 0.1])
    expected = (expected - mean[:, None, None]) / std[:, None, None]
    assert images.dtype == torch.float32
    torch.testing.assert_close(images, expected.float(), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("drop_last", "steps", "images"), [(False, 7, 50), (True, 6, 48)])
def test_the_last_short_batch_is_kept_or_dropped(drop_last, steps, images):
    chosen = batches(drop_last=drop_last)
    assert len(chosen) == steps
    assert chosen.images == images
    assert len(list(chosen.epoch(0))) == steps
    assert len(labels_of(chosen, 0)) == images


@pytest.mark.parametrize("augment", ["none", "flip", "flip-crop"])
def test_channels_last_changes_the_layout_and_no_value(augment):
    plain = next(batches(augment=augment).epoch(0))[0]
    last = next(batches(augment=augment, channels_last=True).epoch(0))[0]
    assert plain.is_contiguous()
    assert last.is_contiguous(memory_format=torch.channels_last)
    assert torch.equal(plain, last)


def test_the_data_stay_as_they_were():
    before = PART.images.clone()
    list(batches().epoch(0))
    assert torch.equal(PART.images, before)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"batch_size": 0}, "batch size is 0"),
        ({"batch_size": 51, "drop_last": True}, "50 images do not fill one batch of 51"),
        ({"seed": -1}, "seed is -1"),
        ({"augment": "rotate"}, "augment is 'rotate'"),
    ],
)
def test_impossible_options_are_errors(options, message):
    with pytest.raises(DataError, match=message):
        batches(**options)


@pytest.mark.parametrize("start", [-1, 8])
def test_an_epoch_cannot_begin_beyond_itself(start):
    with pytest.raises(DataError, match=f"7 batches, so it cannot begin at {start}"):
        next(batches().epoch(0, start))


def test_a_finished_epoch_has_nothing_left():
    assert list(batches().epoch(0, 7)) == []
