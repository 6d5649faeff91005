from dataclasses import replace

from skinny.experiments import tuning
from skinny.experiments.experiment import Arm
from skinny.training import Config, RunFolder

BASE = Config(method="sdnn", sparsity=0.9, lr=0.1, weight_decay=0.01, val_size=None)
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
        assert trial.val_size
        assert trial.seed >= 100


def test_the_most_accurate_is_taken_and_of_equals_the_first(tmp_path):
    trials = tuning.trials(ARM)
    assert tuning.best(ARM, tmp_path) is None
    finish(tmp_path, trials[2], 0.5)
    assert tuning.best(ARM, tmp_path) == ARM.candidates[2]
    finish(tmp_path, trials[0], 0.4)
    assert tuning.best(ARM, tmp_path) == ARM.candidates[2]
    finish(tmp_path, trials[1], 0.5)
    assert tuning.best(ARM, tmp_path) == ARM.candidates[1]
    finish(tmp_path, trials[3], 0.6)
    assert tuning.best(ARM, tmp_path) == ARM.candidates[3]
