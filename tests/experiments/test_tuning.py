from dataclasses import replace

from skinny.experiments import tuning
from skinny.experiments.experiment import Arm
from skinny.experiments.settings import default_seeds
from skinny.experiments.store import Store
from skinny.training import Config, RunFolder

BASE = Config(method="sdnn", sparsity=0.9, lr=0.1, weight_decay=0.01)
GRID = {"lr": (0.1, 0.2), "weight_decay": (0.01, 0.001)}
ARM = tuning.tuned(Arm("SDNN-10x", BASE), GRID)


def finish(runs, trial, accuracy):
    folder = runs / trial.run_name
    folder.mkdir()
    others = dict.fromkeys(("weights", "bytes", "test_images", "test_errors", "classes"))
    RunFolder(folder).write_result({"test_accuracy": accuracy, **others})


def test_an_arm_is_tried_with_every_combination_of_the_grid():
    assert ARM.config == BASE
    tried = [(candidate.lr, candidate.weight_decay) for candidate in ARM.candidates]
    assert tried == [(0.1, 0.01), (0.1, 0.001), (0.2, 0.01), (0.2, 0.001)]
    assert {replace(candidate, lr=0.1, weight_decay=0.01) for candidate in ARM.candidates} == {BASE}


def test_trials_look_at_no_test_image_and_at_no_seed_of_an_experiment():
    trials = tuning.trials(ARM)
    assert len({trial.run_name for trial in trials}) == 4
    for trial in trials:
        assert trial.val_size == 300
        assert trial.seed not in default_seeds("digits", "small")
    large = tuning.tuned(Arm("SDNN-10x", replace(BASE, data="mnist", train_size=1000)), GRID)
    assert {trial.val_size for trial in tuning.trials(large)} == {5000}


def test_the_most_accurate_is_taken_and_of_equals_the_first(tmp_path):
    for trial, accuracy in zip(tuning.trials(ARM), (0.4, 0.5, 0.5, 0.3), strict=True):
        assert tuning.best(ARM, Store(tmp_path)) is None  # until all have been tried
        finish(tmp_path, trial, accuracy)
    assert tuning.best(ARM, Store(tmp_path)) == ARM.candidates[1]


def test_a_trial_that_diverged_is_out(tmp_path):
    first, *others = tuning.trials(ARM)
    (tmp_path / first.run_name).mkdir()
    RunFolder(tmp_path / first.run_name).write_diverged("the loss became nan")
    for trial in others:
        finish(tmp_path, trial, 0.1)
    assert tuning.best(ARM, Store(tmp_path)) == ARM.candidates[1]


def test_nothing_is_chosen_by_a_damaged_record(tmp_path):
    for trial in tuning.trials(ARM):
        finish(tmp_path, trial, 0.1)
    (tmp_path / trial.run_name / "result.json").write_text("{")
    assert tuning.best(ARM, Store(tmp_path)) is None
