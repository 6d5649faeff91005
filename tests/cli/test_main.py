import dataclasses
import json
import subprocess
import sys

import pytest

from skinny import __version__
from skinny.cli import train
from skinny.cli.main import _COMMANDS, main
from skinny.experiments.job import Outcome
from skinny.experiments.sweep import Serial
from skinny.training import Config, recipe

pytestmark = pytest.mark.usefixtures("graphs_taken_once")
TINY = [
    "--epochs", "2", "--dense", "1", "--sparse", "1", "--train-size", "60", "--width", "0.25",
]  # fmt: skip


@pytest.fixture
def no_figures(monkeypatch):
    """Drawing takes longer than these trainings; that `train` does it is tested once."""
    monkeypatch.setattr("skinny.training.figures.draw", lambda folder: [])


def test_without_a_command_it_explains_itself(capsys):
    assert main([]) == 0
    shown = capsys.readouterr().out
    assert all(f"  {command} " in shown for command in _COMMANDS)


def test_version(capsys):
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"skinny {__version__}\n"


@pytest.mark.parametrize("command", _COMMANDS)
def test_every_command_has_help_with_an_example(command, capsys):
    with pytest.raises(SystemExit) as end:
        main([command, "--help"])
    assert end.value.code == 0
    shown = capsys.readouterr().out
    assert f"Example: skinny {command}" in " ".join(shown.split())
    assert "\n\n\n" not in shown
    assert "\n    Example" not in shown  # the docstring's indentation is not part of the text
    assert "--no-json" not in shown


def test_an_unknown_command_is_bad_usage(capsys):
    assert main(["trian"]) == 2
    assert "there is no command 'trian'; there are train" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "code", "complaint"),
    [
        (["train", "nosuch"], 2, "there is no recipe 'nosuch'; there are demo"),
        (["sweep", "nosuch"], 2, "there is no recipe 'nosuch'; there are demo"),
        (["reproduce", "nosuch"], 2, "there is no experiment 'nosuch'; there are table1"),
        (["reproduce", "--plan"], 2, "say which experiment"),
        (["train", "--baseline", "demo"], 2, "demo must come before the flags: skinny train demo"),
        (["sweep", "--seeds", "0", "--plan", "demo"], 2, "demo must come before the flags"),
        (["train", "demo", "--sparsity", "1.5"], 1, "sparsity is 1.5, but must lie in [0, 1)"),
        (["train", "demo", "--epochs", "3"], 1, "too short for one cycle"),
        (["train", "demo", "--threads", "0"], 1, "threads is 0"),
        (["eval", "nosuch"], 1, "nosuch is not a run folder"),
    ],
)
def test_a_mistake_is_one_line_on_stderr(arguments, code, complaint, capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    assert main(arguments) == code
    error = capsys.readouterr().err
    assert error.startswith("skinny: ")
    assert error.count("\n") == 1
    assert complaint in error


def test_train_without_any_word_trains_the_default_config(monkeypatch):
    given = []
    monkeypatch.setattr(train, "run", lambda arguments: given.append(arguments.config) or 0)
    assert main(["train"]) == 0
    assert given == [Config()]


def test_a_recipes_name_may_be_the_value_of_a_flag(capsys):
    assert main(["train", "--name", "demo", "--plan"]) == 0
    assert '"name": "demo"' in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "usage"),
    [
        (["train"], "usage: skinny train [RECIPE] [-h] [OPTIONS]"),
        (["train", "demo"], "usage: skinny train demo [-h] [OPTIONS]"),
        (["sweep"], "usage: skinny sweep [RECIPE] [-h] [OPTIONS]"),
        (["reproduce"], "usage: skinny reproduce EXPERIMENT [-h] [OPTIONS]"),
    ],
)
def test_the_usage_line_shows_where_a_name_goes(words, usage, capsys):
    with pytest.raises(SystemExit):
        main([*words, "--help"])
    assert capsys.readouterr().out.startswith(usage + "\n")


def test_bad_flags_are_bad_usage():
    with pytest.raises(SystemExit) as end:
        main(["train", "demo", "--epochs", "many"])
    assert end.value.code == 2


def test_debug_shows_the_traceback():
    command = [sys.executable, "-m", "skinny.cli.main", "train", "nosuch", "--debug"]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert run.returncode == 1
    assert "Traceback" in run.stderr


def test_a_warning_is_one_line_on_stderr(tmp_path):
    """In a process of its own, where warnings are told as users see them."""
    (tmp_path / "mine.py").write_text(
        "import warnings\n"
        "from torch import nn\n"
        "def empty(classes, channels, image_size):\n"
        "    warnings.warn('this is\\nodd')\n"
        "    return nn.Sequential()\n"
    )
    command = [sys.executable, "-m", "skinny.cli.main", "train", "demo", "--model", "mine:empty"]
    run = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert run.stderr.splitlines() == [
        "skinny: this is odd",
        "skinny: the model mine:empty has no trainable parameter",
    ]


