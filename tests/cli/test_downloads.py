import io
import re
from pathlib import Path

import pytest
from rich.console import Console

from skinny.cli import downloads
from skinny.data import fetch

MIRROR = "https://example.org/"


def receive(file="data.gz", *, size=1000, total=1000):
    """What `skinny.data.fetch` tells of one file."""
    watch = fetch._watch.get()
    assert watch is not None
    watch(MIRROR + file, Path("data/mnist") / file, 0, 0)
    watch(MIRROR + file, Path("data/mnist") / file, size, total)


def test_a_line_per_file_where_there_is_no_terminal(capsys):
    with downloads.shown():
        receive("a.gz")
        receive("b.gz")
    out, error = capsys.readouterr()
    assert out == ""
    assert error == (
        "downloading https://example.org/a.gz to data/mnist\n"
        "downloading https://example.org/b.gz to data/mnist\n"
    )


def test_quiet_is_silent(capsys):
    with downloads.shown(quiet=True):
        receive()
    assert capsys.readouterr() == ("", "")


@pytest.fixture
def terminal(monkeypatch):
    console = Console(file=io.StringIO(), force_terminal=True, width=80, color_system=None)
    monkeypatch.setattr(downloads, "Console", lambda **_: console)
    return console.file


def test_a_bar_that_fits_a_narrow_terminal(terminal, capsys):
    with downloads.shown():
        receive("train-images-idx3-ubyte.gz", size=4_000_000, total=9_912_422)
    shown = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "\n", terminal.getvalue())
    (bar,) = {line.strip() for line in shown.splitlines() if "4.0/9.9 MB" in line}
    assert re.match("train-images-idx3-ubyte.gz ━+", bar)
    assert len(bar) <= 80
    assert "downloading https://example.org/train-images" in capsys.readouterr().err


def test_the_bar_is_gone_when_the_file_is_there(terminal):
    with downloads.shown():
        receive()
        ended = terminal.getvalue()
    assert ended.endswith("\x1b[2K")  # the line is erased, and training may draw there
    assert terminal.getvalue() == ended


def test_no_bar_within_another_display(terminal, capsys):
    with downloads.shown(bars=False):
        receive()
    assert terminal.getvalue() == ""
    assert "downloading" in capsys.readouterr().err
