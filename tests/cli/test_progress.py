import io
import json
import re
import sys

from rich.console import Console

from skinny.cli import progress
from skinny.cli.progress import JsonLines, LiveProgress, PlainLines
from skinny.training import Progress, RunInfo, Silent, recipe
from skinny.training import config as configs

CONFIG = recipe("demo")
INFO = RunInfo(CONFIG, configs.timeline(CONFIG, 10), 10, 640, 0, 0, {"conv1.weight": 288})
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
    lines.begin(INFO)
    lines.epoch(RECORD)
    last = capsys.readouterr().out.splitlines()[-1]
    assert last.startswith(
        "epoch 1/32: sparse 52.5%, loss 1.2500, training 50.00%, 1,234 images/s, 0:00"
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


def test_the_live_display_is_six_lines_on_a_narrow_terminal(monkeypatch):
    console = Console(file=io.StringIO(), force_terminal=True, width=80, color_system=None)
    seconds = iter([0.0, 35.0])
    monkeypatch.setattr("skinny.cli.progress.time.monotonic", lambda: next(seconds, 35.0))
    live = LiveProgress(console)
    live.begin(INFO)
    live.step(Progress(3, 5, 320, 0.4321, "sparse", 0.525))
    live.epoch({**RECORD, "test_accuracy": 0.75})
    console.file.truncate(0)
    console.file.seek(0)
    live.end()
    shown = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]|\r", "", console.file.getvalue())
    title, spans, bar, now, speed, last = [line.rstrip() for line in shown.splitlines()][:6]
    assert title == f"{CONFIG.run_name}: nin-digits on digits"
    assert re.fullmatch("▁+█+▁+█+", spans)
    assert len(spans) == 72
    assert re.fullmatch("━+╸?", bar)
    assert now == "epoch 4/32  step 5/10  sparse 52.5%  loss 0.4321"
    assert re.fullmatch(r"64 images/s  4:45 left", speed)
    assert last == "epoch 1/32: sparse 52.5%, loss 1.2500, training 50.00%, test 75.00%"


def test_before_the_first_step_the_live_display_knows_no_speed():
    console = Console(file=io.StringIO(), force_terminal=True, width=80, color_system=None)
    live = LiveProgress(console)
    live.begin(INFO)
    live.end()
    shown = console.file.getvalue()
    assert "epoch 1/32  step 0/10  dense" in shown
    assert "images/s" not in shown


def test_what_is_written_to_stderr_goes_above_the_live_display():
    console = Console(file=io.StringIO(), force_terminal=True, width=80, color_system=None)
    live = LiveProgress(console)
    live.begin(INFO)
    print("skinny: this is odd", file=sys.stderr)
    live.end()
    shown = [line.rstrip() for line in console.file.getvalue().splitlines()]
    assert any(line.endswith("skinny: this is odd") for line in shown)
