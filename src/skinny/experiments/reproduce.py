"""Running experiments: all their arms, for all seeds, and the searches and trials before them."""

import contextlib
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from skinny.errors import SkinnyError
from skinny.experiments import greedy, tuning
from skinny.experiments.experiment import Arm, Experiment
from skinny.experiments.job import Executor, Job, Outcome, Tell
from skinny.experiments.store import Store
from skinny.experiments.sweep import sweep
from skinny.training import Config
from skinny.training.config import canonical

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
    store: Store,
    *,
    executor: Executor,
    tell: Tell = lambda event: None,
    data_dir: str | None = None,
    check_data: bool = True,
) -> list[Outcome]:
    """Train what the store lacks of the experiments, and say how each run ended."""
    train = partial(sweep, executor=executor, tell=tell, check_data=check_data, data_dir=data_dir)
    # a search needs the weights of the run that it starts from, and a record has none
    searches = [arm.seeded(seed) for arm, seed in _arms(wanted) if arm.greedy]
    found = {config: _found_rules(store, config) for config in searches}
    with_weights = {greedy.held_out(config) for config, rules in found.items() if rules is None}
    first = first_configs(wanted)
    outcomes = train([config for config in first if config not in with_weights], store)
    outcomes += train([config for config in first if config in with_weights], Store(store.folder))
    tuned: list[Config] = []
    for arm, seed in _arms(wanted):
        if arm.candidates and (chosen := final_config(arm, seed, store)) is not None:
            tuned.append(chosen)
        elif arm.candidates:
            job = Job(arm.seeded(seed), store.folder / f"{arm.config.name}-to-be-chosen")
            outcomes.append(Outcome(job, "failed", error="its settings could not be chosen"))
            tell(outcomes[-1])
    outcomes += train(tuned, store)
    starts = {
        config: store.path(greedy.held_out(config))
        for config, rules in found.items()
        if rules is None
    }
    searched = [
        config if rules is None else replace(config, layers=rules)
        for config, rules in found.items()
    ]
    return outcomes + train(searched, store, starts=starts)


def _found_rules(store: Store, config: Config) -> tuple[str, ...] | None:
    with contextlib.suppress(SkinnyError):  # a damaged file, which the job meets and reports
        return store.greedy_rules(greedy.held_out(config), config.sparsity)
    return None


def final_config(arm: Arm, seed: int, store: Store) -> Config | None:
    """The config of an arm's run; None while the search or the trials it depends on are missing."""
    if arm.candidates:
        chosen = tuning.best(arm, store)
        return None if chosen is None else canonical(replace(chosen, seed=seed))
    config = arm.seeded(seed)
    if not arm.greedy:
        return config
    found = store.greedy_rules(greedy.held_out(config), config.sparsity)
    return None if found is None else replace(config, layers=found)


def _arms(wanted: Wanted) -> list[tuple[Arm, int]]:
    return list(
        dict.fromkeys(
            (arm, seed)
            for experiment, seeds in wanted
            for panel in experiment.panels
            for seed in panel.seeded(seeds)  # so that one that is cut short has whole pairs
            for arm in panel.arms
        )
    )
