"""The smoke scale of every experiment, end to end, on digits."""

import json
import os
import re
import shutil
from pathlib import Path

import filelock
import pytest

from skinny.cli.main import main
from skinny.experiments import catalog
from skinny.experiments.greedy import held_out
from skinny.experiments.job import Searching
from skinny.experiments.records import record_runs
from skinny.experiments.reproduce import first_configs, later_configs, reproduce
from skinny.experiments.store import Store
from skinny.experiments.study import from_experiment
from skinny.experiments.sweep import Serial

ROOT = Path(__file__).parents[2]
EXPERIMENTS = [(catalog.experiment(name, "cifar10", "smoke"), (0,)) for name in catalog.names()]


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """All experiments with one seed: every distinct run once, for all processes of pytest-xdist."""
    folder = tmp_path_factory.mktemp("runs")
    if "PYTEST_XDIST_WORKER" in os.environ:
        folder = tmp_path_factory.getbasetemp().parent / "smoke-runs"
        folder.mkdir(exist_ok=True)
    with filelock.FileLock(folder / ".tests.lock"):
        outcomes = reproduce(EXPERIMENTS, Store(folder), executor=Serial())
    assert [outcome for outcome in outcomes if outcome.status == "failed"] == []
    assert len(outcomes) == len(first_configs(EXPERIMENTS)) + len(later_configs(EXPERIMENTS))
    return folder


@pytest.mark.parametrize("experiment", [made for made, _ in EXPERIMENTS], ids=lambda e: e.name)
def test_every_arm_of_every_experiment_is_trained(runs, experiment):
    for study in from_experiment(experiment, (0,), Store(runs)):
        for arm in study.arms:
            assert (len(arm.runs), arm.missing) == (1, 0), arm.label
            if arm.config.method not in ("dense", "dsd"):
                kept = arm.runs[0].kept / arm.runs[0].size
                assert kept == pytest.approx(1 - arm.config.sparsity, abs=0.02)


def test_running_it_again_trains_nothing(runs):
    def never(jobs, tell):
        raise AssertionError(f"{len(jobs)} runs would be trained again")

    told = []
    outcomes = reproduce(EXPERIMENTS, Store(runs), executor=never, tell=told.append)
    assert {outcome.status for outcome in outcomes} == {"already trained"}
    assert told == outcomes  # and nothing is searched again


@pytest.fixture(scope="module")
def recorded(runs, tmp_path_factory):
    """The records of all these runs, and nothing else of them."""
    file = tmp_path_factory.mktemp("records") / "smoke.jsonl"
    folders = [path.parent for path in runs.glob("*/config.json")]
    added, unfinished = record_runs(folders, file)
    assert (added, unfinished) == (len(folders), [])
    return file


def test_from_records_alone_nothing_is_trained_and_the_studies_are_the_same(
    runs, recorded, tmp_path
):
    def never(jobs, tell):
        raise AssertionError(f"{len(jobs)} runs would be trained again")

    store = Store.open(tmp_path, [recorded])
    outcomes = reproduce(EXPERIMENTS, store, executor=never)
    assert {outcome.status for outcome in outcomes} == {"already trained"}
    for experiment, seeds in EXPERIMENTS:
        kept = from_experiment(experiment, seeds, store)
        whole = from_experiment(experiment, seeds, Store(runs))
        for one, other in zip(kept, whole, strict=True):
            assert [arm.values("top1") for arm in one.arms] == [
                arm.values("top1") for arm in other.arms
            ]


def test_a_search_trains_the_run_it_starts_from_if_its_weights_are_gone(recorded, tmp_path):
    lines = [json.loads(line) for line in recorded.read_text().splitlines()]
    assert sum("greedy" in line for line in lines) == 1
    for line in lines:
        line.pop("greedy", None)
    file = tmp_path / "without.jsonl"
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    made = [(catalog.experiment("baselines", "cifar10", "smoke"), (0,))]
    outcomes = reproduce(made, Store.open(tmp_path / "runs", [file]), executor=Serial())
    trained = [outcome.job.config for outcome in outcomes if outcome.status == "trained"]
    (config,) = later_configs(made)
    assert trained == [held_out(config), config]  # of the second, the layers were not known


def test_a_search_is_announced(runs, tmp_path):
    made = [(catalog.experiment("baselines", "cifar10", "smoke"), (0,))]
    (config,) = later_configs(made)
    copy = shutil.copytree(runs, tmp_path / "runs")
    (copy / held_out(config).run_name / f"greedy-{config.sparsity:g}.json").unlink()
    told = []
    reproduce(made, Store(copy), executor=Serial(), tell=told.append)
    (announced,) = [event for event in told if isinstance(event, Searching)]
    assert announced.job.config == config


