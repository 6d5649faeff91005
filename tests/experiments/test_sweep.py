import dataclasses
import io
import json
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from rich.console import Console

from skinny.cli import grid_progress
from skinny.cli.main import main
from skinny.experiments.grid import grid
from skinny.experiments.job import Epoch, Job, Note, Outcome
from skinny.experiments.processes import Processes
from skinny.experiments.store import Store
from skinny.experiments.sweep import Serial, sweep
from skinny.training import RunFolder

MODELS = """
import os, signal
from torch import nn

def net(classes, channels, image_size, **options):
    height, width = image_size
    return nn.Sequential(nn.Flatten(), nn.Linear(channels * height * width, classes))

def killed(classes, channels, image_size, **options):
    os.kill(os.getpid(), signal.SIGKILL)

class Broken(nn.Sequential):
    def forward(self, x):
        raise ZeroDivisionError("what a pity")

def broken(classes, channels, image_size, **options):
    return Broken(net(classes, channels, image_size))
"""


@pytest.fixture
def models(tmp_path, monkeypatch):
    (tmp_path / "sweepmodels.py").write_text(MODELS)
    monkeypatch.chdir(tmp_path)


def statuses(outcomes):
    return [outcome.status for outcome in outcomes]


def test_a_finished_run_is_not_repeated_and_an_equal_one_runs_once(tmp_path, tiny):
    configs = grid(tiny, {"sparsity": [0.5, 0.8]})
    first = sweep([*configs, *configs], Store(tmp_path), executor=Serial())
    assert statuses(first) == ["trained", "trained"]

    def never(jobs, tell):
        raise AssertionError("there is nothing to do")

    again = sweep(configs, Store(tmp_path), executor=never)
    assert statuses(again) == ["already trained", "already trained"]
    assert [o.accuracy for o in again] == [o.accuracy for o in first]


def test_every_epoch_and_every_end_is_told(tmp_path, tiny):
    events = []
    sweep([tiny], Store(tmp_path), executor=Serial(), tell=events.append)
    assert [type(event) for event in events] == [Epoch, Epoch, Outcome]
    assert [event.done for event in events[:2]] == [1, 2]


def test_workers_survive_crashes_and_train_the_rest(tmp_path, tiny, models):
    """One worker: what it dies of must not take the jobs behind it."""
    configs = [
        dataclasses.replace(tiny, model=f"sweepmodels:{name}", width=None, batch_norm=None)
        for name in ("killed", "broken", "nosuch", "net")
    ]
    outcomes = sweep(configs, Store(tmp_path / "runs"), executor=Processes(1))
    assert statuses(outcomes) == ["failed", "failed", "failed", "trained"]
    killed, broken, unknown, fine = outcomes
    assert "SIGKILL" in killed.error
    assert "ZeroDivisionError: what a pity" in broken.error
    assert "ZeroDivisionError" in (broken.job.path / "error.txt").read_text()
    assert "has no 'nosuch'" in unknown.error
    assert RunFolder(fine.job.path).result()["threads"] == 1


def test_workers_decode_the_images_of_a_folder(tmp_path, tiny, models):
    rng = np.random.default_rng(0)
    for split in ("train", "val"):
        for label in ("cat", "dog"):
            (tmp_path / "photos" / split / label).mkdir(parents=True)
            for i in range(3):
                pixels = rng.integers(0, 256, (12, 12, 3), dtype=np.uint8)
                Image.fromarray(pixels).save(tmp_path / "photos" / split / label / f"{i}.png")
    config = dataclasses.replace(
        tiny,
        data=f"folder:{tmp_path}/photos",
        model="sweepmodels:net",
        train_size=None,
        resize=12,
        crop=12,
        width=None,
        batch_norm=None,
    )
    outcomes = sweep([config], Store(tmp_path / "runs"), executor=Processes(1))
    assert [(outcome.status, outcome.error) for outcome in outcomes] == [("trained", None)]


