import io
import json

from rich.console import Console

from skinny.cli import progress
from skinny.cli.progress import JsonLines, LiveProgress, PlainLines
from skinny.training import Plan, Silent, Step, recipe
from skinny.training import config as configs

CONFIG = recipe("demo")
PLAN = Plan(CONFIG, configs.timeline(CONFIG, 10), 10, 640, 0, 0, {"conv1.weight": 288})
RECORD = {
    "epoch": 0,
    "phase": "sparse",
    "sparsity": 0.525,
    "train_loss": 1.25,
    "train_accuracy": 0.5,
    "test_accuracy": None,
    "images_per_second": 1234.5,
}


def test_quiet_json_or_lines_when_output_is_not_a_terminal():
    assert type(progress.choose(quiet=True, as_json=True)) is Silent
    assert type(progress.choose(quiet=False, as_json=True)) is JsonLines
    assert type(progress.choose(quiet=False, as_json=False)) is PlainLines


def test_a_plain_line_per_epoch_with_the_time_left(capsys):
    lines = PlainLines()
    lines.begin(PLAN)
    lines.epoch(RECORD)
    last = capsys.readouterr().out.splitlines()[-1]
    assert last.startswith(
        "epoch 1/24: sparse 52.5%, loss 1.2500, training 50.00%, 1,234 images/s, 0:00"
    )
    lines.epoch({**RECORD, "test_accuracy": 0.75})
    assert "test 75.00%" in capsys.readouterr().out


def test_json_lines(capsys):
    lines = JsonLines()
    lines.epoch(RECORD)
    lines.note("going on")
    captured = capsys.readouterr()
    assert json.loads(captured.out) == RECORD
    assert captured.err == "going on\n"


def test_the_live_display_shows_spans_epoch_loss_speed_and_time_left():
    console = Console(file=io.StringIO(), force_terminal=True, width=100, color_system=None)
    live = LiveProgress(console)
    live.begin(PLAN)
    live.step(Step(3, 5, 320, 0.4321, "sparse", 0.525))
    live.epoch(RECORD)
    live.end()
    shown = console.file.getvalue()
    for text in ("epoch 4/24", "step 5/10", "sparse 52.5%", "loss 0.4321", "images/s", "left"):
        assert text in shown
    assert "▁▁▁▁▁▁█" in shown
