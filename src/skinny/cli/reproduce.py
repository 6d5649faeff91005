"""`skinny reproduce`: the paper's tables and figures, and the baselines, as one command each."""

from dataclasses import dataclass
from pathlib import Path

import tyro

from skinny.cli import grid_progress
from skinny.cli.command_line import UsageError, parse, take_name
from skinny.cli.sweep import Workers
from skinny.experiments import catalog, tuning
from skinny.experiments.command import train_command
from skinny.experiments.experiment import Experiment
from skinny.experiments.report import write_report
from skinny.experiments.reproduce import first_configs, later_configs, reproduce
from skinny.experiments.settings import Scale, default_seeds
from skinny.experiments.study import from_experiment


@dataclass(frozen=True)
class Reproduce:
    """Train everything an experiment needs, and write its report.

    Running the same command again trains what is missing and writes the report anew.

    Example: skinny reproduce figure1 --scale smoke
    """

    workers: tyro.conf.OmitArgPrefixes[Workers]
    scale: Scale = "small"
    """paper: its full setting, for GPUs; small: real data, two cores; smoke: digits, a minute."""
    data: str = "cifar10"
    """What experiments that are not a table are made on: cifar10, cifar100, mnist, digits, ..."""
    seeds: tuple[int, ...] = ()
    """Every arm is trained with each of these; else as many as the scale asks for."""
    margin: float = 1.0
    """Points of accuracy within which two methods count as equivalent."""
    out: Path | None = None
    """Where the report goes; else reports/EXPERIMENT-SCALE."""
    plan: bool = False
    """Print what would be trained, as commands, and train nothing."""


def main(argv: list[str]) -> int:
    names = (*catalog.names(), "all")
    name = take_name(argv, "experiment", names)
    described = "\n".join(f"  {each}: {catalog.describe(each)}" for each in catalog.names())
    arguments = parse(
        Reproduce,
        argv if name or argv else ["--help"],
        f"skinny reproduce {name or 'EXPERIMENT'}",
        default=Reproduce(Workers()),
        epilogue=f"Experiments:\n{described}\n  all: every one of these.",
        first_words=() if name else names,
    )
    if name is None:
        raise UsageError(
            f"say which experiment: skinny reproduce EXPERIMENT, of {', '.join(names)}"
        )
    return run(name, arguments)


def run(name: str, arguments: Reproduce) -> int:
    wanted = catalog.names() if name == "all" else (name,)
    experiments = []
    for each in wanted:
        made = catalog.experiment(each, arguments.data, arguments.scale)
        data = catalog.FIXED_DATA.get(each, arguments.data)
        seeds = arguments.seeds or made.seeds or default_seeds(data, arguments.scale)
        experiments.append((made, seeds))
    if arguments.plan:
        for experiment, seeds in experiments:
            _print_plan(experiment, seeds)
        return 0
    workers = arguments.workers
    store = workers.store()
    total = len(first_configs(experiments)) + len(later_configs(experiments))
    with grid_progress.choose(total, quiet=workers.quiet) as tell:
        outcomes = reproduce(
            experiments,
            store,
            executor=workers.make(),
            tell=tell,
            data_dir=workers.data,
            check_data=workers.executor != "ray",
        )
    studies = [
        study
        for experiment, seeds in experiments
        for study in from_experiment(experiment, seeds, store)
    ]
    out = arguments.out or Path("reports") / f"{name}-{arguments.scale}"
    page = write_report(studies, out, margin=arguments.margin, scale=arguments.scale)
    if not workers.quiet:
        print(f"the report is {page}")
    return grid_progress.conclude(outcomes)


def _print_plan(experiment: Experiment, seeds: tuple[int, ...]) -> None:
    configs = first_configs([(experiment, seeds)]) + later_configs([(experiment, seeds)])
    epochs = sum(config.epochs for config in configs)
    print(f"# {experiment.title}: {len(configs)} runs, {epochs:,} epochs")
    for panel in experiment.panels:
        print(f"# {panel.title}; seeds {' '.join(map(str, panel.seeded(seeds)))}")
        for arm in panel.arms:
            if arm.greedy:
                print(f"# {arm.label}: its layers are searched first, by this command alone")
            elif arm.candidates:
                for trial in tuning.trials(arm):
                    print(f"{train_command(trial)}  # {arm.label}, to choose its settings")
                print(f"# {arm.label}: with the best of these, by this command alone")
            else:
                print(f"{train_command(arm.seeded(seeds[0]))}  # {arm.label}")
