"""What examples/ do that no other test does, with data of their own, and the programs in results/
that record what an example makes."""

import dataclasses
import importlib
import json
import re
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from tests.zoo.images import mobilenet_v2

import skinny

ROOT = Path(__file__).parents[1]


@pytest.fixture
def prune_pretrained(monkeypatch):
    """The example with small photographs, and random weights instead of published ones."""
    monkeypatch.syspath_prepend(ROOT / "results")
    monkeypatch.syspath_prepend(ROOT / "examples")
    module = importlib.import_module("prune_pretrained")
    monkeypatch.setattr(module, "SIZE", 32)
    monkeypatch.setattr(module, "weights", lambda: mobilenet_v2(classes=1000).state_dict())
    return module


@pytest.fixture
def pretrained_train(prune_pretrained):
    return importlib.import_module("pretrained_train")


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


def test_a_pretrained_network_is_pruned_and_packed(prune_pretrained, photographs, tmp_path, capsys):
    arms = ("iht-0.9", "oneshot-0.7")
    command = prune_pretrained.Options(photographs, tmp_path / "out", arms, epochs=4)
    prune_pretrained.main(command)
    told = capsys.readouterr().out
    sizes = []
    for name in arms:
        file = tmp_path / "out" / f"{name}.skinny"
        x = np.zeros((1, 3, 32, 32), np.float32)
        assert skinny.load(file)(x, preprocessed=True).shape == (1, 10)
        sizes.append(file.stat().st_size)
        assert re.search(rf"{name}: accuracy \d+\.\d%, {sizes[-1]:,} bytes", told)
    assert sizes[0] < sizes[1] / 2  # 90 % and 70 % removed


def test_an_arm_that_is_not_there_is_named_with_those_that_are(prune_pretrained):
    arms = prune_pretrained.timelines(100)
    assert list(prune_pretrained.select(arms, ("iht-0.8", "dense"))) == ["iht-0.8", "dense"]
    assert prune_pretrained.select(arms, ()) == arms
    with pytest.raises(SystemExit, match=r"there is no arm iht-0\.5; there are dense, iht-0\.7"):
        prune_pretrained.select(arms, ("iht-0.5",))


def test_an_arm_is_recorded_in_fp32_and_in_int8(pretrained_train, photographs, tmp_path):
    out = tmp_path / "out"
    pretrained_train.main(pretrained_train.Options(photographs, out, ("iht-0.9",), epochs=4))
    importlib.import_module("pretrained_int8").main(photographs, out)
    exact, rounded = (
        json.loads((out / f"{name}.json").read_text()) for name in ("iht-0.9", "iht-0.9-int8")
    )
    assert exact["photographs"] == [50, 20]
    assert (exact["rate"], exact["seed"]) == (0.003, 0)
    assert exact["bytes"] == (out / "iht-0.9.skinny").stat().st_size
    assert rounded["bytes"] == (out / "iht-0.9-int8.skinny").stat().st_size < exact["bytes"]
    assert 0 <= rounded["accuracy"] <= 1


def test_arms_with_a_record_are_not_trained_again(pretrained_train, photographs, tmp_path):
    made = {"photographs": [50, 20], "epochs": 4, "rate": 0.5, "seed": 0, "progressive": False}
    (tmp_path / "dense.json").write_text(json.dumps(made))
    command = pretrained_train.Options(photographs, tmp_path, ("dense",), epochs=4, rate=0.5)
    pretrained_train.main(command)
    assert not (tmp_path / "dense.skinny").exists()
    for change in ({"epochs": 5}, {"progressive": True}):
        with pytest.raises(SystemExit, match="has other settings"):
            pretrained_train.main(dataclasses.replace(command, **change))


def test_iht_prunes_to_the_target_at_once_unless_it_is_progressive(pretrained_train):
    for progressive in (False, True):
        timeline = pretrained_train.timelines(300, progressive)["iht-0.9"]
        sparse = [span.sparsity for span in timeline.spans if span.sparsity]
        assert (sparse[0] < sparse[-1]) == progressive
        assert sparse[-1] == 0.9


def test_held_out_photographs_are_not_trained_on(pretrained_train, photographs, tmp_path):
    command = pretrained_train.Options(
        photographs, tmp_path / "out", ("dense",), epochs=4, held_out=1, per_class=4
    )
    pretrained_train.main(command)
    found = json.loads((tmp_path / "out" / "dense.json").read_text())
    assert found["photographs"] == [40, 10]
    train, test = (
        {image.numpy().tobytes() for image in images}
        for images, _ in pretrained_train.read_splits(command)
    )
    assert (len(train), len(test), len(train & test)) == (40, 10, 0)


@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")  # of OpenVINO
def test_packed_networks_are_timed_beside_the_dense_one(prune_pretrained, tmp_path):
    pytest.importorskip("openvino", reason="openvino is not installed (the extra bench)")
    model = prune_pretrained.pretrained(prune_pretrained.weights())
    for name in ("dense", "stopped"):
        prune_pretrained.pack(model, tmp_path / f"{name}.skinny")
    (tmp_path / "dense.json").write_text("{}")
    importlib.import_module("pretrained_time").main(tmp_path, rounds=1)
    found = json.loads((tmp_path / "times.json").read_text())["milliseconds"]
    assert list(found) == ["OpenVINO, dense, fp32", "OpenVINO, dense, bf16", "Skinny, dense"]
    assert min(found.values()) > 0
