import dataclasses

import pytest
import torch

from skinny.errors import SkinnyError
from skinny.training import Config, RunFolder, load_run, train
from skinny.training import config as configs
from skinny.training.session import load_data
from skinny.training.validation import hold_out


def rows(split):
    return {image.numpy().tobytes() for image in split.images}


def test_held_out_images_are_training_images_that_are_not_trained_on():
    plain, held = load_data(Config()), load_data(Config(val_size=300))
    assert len(held.test) == 300
    assert len(held.train) + 300 == len(plain.train)
    assert rows(held.test) <= rows(plain.train)
    assert not rows(held.test) & rows(held.train)
    assert held.mean != plain.mean


def test_with_a_training_size_the_same_images_are_trained_on_as_without_a_hold_out():
    plain, held = load_data(Config(train_size=100)), load_data(Config(train_size=100, val_size=200))
    assert torch.equal(plain.train.images, held.train.images)
    assert plain.mean == held.mean
    assert len(held.test) == 200
    assert not rows(held.test) & rows(held.train)


def test_held_out_images_are_shared_out_by_class():
    held = load_data(Config(val_size=300)).test
    assert min(torch.bincount(held.labels)) >= 28


def test_a_run_is_judged_by_the_held_out_images(tmp_path):
    config = Config(train_size=60, val_size=40, width=0.125, method="dense", epochs=1)
    result = train(config, RunFolder(tmp_path / "a"))
    assert sum(result["test_images"]) == 40
    assert len(load_run(tmp_path / "a").dataset.test) == 40


@pytest.mark.parametrize("val_size", [0, 10**6])
def test_an_impossible_hold_out_says_why(val_size):
    dataset = load_data(Config())
    with pytest.raises(SkinnyError, match=f"val_size is {val_size}, but"):
        hold_out(dataset, None, val_size)
    with pytest.raises(SkinnyError, match=f"val_size is {val_size}"):
        hold_out(dataset, 100, val_size)


def test_a_subset_that_leaves_nothing_to_hold_out_is_refused():
    with pytest.raises(SkinnyError, match="0 of the"):
        dataset = load_data(Config())
        hold_out(dataset, len(dataset.train), 1)


def test_who_judges_a_run_is_part_of_its_identity():
    hashes = {Config().hash, Config(val_size=50).hash, Config(test_size=50).hash}
    assert len(hashes) == 3


def test_a_share_of_the_test_images_judges_and_the_weights_are_the_same(tmp_path):
    config = Config(train_size=100, width=0.125, epochs=2, batch_size=32)
    train(config, RunFolder(tmp_path / "all"))
    result = train(dataclasses.replace(config, test_size=40), RunFolder(tmp_path / "share"))
    assert result["test_images"] == [4] * 10
    whole, share = (load_run(tmp_path / name) for name in ("all", "share"))
    for name, value in whole.model.state_dict().items():
        assert torch.equal(value, share.model.state_dict()[name]), name
    assert len(share.dataset.test) == 40
    again = load_data(dataclasses.replace(config, test_size=40, seed=7)).test
    assert torch.equal(again.images, share.dataset.test.images)


@pytest.mark.parametrize(
    ("sizes", "complaint"),
    [
        ({"test_size": 0}, "test_size is 0; it must be at least 1"),
        ({"test_size": 9}, "test_size is 9; digits has 360 test images of 10 classes"),
        ({"test_size": 361}, "give 10 to 360"),
        ({"test_size": 50, "val_size": 50}, "give one"),
    ],
)
def test_an_impossible_share_of_the_test_images_says_why(sizes, complaint):
    with pytest.raises(SkinnyError, match=complaint):
        load_data(configs.check(Config(**sizes)))
