"""Settings chosen for each arm by itself, on held-out images: the same grid for everyone."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from skinny.errors import SkinnyError
from skinny.experiments.experiment import Arm
from skinny.experiments.grid import grid
from skinny.experiments.settings import hold_out_size
from skinny.experiments.store import Store
from skinny.training import Config

_SEED = 100  # no experiment has it unless asked to


def tuned(arm: Arm, axes: Mapping[str, Sequence[float]]) -> Arm:
    """The arm, to be tried first with every combination of the values in `axes`."""
    return replace(arm, candidates=tuple(grid(arm.config, axes)))


def trials(arm: Arm) -> list[Config]:
    """What is trained to choose among the candidates, in their order; judged by held-out images,
    as many as if all training images were used."""
    size = hold_out_size(replace(arm.config, train_size=None))
    return [replace(candidate, seed=_SEED, val_size=size) for candidate in arm.candidates]


def best(arm: Arm, store: Store) -> Config | None:
    """The candidate that was most accurate, of equals the first; None until all have been tried.

    A trial that diverged is over, and out.
    """
    accuracies: dict[Config, float] = {}
    for candidate, trial in zip(arm.candidates, trials(arm), strict=True):
        try:
            result = store.result(trial)
        except SkinnyError:  # a damaged record, which the sweep has reported
            return None
        if result is not None:
            accuracies[candidate] = result["test_accuracy"]
        elif store.diverged(trial) is None:
            return None
    return max(accuracies, key=accuracies.__getitem__, default=None)
