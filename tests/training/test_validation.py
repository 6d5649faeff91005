import dataclasses

import pytest
import torch

from skinny.errors import SkinnyError
from skinny.training import Config, RunFolder, load_run, train
from skinny.training.session import load_data
from skinny.training.validation import hold_out


def rows(part):
    return {image.numpy().tobytes() for image in part.images}


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


def test_the_config_knows_the_field():
    assert dataclasses.replace(Config(), val_size=5).hash != Config().hash
