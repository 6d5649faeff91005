import dataclasses
import json
import shutil

import pytest

from skinny.cli.main import main
from skinny.errors import SkinnyError
from skinny.experiments.grid import grid
from skinny.experiments.records import read_records, record_runs
from skinny.experiments.runs import read_run
from skinny.experiments.store import Store
from skinny.experiments.sweep import Serial, sweep
from skinny.training import RunFolder
from skinny.training import config as configs


@pytest.fixture(scope="module")
def trained(tmp_path_factory, tiny):
    """Two finished runs, one that diverged and one that was not trained to its end."""
    store = Store(tmp_path_factory.mktemp("runs"))
    made = grid(tiny, {"sparsity": [0.5, 0.8]})
    sweep(made, store, executor=Serial())
    for config, reason in ((dataclasses.replace(tiny, lr=1e9), "the loss became nan"), (tiny, "")):
        folder = RunFolder(store.path(dataclasses.replace(config, seed=9)))
        folder.path.mkdir()
        folder.claim(dataclasses.replace(config, seed=9))
        if reason:
            folder.write_diverged(reason)
    (store.path(made[0]) / "greedy-0.9.json").write_text('{"conv1.weight": 7}')
    return store


@pytest.fixture
def file(trained, tmp_path):
    added, unfinished = record_runs(sorted(trained.folder.iterdir()), tmp_path / "kept.jsonl")
    assert (added, len(unfinished)) == (3, 1)
    return tmp_path / "kept.jsonl"


def test_a_record_holds_what_the_run_folder_held(trained, file, tiny):
    records = read_records(file)
    for config in grid(tiny, {"sparsity": [0.5, 0.8]}):
        record, run = records[configs.identity(config)], read_run(trained.path(config))
        assert record.run == dataclasses.replace(run, folder=None)
        assert record.run.packed_bytes == run.packed_bytes
    lost = dataclasses.replace(tiny, lr=1e9, seed=9)
    assert records[configs.identity(lost)].diverged == "the loss became nan"


def test_runs_are_added_once_and_lines_that_are_there_stay_as_they_are(trained, file, tmp_path):
    before = file.read_bytes()
    folders = sorted(trained.folder.iterdir())
    assert record_runs(folders, file)[0] == 0
    assert file.read_bytes() == before
    other = tmp_path / "other.jsonl"
    for folder in reversed(folders):
        record_runs([folder], other)
    assert sorted(other.read_bytes().splitlines()) == sorted(before.splitlines())
    assert not list(tmp_path.glob("*.tmp"))


def test_recorded_runs_are_not_trained_again_whatever_they_are_called(file, tmp_path, tiny):
    def never(jobs, tell):
        raise AssertionError("there is nothing to do")

    store = Store.open(tmp_path / "empty", [file])
    wanted = [
        *grid(tiny, {"sparsity": [0.5, 0.8], "name": ["renamed"], "eval_every": [2]}),
        dataclasses.replace(tiny, lr=1e9, seed=9),
    ]
    outcomes = sweep(wanted, store, executor=never)
    assert [o.status for o in outcomes] == ["already trained", "already trained", "diverged"]
    assert store.run(wanted[0]).result["test_accuracy"] == outcomes[0].accuracy
    assert store.greedy_rules(wanted[0], 0.9) == ("conv1.weight=7",)
    assert store.greedy_rules(wanted[0], 0.8) is None
    assert store.run(dataclasses.replace(tiny, seed=5)) is None


def test_a_folder_comes_before_a_record(trained, file, tmp_path, tiny):
    copy = shutil.copytree(trained.path(tiny), tmp_path / "runs" / tiny.run_name)
    result = json.loads((copy / "result.json").read_text()) | {"test_accuracy": 0.125}
    (copy / "result.json").write_text(json.dumps(result))
    store = Store.open(tmp_path / "runs", [file])
    assert store.result(tiny)["test_accuracy"] == 0.125
    assert store.run(tiny).result["test_accuracy"] == 0.125


def change(**changes):
    def made(line):
        kept = json.loads(line)
        for name, value in changes.items():
            inner = kept
            *above, last = name.split("__")
            for key in above:
                inner = inner[int(key) if key.isdigit() else key]
            inner[last] = value
        return json.dumps(kept) + "\n"

    return made


