"""Settings chosen for each arm of its own, by held-out images: the same grid for everyone."""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from skinny.experiments.experiment import Arm
from skinny.experiments.grid import canonical
from skinny.training import Config, RunFolder

_SEED = 100  # of no experiment
_HELD_OUT = 5000  # images beside those that are trained on
_HELD_OUT_DIGITS = 300


def tuned(arm: Arm, grid: Mapping[str, Sequence[Any]]) -> Arm:
    """The arm, to be tried first with every combination of the fields of `grid`."""
    combinations = itertools.product(*grid.values())
    made = (dict(zip(grid, values, strict=True)) for values in combinations)
    return replace(arm, candidates=tuple(replace(arm.config, **each) for each in made))


def trials(arm: Arm) -> list[Config]:
    """What is trained to choose among the candidates, in their order; judged by held-out images."""
    size = _HELD_OUT_DIGITS if arm.config.data == "digits" else _HELD_OUT
    return [
        canonical(replace(candidate, seed=_SEED, val_size=size)) for candidate in arm.candidates
    ]


def best(arm: Arm, runs: Path) -> Config | None:
    """The candidate that was most accurate; None while no trial is finished.

    Of equals the first. A trial that failed, since its loss became infinite, is out.
    """
    accuracies: dict[Config, float] = {}
    for candidate, trial in zip(arm.candidates, trials(arm), strict=True):
        if (result := RunFolder(runs / trial.run_name).result()) is not None:
            accuracies[candidate] = result["test_accuracy"]
    return max(accuracies, key=accuracies.__getitem__, default=None)
