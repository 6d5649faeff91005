"""What a run says of the file it will make of its network."""

import dataclasses
import itertools
import re

import pytest

import skinny
from skinny.training import RunFolder, Silent, recipe, train
from skinny.training.config import without_model_options

NUMBERS = itertools.count()


def network(forward):
    return f"""
import torch

class Net(torch.nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.layer = torch.nn.Linear(64, classes)

    def forward(self, x):
        {forward}

def make(classes):
    return Net(classes)
"""


class Diary(Silent):
    """What an observer is told, in order."""

    def __init__(self):
        self.entries = []

    def note(self, text):
        self.entries.append(text)

    def epoch(self, record):
        self.entries.append(f"epoch {record['epoch']}")


@pytest.fixture
def diary_of(tmp_path, monkeypatch):
    def run(forward):
        monkeypatch.chdir(tmp_path)
        module = f"net_of_test_packed_{next(NUMBERS)}"
        (tmp_path / f"{module}.py").write_text(network(forward))
        config = dataclasses.replace(
            without_model_options(recipe("demo")),
            method="dense",
            epochs=1,
            train_size=100,
            model=f"{module}:make",
        )
        diary = Diary()
        train(config, RunFolder(tmp_path / "run"), device="cpu", observer=diary)
        return diary.entries

    return run


@pytest.mark.parametrize(
    ("forward", "reason"),
    [
        (
            "return self.layer(torch.special.erfcx(x).flatten(1))",
            "cannot express .*erfcx",
        ),
        ("return self.layer(x.flatten(1) * (2 if x.sum() > 0 else 1))", "cannot take the graph"),
    ],
)
def test_a_network_that_cannot_be_packed_is_told_so_before_it_is_trained(diary_of, forward, reason):
    entries = diary_of(forward)
    first = entries.index("epoch 0")
    assert any("will be packed without a graph" in entry for entry in entries[:first])
    assert re.search(reason, " ".join(entries[:first]))
    assert any("packed without a graph" in entry for entry in entries[first:])


def test_nothing_is_said_of_a_network_that_can_be_packed(diary_of):
    assert diary_of("return self.layer(x.flatten(1))") == ["epoch 0"]


def test_a_network_of_more_classes_than_the_data_have_is_packed_without_labels(diary_of, tmp_path):
    entries = diary_of("return torch.nn.functional.pad(self.layer(x.flatten(1)), (0, 3), value=-9)")
    said = "packed without labels: there are 10 labels, but the network scores 13 classes"
    assert entries == ["epoch 0", said]
    assert skinny.load(tmp_path / "run" / "model.skinny").labels is None
