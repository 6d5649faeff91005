"""Training airnet from airbench's initial weights."""

from dataclasses import replace

import numpy as np
import pytest
import torch

import skinny
from skinny.errors import SkinnyError
from skinny.training import Config, RunFolder, train
from skinny.training.session import build


@pytest.fixture
def config(tmp_path):
    generator = np.random.default_rng(0)
    images = generator.integers(0, 256, (64, 3, 12, 12), dtype=np.uint8)
    labels = np.arange(64) % 2
    images[labels == 1, :, :6] //= 2
    path = tmp_path / "images.npz"
    np.savez(path, x_train=images, y_train=labels, x_test=images, y_test=labels)
    return Config(
        data=f"npz:{path}",
        model="airnet",
        width=0.1,
        whitened=True,
        epochs=3,
        dense=1,
        sparse=2,
        batch_size=16,
    )


def test_the_first_layer_stays_whitened_and_whole_through_training_and_packing(config, tmp_path):
    stem = build(config).model.stem.weight.detach().clone()
    result = train(config, RunFolder(tmp_path / "run"))
    assert "stem.weight" not in result["weights"]
    state = skinny.unpack(tmp_path / "run" / "model.skinny")
    assert torch.equal(state["stem.weight"], stem)


def test_every_seed_has_the_same_first_layer_and_other_weights_of_its_own(config):
    a, b = (build(replace(config, seed=seed)).model for seed in (0, 1))
    assert torch.equal(a.stem.weight, b.stem.weight)
    assert not torch.equal(a.classes.weight, b.classes.weight)


def test_other_models_do_not_begin_whitened():
    with pytest.raises(SkinnyError, match="only airnet can begin whitened"):
        build(Config(data="digits", whitened=True))
