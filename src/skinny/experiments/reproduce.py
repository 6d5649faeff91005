"""Running experiments: all their arms, for all seeds, and the searches and trials before them."""

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from skinny.errors import SkinnyError
from skinny.experiments import greedy, tuning
from skinny.experiments.experiment import Arm, Experiment
from skinny.experiments.grid import canonical
from skinny.experiments.job import Executor, Job, Outcome, Tell
from skinny.experiments.sweep import sweep
from skinny.training import Config

Wanted = Sequence[tuple[Experiment, Sequence[int]]]  # experiments, each with its seeds


def first_configs(wanted: Wanted) -> list[Config]:
    """What can be trained at once: every arm, for a search the dense run it starts from, and for
    an arm that is tuned its trials."""
    made: dict[Config, None] = {}
    for arm, seed in _arms(wanted):
        if arm.candidates:
            made.update(dict.fromkeys(tuning.trials(arm)))
        else:
            made[greedy.held_out(arm.seeded(seed)) if arm.greedy else arm.seeded(seed)] = None
    return list(made)


def later_configs(wanted: Wanted) -> list[Config]:
    """What waits for a search or for trials, as it is before their outcome is known."""
    return [arm.seeded(seed) for arm, seed in _arms(wanted) if arm.greedy or arm.candidates]


def reproduce(
    wanted: Wanted,
    runs: Path,
    *,
    executor: Executor,
    tell: Tell = lambda event: None,
    data_dir: str | None = None,
    check_data: bool = True,
) -> list[Outcome]:
    """Train what is missing of the experiments below `runs`, and say how each run ended."""

    def train(configs: Sequence[Config], starts: Mapping[Config, Path]) -> list[Outcome]:
        return sweep(
            configs,
            runs,
            executor=executor,
            tell=tell,
            starts=starts,
            check_data=check_data,
            data_dir=data_dir,
        )

    outcomes = train(first_configs(wanted), {})
    tuned: list[Config] = []
    for arm, seed in _arms(wanted):
        if arm.candidates and (chosen := final_config(arm, seed, runs)) is not None:
            tuned.append(chosen)
        elif arm.candidates:
            job = Job(arm.seeded(seed), runs / f"{arm.config.name}-to-be-chosen")
            outcomes.append(Outcome(job, "failed", error="its settings could not be chosen"))
            tell(outcomes[-1])
    outcomes += train(tuned, {})
    searched: list[Config] = []
    starts: dict[Config, Path] = {}
    for config in [arm.seeded(seed) for arm, seed in _arms(wanted) if arm.greedy]:
        start = runs / greedy.held_out(config).run_name
        found = None
        with contextlib.suppress(SkinnyError):  # which the job meets again, and reports
            found = greedy.found_rules(start, config.sparsity)
        if found is None:
            starts[config] = start
        searched.append(config if found is None else replace(config, layers=found))
    return outcomes + train(searched, starts)


def final_config(arm: Arm, seed: int, runs: Path) -> Config | None:
    """The config of an arm's run; None while the search or the trials it depends on are missing."""
    if arm.candidates:
        chosen = tuning.best(arm, runs)
        return None if chosen is None else canonical(replace(chosen, seed=seed))
    config = arm.seeded(seed)
    if not arm.greedy:
        return config
    found = greedy.found_rules(runs / greedy.held_out(config).run_name, config.sparsity)
    return None if found is None else replace(config, layers=found)


def _arms(wanted: Wanted) -> list[tuple[Arm, int]]:
    return list(
        dict.fromkeys(
            (arm, seed)
            for experiment, seeds in wanted
            for panel in experiment.panels
            for arm in panel.arms
            for seed in seeds
        )
    )
