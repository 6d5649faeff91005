import json
import shutil
from pathlib import Path

import pytest

from skinny.errors import SkinnyError
from skinny.experiments.runs import find_runs, read_run
from skinny.experiments.store import Store
from skinny.experiments.sweep import Serial, sweep


@pytest.fixture(scope="module")
def trained(tmp_path_factory, tiny):
    runs = tmp_path_factory.mktemp("runs")
    sweep([tiny], Store(runs), executor=Serial())
    return runs / tiny.run_name


@pytest.fixture
def finished(tmp_path, trained):
    """A copy to be damaged."""
    return Path(shutil.copytree(trained, tmp_path / trained.name))


def test_runs_are_found_by_their_folder_or_the_one_above(finished):
    for given in ([finished], [finished.parent], [finished, finished.parent]):
        runs, unfinished = find_runs(given)
        assert [run.folder.path for run in runs] == [finished]
        assert unfinished == []
    assert runs[0].kept < runs[0].size


def test_the_packed_file_is_what_counts_on_disk_or_what_was_recorded_of_it(finished):
    run = read_run(finished)
    assert run.packed_bytes == (finished / "model.skinny").stat().st_size
    (finished / "model.skinny").unlink()
    assert read_run(finished).packed_bytes == run.packed_bytes


def test_an_unfinished_run_is_named_and_passed_over(finished):
    (finished / "result.json").unlink()
    assert find_runs([finished.parent]) == ([], [finished])


def test_folders_without_runs_say_so(tmp_path):
    with pytest.raises(SkinnyError, match="there is no folder"):
        find_runs([tmp_path / "nothing"])
    with pytest.raises(SkinnyError, match="no run folder, and there is none below"):
        find_runs([tmp_path])


@pytest.mark.parametrize(
    "damage",
    [
        {"test_accuracy": None},
        {"test_accuracy": 7},
        {"classes": "ten"},
        {"test_errors": [1]},
        {"test_images": ["x"] * 10},
        {"weights": {}},
        {"weights": {"a": 3}},
        {"weights": {"a": {"size": 1, "kept": 2}}},
        {"weights": []},
        {"parameters": "many"},
        {"bytes": {"packed": "few"}},
        {"bytes": {}},
    ],
    ids=str,
)
def test_a_damaged_result_is_one_sentence_that_names_the_file(finished, damage):
    file = finished / "result.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | damage))
    with pytest.raises(SkinnyError, match=r"result\.json is damaged"):
        read_run(finished)


def test_damaged_metrics_are_one_sentence(finished):
    (finished / "metrics.jsonl").write_text('{"epoch": 0, "phase": "dense"}\n')
    with pytest.raises(
        SkinnyError, match=r"metrics\.jsonl is damaged: it has 0 whole records of 2"
    ):
        read_run(finished)