def test_single_steps_threshold_far_more_often_than_spans(runs):
    (study,) = from_experiment(catalog.experiment("figure2", "cifar10", "smoke"), (0,), Store(runs))
    counts = {
        arm.label: sum(len(record["mask_updates"]) for record in arm.runs[0].metrics)
        for arm in study.arms
    }
    assert counts["dense"] == 0
    assert counts["single-step"] > 4 * counts["multi-step"] > 0


def test_the_greedy_arm_has_layers_of_its_own_and_the_same_budget(runs):
    (study,) = from_experiment(
        catalog.experiment("baselines", "cifar10", "smoke"), (0,), Store(runs)
    )
    arms = {arm.label: arm for arm in study.arms}
    greedy, oneshot = arms["greedy layer search"], arms["one-shot pruning"]
    assert greedy.config.layers
    assert greedy.runs[0].kept == pytest.approx(oneshot.runs[0].kept, rel=0.02)
    assert greedy.runs[0].result["weights"] != oneshot.runs[0].result["weights"]


def test_the_command_reports_and_a_second_seed_is_all_it_adds(runs, tmp_path, capsys):
    argv = ["reproduce", "random", "--scale", "smoke", "--executor", "serial"]
    argv += ["--runs", str(runs), "--out", str(tmp_path), "--seeds", "0", "1"]
    assert main(argv) == 0
    out = capsys.readouterr().out
    assert out.count("already trained,") == 3
    assert out.count(": trained,") == 3
    assert f"the report is {tmp_path / 'report.html'}" in out
    page = (tmp_path / "report.html").read_text()
    assert "random thresholding" in page
    assert "smoke scale" in page


def test_a_plan_is_commands_and_trains_nothing(tmp_path, capsys):
    assert main(["reproduce", "all", "--scale", "paper", "--plan", "--runs", str(tmp_path)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "skinny train cifar10-paper  # SDNN-2x" in lines
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("scale", ["smoke", "small", "paper"])
def test_the_document_says_what_the_plan_says(capsys, scale):
    document = (ROOT / "docs" / "experiments.md").read_text("utf-8")
    main(["reproduce", "all", "--scale", scale, "--plan"])
    plan = capsys.readouterr().out
    if scale == "paper":
        assert plan in document
    column = ["smoke", "small", "paper"].index(scale) + 3
    totals = re.findall(r"^# .*: (\d+) runs, ([\d,]+) epochs$", plan, re.MULTILINE)
    rows = re.findall(r"^\| `skinny reproduce (\w+)` .*$", document, re.MULTILINE)
    assert tuple(rows) == catalog.names()
    for name, (runs, epochs) in zip(catalog.names(), totals, strict=True):
        (row,) = re.findall(rf"^\| `skinny reproduce {name}` .*$", document, re.MULTILINE)
        assert row.split("|")[column].strip() == f"{runs} / {epochs}"


def test_a_failed_search_is_reported_and_the_rest_goes_on(runs, tmp_path):
    """What an earlier search found is damaged."""
    made = [(catalog.experiment("baselines", "cifar10", "smoke"), (0,))]
    (config,) = later_configs(made)
    copy = shutil.copytree(runs, tmp_path / "runs")
    start = copy / held_out(config).run_name
    (start / f"greedy-{config.sparsity:g}.json").write_text("[1]")
    outcomes = reproduce(made, Store(copy), executor=Serial())
    assert [outcome.status for outcome in outcomes].count("failed") == 1
    assert "search failed" in outcomes[-1].error


def test_the_report_says_which_settings_were_chosen(runs):
    (study,) = from_experiment(catalog.experiment("tuned", "cifar10", "smoke"), (0,), Store(runs))
    assert re.search(r"Chosen were: dense: lr [\d.]+; SDNN-10x: lr [\d.]+; .*\.$", study.note)
    assert study.against == "dense"


def test_without_all_trials_nothing_is_chosen_and_the_rest_goes_on(runs, tmp_path):
    made = [(catalog.experiment("tuned", "cifar10", "smoke"), (0,))]
    copy = shutil.copytree(runs, tmp_path / "runs")
    trial = first_configs(made)[0]
    (copy / trial.run_name / "result.json").write_text("{")
    outcomes = reproduce(made, Store(copy), executor=Serial())
    statuses = [outcome.status for outcome in outcomes]
    assert statuses.count("failed") == 2  # the trial, and what waits for it
    assert statuses.count("already trained") == len(outcomes) - 2
    assert "could not be chosen" in next(o.error for o in reversed(outcomes) if o.error)


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [(["table9"], "there is no experiment 'table9'"), (["figure1", "--data", "x"], "no setting")],
)
def test_bad_usage_is_one_line(capsys, arguments, complaint):
    code = main(["reproduce", *arguments])
    assert code == (2 if "there is no experiment" in complaint else 1)
    assert complaint in capsys.readouterr().err
