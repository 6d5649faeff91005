"""Runs on data of the user's own: how they are named, resumed, loaded and packed."""

import dataclasses
import json

import pytest

import skinny
from skinny.cli.main import main
from skinny.errors import SkinnyError
from skinny.training import Config, RunFolder, Silent, train

SOURCE = """
import torch
from torch.utils.data import Dataset

class Squares(Dataset):
    classes = ["dark", "light", "neither"]

    def __init__(self, split):
        draw = torch.Generator().manual_seed(len(split))
        self.targets = torch.randint(3, (60,), generator=draw).tolist()
        self.pixels = torch.randint(0, 60, (60, 1, 6, 6), generator=draw, dtype=torch.uint8)

    def __len__(self):
        return len(self.targets)

    def __getitem__(self, index):
        return self.pixels[index] + 80 * self.targets[index], self.targets[index]

class Prepared(Squares):
    def __getitem__(self, index):
        image, label = super().__getitem__(index)
        return image / 255 - 0.5, label
"""
CONFIG = Config(
    name="mine",
    data="own_squares:Squares",
    model="lenet-300-100",
    epochs=6,
    dense=2,
    sparse=4,
    batch_size=10,
    sparsity=0.5,
)


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own_squares.py").write_text(SOURCE)
    return tmp_path


def test_a_run_on_the_users_data_learns_and_only_who_names_them_loads_it(here, capsys):
    result = train(CONFIG, RunFolder("run"))
    assert result["test_accuracy"] > 0.9
    assert result["classes"] == ["dark", "light", "neither"]
    packed = skinny.load("run/model.skinny")
    assert packed.labels == ["dark", "light", "neither"]
    assert main(["eval", "run"]) == 1
    assert "say so with --data own_squares:Squares" in capsys.readouterr().err
    assert main(["eval", "run", "--data", "own_squares:Other"]) == 1
    assert "trained with the data own_squares:Squares" in capsys.readouterr().err
    assert main(["eval", "run", "--data", "own_squares:Squares", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["accuracy"] == result["test_accuracy"]
    again = ["pack", "run", "again.skinny", "--weights-only", "--data", "own_squares:Squares"]
    assert main(again) == 0


class Stops(Silent):
    def __init__(self):
        self.heard = []

    def epoch(self, record):
        if record["epoch"] == 1:
            raise KeyboardInterrupt

    def note(self, text):
        self.heard.append(text)


def test_a_run_does_not_go_on_with_other_data(here, monkeypatch):
    """Of prepared floats; and what the packed file will not do is said."""
    config = dataclasses.replace(CONFIG, data="own_squares:Prepared")
    with pytest.raises(KeyboardInterrupt):
        train(config, RunFolder("run"), observer=Stops())
    import own_squares

    with monkeypatch.context() as patch:
        patch.setattr(own_squares.Squares, "classes", ["dark", "light", "no"])
        with pytest.raises(SkinnyError, match="the data have changed since it was saved"):
            train(config, RunFolder("run"))
    observer = Stops()
    assert train(config, RunFolder("run"), observer=observer)["test_accuracy"] > 0.6
    assert any("the data set prepares its images" in text for text in observer.heard)
