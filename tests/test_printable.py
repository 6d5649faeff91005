"""What is printed comes from files that anyone may have made: a terminal must not obey it."""

import numpy as np
import pytest
from PIL import Image
from rich.console import Console

from skinny import packing
from skinny.cli import summary
from skinny.cli.main import main
from skinny.experiments.report.table import Cell, Table, latex, markdown
from skinny.printable import printable

EVIL = "\x1b[2Jred\x07\u202e\udc80"
SHOWN = r"\x1b[2Jred\x07\u202e\udc80"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a label, ünïcode 猫", "a label, ünïcode 猫"),
        (EVIL, SHOWN),
        ("two\nlines\tand\rmore", r"two\nlines\tand\rmore"),
        ("\x9b31m", r"\x9b31m"),
    ],
)
def test_what_is_not_visible_is_escaped(text, shown):
    assert printable(text) == shown


@pytest.fixture
def model(tmp_path):
    name = EVIL.replace("\udc80", "")
    node = {"op": "flatten", "inputs": ["x"], "output": "a", "start": 1, "end": -1}
    layer = {"op": "linear", "inputs": ["a"], "output": "y", "weight": name, "bias": None}
    graph = {
        "inputs": [{"name": "x", "shape": [None, 1, 2, 2], "dtype": "float32"}],
        "nodes": [node, layer],
        "outputs": ["y"],
    }
    path = tmp_path / "\x1b[31mnet.skinny"
    packing.write(
        path,
        {name: np.eye(2, 4, dtype=np.float32)},
        graph=graph,
        labels=[name, name],
        preprocessing={"mean": [0.0], "std": [1.0]},
    )
    return str(path)


@pytest.fixture
def image(tmp_path):
    path = tmp_path / "\x1b[31mimage.png"
    Image.new("L", (2, 2)).save(path)
    return str(path)


@pytest.mark.parametrize(
    "command",
    [
        ["predict", "{model}", "{image}"],
        ["size", "{model}"],
        ["unpack", "{model}"],
        ["bench", "{model}", "--rounds", "1", "--profile"],
        ["predict", "{model}", "{model}"],
        ["predict", "{image}", "{image}"],
        ["size", "\x1b[2Jnone"],
        ["\x1b[2J"],
    ],
)
def test_no_command_prints_an_escape_sequence(command, model, image, capfd):
    main([word.format(model=model, image=image) for word in command])
    out, err = capfd.readouterr()
    assert r"\x1b[" in out + err
    assert "\x1b" not in out + err
    assert "\x07" not in out + err


def test_tables_of_a_report_have_none():
    name = "\x1b[2Jarm"
    shown = Table("table", "caption", (name,), ((Cell(name),),))
    for text in (markdown(shown), latex(shown)):
        assert "x1b" in text
        assert "\x1b" not in text


class FakeRun:
    def __init__(self, path, result):
        self.path, self._result = path, result

    def result(self):
        return self._result

    def config(self):
        from skinny.training import Config

        return Config()


def test_the_tables_of_a_run_print_none_either(tmp_path, capfd):
    result = {
        "test_accuracy": 0.5,
        "weights": {"\x1b[2J[bold]layer.weight": {"kept": 1, "size": 2}},
        "bytes": {"packed": 1, "dense": 2},
    }
    folder = FakeRun(tmp_path / "\x1b[2Jrun", result)
    summary.show([folder], Console(width=200, force_terminal=False))
    out = capfd.readouterr().out
    assert r"\x1b[2J[bold]layer" in out
    assert "\x1b" not in out