def test_missing_data_fails_its_own_runs_only(tmp_path, tiny):
    configs = grid(tiny, {"data": [f"npz:{tmp_path}/nothing.npz", "digits"]}, seeds=[0, 1])
    outcomes = sweep(configs, Store(tmp_path / "runs"), executor=Serial())
    assert statuses(outcomes) == ["failed", "failed", "trained", "trained"]
    assert "nothing.npz" in outcomes[0].error


def test_a_damaged_result_is_reported(tmp_path, tiny):
    folder = tmp_path / tiny.run_name
    folder.mkdir()
    (folder / "result.json").write_text("{")
    assert statuses(sweep([tiny], Store(tmp_path), executor=Serial())) == ["failed"]


TINY = [
    "sweep", "demo", "--executor", "serial",
    "--set", "train_size=60", "--set", "width=0.125",
    "--set", "epochs=2", "--set", "dense=1", "--set", "sparse=1",
]  # fmt: skip


def test_the_command_trains_a_grid_and_says_what_it_did(tmp_path, capsys):
    argv = [*TINY, "--runs", str(tmp_path), "--set", "sparsity=0.5,0.8", "--seeds", "0", "1"]
    assert main([*argv, "--plan"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 4
    assert not list(tmp_path.iterdir())
    assert main(argv) == 0
    out = capsys.readouterr().out.splitlines()
    assert len(out) == 4
    assert out[0].startswith("[1/4] demo-")
    assert main([*argv, "--json"]) == 0
    records = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert {record["status"] for record in records} == {"already trained"}


def test_what_every_run_says_of_the_machine_is_shown_once(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: {"avx512_bf16": False})
    assert (
        main([*TINY, "--runs", str(tmp_path), "--set", "precision=bf16", "--seeds", "0", "1"]) == 0
    )
    notes = [line for line in capsys.readouterr().out.splitlines() if "emulates" in line]
    assert notes == ["this CPU only emulates bf16; --precision fp32 would be faster"]


def test_a_live_display_shows_notes(tiny):
    console = Console(file=io.StringIO(), force_terminal=True, width=100)
    job = Job(tiny, Path("runs/one"))
    with grid_progress._Live(2, console) as live:
        live.tell(Note(job, "a [note] of 1"))
    assert "a [note] of 1" in console.file.getvalue()


def test_the_command_fails_when_a_run_does_and_names_it(tmp_path, capsys):
    argv = [*TINY, "--runs", str(tmp_path), "--set", f"data=digits,npz:{tmp_path}/nothing.npz"]
    assert main(argv) == 1
    error = capsys.readouterr().err
    assert "nothing.npz" in error
    assert "1 of 2 runs failed" in error


def test_that_a_run_diverged_is_a_result_and_kept(tmp_path, capsys):
    argv = [*TINY, "--runs", str(tmp_path), "--set", "lr=0.1,1e30", "--set", "batch_norm=false"]
    written = set()
    for first in (True, False):
        assert main([*argv, "--set", "schedule=constant"]) == 0
        out, error = capsys.readouterr()
        assert ("trained, accuracy" if first else "already trained") in out
        assert "diverged: the loss became" in out
        assert "1 of 2 runs diverged" in error
        (told,) = tmp_path.glob("*/diverged.txt")
        written.add(told.stat().st_ino)
    assert len(written) == 1  # a second training would have written it anew


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["nosuch"], "no recipe 'nosuch'"),
        (["demo"], "say what to vary, with --set FIELD=VALUE,VALUE or with several --seeds"),
        (["demo", "--seeds", "1"], "skinny train trains a single run"),
        (["demo", "--set", "seed=1,2"], "use --seeds"),
        (["demo", "--set", "lr=1", "--set", "lr=2"], "given twice"),
        (["demo", "--processes", "0", "--set", "train_size=60"], "processes is 0"),
    ],
)
def test_bad_usage_is_one_line(tmp_path, capsys, arguments, complaint):
    code = main(["sweep", *arguments, "--runs", str(tmp_path)])
    assert code == (1 if "--set" in arguments else 2)
    error = capsys.readouterr().err
    assert complaint in error
    assert error.count("\n") == 1
