"""What examples/ do that no other test does, with data of their own."""

import dataclasses
import importlib.util
import json
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from tests.zoo.images import mobilenet_v2

import skinny

EXAMPLES = Path(__file__).parents[1] / "examples"


@pytest.fixture
def prune_pretrained(monkeypatch):
    """The example with small photographs, and random weights instead of published ones."""
    name = "prune_pretrained"
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, name, module)  # dataclasses look for it there
        spec.loader.exec_module(module)
    monkeypatch.setattr(module, "SIZE", 32)
    monkeypatch.setattr(module, "weights", lambda: mobilenet_v2(classes=1000).state_dict())
    return module


@pytest.fixture
def photographs(tmp_path, prune_pretrained):
    generator = np.random.default_rng(0)
    for split, count in (("train", 5), ("val", 2)):
        for synset in prune_pretrained.CLASSES:
            folder = tmp_path / "imagenette" / split / synset
            folder.mkdir(parents=True)
            for index in range(count):
                pixels = generator.integers(0, 256, (40, 50, 3), dtype=np.uint8)
                Image.fromarray(pixels).save(folder / f"{index}.png")
    return tmp_path / "imagenette"


def test_a_pretrained_network_is_pruned_packed_and_judged(prune_pretrained, photographs, tmp_path):
    arms = ("iht-0.9", "oneshot-0.7")
    command = prune_pretrained.Train(photographs, tmp_path / "out", arms, epochs=4)
    prune_pretrained.main(command)
    for name in arms:
        found = json.loads((tmp_path / "out" / f"{name}.json").read_text())
        assert found["photographs"] == [50, 20]
        assert (found["rate"], found["seed"]) == (0.003, 0)
        assert found["bytes"] == (tmp_path / "out" / f"{name}.skinny").stat().st_size
        x = np.zeros((1, 3, 32, 32), np.float32)
        assert skinny.load(tmp_path / "out" / f"{name}.skinny")(x, preprocessed=True).shape == (
            1,
            10,
        )
    prune_pretrained.main(prune_pretrained.Int8(photographs, tmp_path / "out"))
    for name in arms:
        exact, rounded = (
            json.loads((tmp_path / "out" / f"{name}{kind}.json").read_text())
            for kind in ("", "-int8")
        )
        assert rounded["bytes"] < exact["bytes"]
        assert 0 <= rounded["accuracy"] <= 1
    sizes = [(tmp_path / "out" / f"{name}.skinny").stat().st_size for name in arms]
    assert sizes[0] < sizes[1] / 2  # 90 % and 70 % removed


def test_arms_that_are_there_are_not_trained_again(prune_pretrained, photographs, tmp_path):
    made = {"photographs": [50, 20], "epochs": 4, "rate": 0.5, "seed": 0, "progressive": False}
    (tmp_path / "dense.json").write_text(json.dumps(made))
    command = prune_pretrained.Train(photographs, tmp_path, ("dense",), epochs=4, rate=0.5)
    prune_pretrained.main(command)
    assert not (tmp_path / "dense.skinny").exists()
    for change in ({"epochs": 5}, {"progressive": True}):
        with pytest.raises(SystemExit, match="has other settings"):
            prune_pretrained.main(dataclasses.replace(command, **change))


def test_iht_prunes_to_the_target_at_once_unless_it_is_to_approach_it(prune_pretrained):
    for progressive, rising in ((False, False), (True, True)):
        timeline = prune_pretrained.arms(300, progressive)["iht-0.9"]
        sparse = [span.sparsity for span in timeline.spans if span.sparsity]
        assert (sparse[0] < sparse[-1]) == rising
        assert sparse[-1] == 0.9


def test_held_out_photographs_are_not_trained_on(prune_pretrained, photographs, tmp_path):
    command = prune_pretrained.Train(
        photographs, tmp_path / "out", ("dense",), epochs=4, held_out=1, per_class=4
    )
    prune_pretrained.main(command)
    found = json.loads((tmp_path / "out" / "dense.json").read_text())
    assert found["photographs"] == [40, 10]
    train, test = (
        {
            image.numpy().tobytes()
            for image in prune_pretrained.read_images(photographs / "train", of)[0]
        }
        for of in (slice(1, 5), slice(1))
    )
    assert (len(train), len(test), len(train & test)) == (40, 10, 0)