@pytest.mark.parametrize(
    ("damage", "complaint"),
    [
        (lambda line: line[:-1], "cut off"),
        (lambda line: line[: len(line) // 2] + "\n", "Expecting|Unterminated|Invalid"),
        (lambda line: "[" * 100_000 + "\n", "nested too deeply"),
        (lambda line: "[]\n", "no record of a run"),
        (lambda line: '{"config": 3}\n', "it holds no fields"),
        (lambda line: "\xff\n", "Expecting|decode"),
        (lambda line: line + line, "twice"),
        (change(config__epochs=-1), "epochs is -1"),
        (change(config__magic=1), "it has magic"),
        (change(result=None), "TypeError"),
        (change(result__test_accuracy=2), "test_accuracy is 2"),
        (change(result__weights={}), "no weights"),
        (change(metrics=[]), "0 whole records of 2 epochs"),
        (change(metrics={}), "no list of epochs"),
        (change(metrics=[1, 2]), "no list of epochs"),
        (change(metrics__0__train_accuracy="high"), "'high' in epoch 1 is no share"),
        (change(metrics__1__mask_updates=[3]), "mask updates of epoch 2"),
        (change(metrics__1__mask_updates=[{"change_ratio": 2}]), "2 in epoch 2 is no share"),
        (change(result__versions=[1]), "versions"),
        (change(config__dropout={}), "dropout is {}"),
        (change(greedy=[]), "search of layers"),
        (change(greedy={"0.9": {"a": "many"}}), "invalid literal"),
    ],
)
def test_a_damaged_line_is_named_and_nothing_is_added_to_its_file(file, trained, damage, complaint):
    whole = file.read_text("utf-8").splitlines(keepends=True)
    file.write_text(damage(next(line for line in whole if '"result"' in line)), "utf-8")
    damaged, number = file.read_bytes(), 2 if complaint == "twice" else 1
    with pytest.raises(
        SkinnyError, match=rf"kept.jsonl, line {number} is damaged: .*({complaint})"
    ):
        read_records(file)
    with pytest.raises(SkinnyError, match="is damaged"):
        record_runs(trained.folder.iterdir(), file)
    assert file.read_bytes() == damaged


def test_the_command_records_and_the_others_find_what_it_recorded(trained, tmp_path, capsys):
    kept = tmp_path / "kept.jsonl"
    for line in ("3 runs added, 0 known, 1 not finished", "0 runs added, 3 known, 1 not finished"):
        assert main(["record", str(trained.folder), "--into", str(kept)]) == 0
        assert capsys.readouterr().out == f"{kept}: {line}\n"
    argv = [
        "--set",
        "train_size=60",
        "--set",
        "width=0.125",
        "--set",
        "epochs=2",
        "--set",
        "lr=0.05",
    ]
    argv += [
        "--set",
        "dense=1",
        "--set",
        "sparse=1",
        "--set",
        "batch_size=32",
        "--set",
        "dropout=none",
    ]
    argv += [
        "--set",
        "weight_decay=0.0001",
        "--set",
        "channels_last=false",
    ]
    argv += ["--set", "sparsity=0.5,0.8", "--runs", str(tmp_path / "runs"), "--records", str(kept)]
    assert main(["sweep", "demo", *argv, "--executor", "serial"]) == 0
    assert capsys.readouterr().out.count("already trained") == 2
    assert main(["report", str(kept), "--out", str(tmp_path / "report")]) == 0
    assert "SDNN-2x" in (tmp_path / "report" / "report.md").read_text()


@pytest.mark.parametrize(
    ("arguments", "code", "complaint"),
    [
        (["--into", "a.jsonl"], 2, "say which runs"),
        (["nowhere", "--into", "a.jsonl"], 1, "there is no folder nowhere"),
    ],
)
def test_bad_usage_of_the_command_is_one_line(
    tmp_path, monkeypatch, capsys, arguments, code, complaint
):
    monkeypatch.chdir(tmp_path)
    assert main(["record", *arguments]) == code
    assert complaint in capsys.readouterr().err
    assert not list(tmp_path.iterdir())
