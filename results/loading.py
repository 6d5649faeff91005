"""What the records in this folder hold, as studies: experiments, their seeds and margins."""

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import NamedTuple

from skinny.experiments import catalog, tuning
from skinny.experiments.experiment import Experiment
from skinny.experiments.records import read_records
from skinny.experiments.reproduce import first_configs
from skinny.experiments.runs import Run
from skinny.experiments.store import Store
from skinny.experiments.study import Study, from_experiment, from_runs

RECORDS = Path(__file__).parent / "records"
ANALYSES = ("figure1", "figure2", "progressive", "random", "reinit", "baselines")
RECORD_TABLES = {  # experiments at the scale `paper`: data, files of records, margin in points
    "lenet": ("mnist", ("lenet",), 0.2),
    "protocol": ("mnist", ("lenet", "mnist-small", "cifar10-small"), 0.2),
    "cifar10": ("cifar10", ("cifar10",), 0.5),
}
QUANTISED_MARGIN = 0.3  # points


class Set(NamedTuple):
    """A data set's seeds, the points of accuracy within which two arms count as equivalent, and
    its experiments."""

    seeds: tuple[int, ...]
    margin: float
    experiments: tuple[str, ...]


SETS = {
    "mnist": Set((0, 1, 2, 3, 4), 0.5, ("table3", *ANALYSES)),
    "cifar10": Set((0, 1, 2), 1.5, ("table1", *ANALYSES, "tuned")),
}
NARROW = {"mnist": "MNIST", "cifar10": "CIFAR-10"}  # as words call their data
TABLES = {  # the paper's other tables, at the scale `small`: seeds, margin in points
    "table2": ("cifar100", (0, 1, 2), 1.5),
    "table4": ("imagenette", (0,), 1.5),
}


@cache
def _store(*paths: Path) -> Store:
    """Files of records are long: each is read once."""
    return Store.open(RECORDS, paths)


class Recorded(NamedTuple):
    """An experiment, and what has been run of it."""

    experiment: Experiment
    seeds: tuple[int, ...]
    paths: tuple[Path, ...]  # files of records

    @property
    def studies(self) -> list[Study]:
        return from_experiment(self.experiment, self.seeds, _store(*self.paths))

    @property
    def status(self) -> str:
        """How much of the experiment the records hold, and how many arms have no run."""
        wanted = first_configs([(self.experiment, self.seeds)])
        made = sum(_store(*self.paths).run(config) is not None for config in wanted)
        told = [
            f"{study.title.split(', ', 1)[1]} ({untrained} of {len(study.arms)})"
            for study in self.studies
            if (untrained := sum(not arm.runs for arm in study.arms))
        ]
        missing = f" Arms that have not been trained: {'; '.join(told)}." if told else ""
        return (
            f"Of the {len(wanted)} runs of `skinny reproduce {self.experiment.name}`, the records "
            f"hold {made}; the tables say how many seeds (n) each arm has.{missing}"
        )


def recorded(name: str) -> Recorded:
    """An experiment at the scale `paper`."""
    data, files, _ = RECORD_TABLES[name]
    experiment = catalog.experiment(name, data, "paper")
    assert experiment.seeds is not None
    paths = tuple(RECORDS / f"{file}.jsonl" for file in files)
    return Recorded(experiment, experiment.seeds, paths)


def recorded_table(name: str) -> Recorded:
    """A table of the paper, at the scale `small`."""
    data, seeds, _ = TABLES[name]
    paths = (RECORDS / f"{data}-small.jsonl",)
    return Recorded(catalog.experiment(name, data, "small"), seeds, paths)


def quantised() -> list[Study]:
    experiment = catalog.experiment("quantised", "mnist", "small")
    assert experiment.seeds is not None
    return Recorded(experiment, experiment.seeds, (RECORDS / "quantised.jsonl",)).studies


def studies(data: str) -> list[Study]:
    """The experiments with narrow networks on a data set."""
    store = _store(RECORDS / f"{data}-small.jsonl")
    made = []
    for name in SETS[data].experiments:
        experiment = catalog.experiment(name, data, "small")
        made += from_experiment(experiment, SETS[data].seeds, store)
    return made


def trials(data: str) -> list[Study]:
    """Those of the methods that were tuned one by one."""
    if "tuned" not in SETS[data].experiments:
        return []
    store = _store(RECORDS / f"{data}-small.jsonl")
    (panel,) = catalog.experiment("tuned", data, "small").panels
    tried = [store.run(trial) for arm in panel.arms for trial in tuning.trials(arm)]
    made = from_runs(run for run in tried if run is not None)
    return [replace(study, title=f"Trials of the tuned methods: {study.title}") for study in made]


def titled(studies: Sequence[Study], title: str) -> Study:
    """The study whose title ends so, after its experiment's."""
    return next(study for study in studies if study.title.split(", ", 1)[-1] == title)


@cache
def searched(data: str) -> list[Run]:
    """The runs that were judged by held-out images."""
    found = read_records(RECORDS / f"{data}-search.jsonl").values()
    return [record.run for record in found if record.run is not None]


def search(data: str) -> list[Study]:
    made = from_runs(searched(data))
    return [replace(study, title=f"Search: {study.title}") for study in made]