def test_train_shows_the_timeline_epochs_and_tables(tmp_path, capsys):
    assert main(["train", "demo", *TINY, "--runs", str(tmp_path), "--baseline"]) == 0
    shown = capsys.readouterr().out
    assert "sdnn: 2 epochs, ends sparse at 90.0%" in shown
    assert "epoch 2/2: sparse 90.0%" in shown
    assert "test accuracy" in shown
    assert "dense" in shown
    assert "conv1" in shown
    assert len(list(tmp_path.iterdir())) == 2  # the run and its baseline
    for folder in tmp_path.iterdir():
        assert (folder / "figures" / "learning-curves.png").exists()
    assert main(["train", "demo", *TINY, "--runs", str(tmp_path)]) == 0
    assert "is finished already" in capsys.readouterr().out
    (run,) = [f for f in tmp_path.iterdir() if "sdnn" in (f / "config.json").read_text()]
    assert main(["eval", str(run), "--json"]) == 0
    again = json.loads(capsys.readouterr().out)
    result = json.loads((run / "result.json").read_text())
    assert again["accuracy"] == result["test_accuracy"]


def test_json_is_one_object_a_line(tmp_path, capsys, no_figures):
    assert main(["train", "demo", *TINY, "--runs", str(tmp_path), "--json"]) == 0
    *epochs, last = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [record["epoch"] for record in epochs] == [0, 1]
    assert last["result"]["test_accuracy"] == epochs[-1]["test_accuracy"]


def test_quiet_says_nothing(tmp_path, capsys, no_figures):
    assert main(["train", "demo", *TINY, "--runs", str(tmp_path), "--quiet"]) == 0
    assert capsys.readouterr() == ("", "")


def test_plan_trains_nothing(tmp_path, capsys):
    assert main(["train", "cifar10-paper", "--plan", "--runs", str(tmp_path / "runs")]) == 0
    assert "331" not in (shown := capsys.readouterr().out)
    assert "181-330  sparse  50.0%" in shown
    assert not (tmp_path / "runs").exists()


def test_a_users_model_is_trained(tmp_path, capsys, monkeypatch, no_figures):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(
        "from torch import nn\n"
        "def tiny(classes, channels, image_size):\n"
        "    h, w = image_size\n"
        "    return nn.Sequential(nn.Flatten(), nn.Linear(channels * h * w, classes))\n"
    )
    command = [
        "train", "demo", "--model", "mine:tiny", *TINY[:-2],
    ]  # fmt: skip
    assert main(command) == 0
    assert "640" in capsys.readouterr().out
    command[2:4] = ["--model=mine:tiny"]
    assert main(command) == 0
    assert "finished already" in capsys.readouterr().out


def test_a_run_folder_decides_no_code_that_runs(tmp_path, capsys, monkeypatch, no_figures):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "theirs.py").write_text(
        "import pathlib\n"
        "from torch import nn\n"
        "pathlib.Path('has run').touch()\n"
        "def tiny(classes, channels, image_size):\n"
        "    h, w = image_size\n"
        "    return nn.Sequential(nn.Flatten(), nn.Linear(channels * h * w, classes))\n"
    )
    train = ["train", "demo", "--model", "theirs:tiny", "--epochs", "2", "--dense", "1"]
    assert main([*train, "--sparse", "1", "--quiet"]) == 0
    (run,) = (tmp_path / "runs").iterdir()
    (tmp_path / "has run").unlink()
    sys.modules.pop("theirs")
    for command in (["eval", str(run)], ["pack", str(run), "again.skinny"]):
        assert main(command) == 1
        assert "say so with --model theirs:tiny" in capsys.readouterr().err
        assert main([*command, "--model", "nin-digits"]) == 1
        assert "trained with the model theirs:tiny" in capsys.readouterr().err
        assert not (tmp_path / "has run").exists()
    assert main(["eval", str(run), "--model", "theirs:tiny"]) == 0
    assert main(["pack", str(run), "again.skinny", "--model", "theirs:tiny"]) == 0
    assert (tmp_path / "has run").exists()


def test_demo_compares_over_three_seeds(tmp_path, capsys, monkeypatch):
    small = dataclasses.replace(recipe("demo"), train_size=60, test_size=60, width=0.25)
    monkeypatch.setattr("skinny.cli.demo.recipe", lambda name: small)
    monkeypatch.setattr("skinny.cli.demo.Processes", Serial)
    assert main(["demo", "--runs", str(tmp_path), "--epochs", "12"]) == 0
    shown = capsys.readouterr().out
    assert "9/9" in shown
    assert "SDNN 90%" in shown
    assert "points against dense" in shown
    assert (tmp_path / "demo.png").read_bytes().startswith(b"\x89PNG")
    assert main(["demo", "--runs", str(tmp_path), "--epochs", "12"]) == 0
    assert capsys.readouterr().out.count("already trained") == 9


def test_a_demo_that_fails_names_the_runs(tmp_path, capsys, monkeypatch):
    def failing():
        return lambda jobs, tell: [tell(Outcome(job, "failed", error="odd")) for job in jobs]

    monkeypatch.setattr("skinny.cli.demo.Processes", failing)
    assert main(["demo", "--runs", str(tmp_path)]) == 1
    assert "9 of 9 runs failed" in capsys.readouterr().err
