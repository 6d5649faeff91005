"""Runs sorted into studies: which belong to one arm, and which arms are compared."""

import dataclasses
import itertools
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from skinny.experiments import published
from skinny.experiments.arms import times
from skinny.experiments.experiment import Arm, Experiment, Measure
from skinny.experiments.published import Cited
from skinny.experiments.reproduce import final_config
from skinny.experiments.runs import Run
from skinny.experiments.store import Store
from skinny.training import Config
from skinny.training.config import canonical, dense_baseline

_KINDS = {
    "sdnn": "SDNN",
    "acdc": "AC/DC",
    "dsd": "DSD",
    "gradual": "gradual pruning",
    "iterative": "iterative pruning",
    "oneshot": "one-shot pruning",
    "dense": "dense",
}
# what runs must share to stand in one study: data, network and length
_SHARED = ("data", "train_size", "val_size", "test_size", "augment", "model", "epochs")


@dataclass(frozen=True)
class Result:
    """An arm with its finished runs, in the order of their seeds."""

    label: str
    config: Config  # of any seed
    runs: tuple[Run, ...]
    missing: int = 0  # runs that were wanted and are not finished
    cited: float | None = None  # error in per cent that was published for it

    def values(self, measure: Measure) -> dict[int, float]:
        """{seed: accuracy in per cent at the end of training}."""
        key = "test_top5" if measure == "top5" else "test_accuracy"
        return {run.seed: 100 * run.result[key] for run in self.runs}


@dataclass(frozen=True)
class Study:
    """Arms that are compared with each other."""

    title: str
    question: str
    arms: tuple[Result, ...]
    measure: Measure = "top1"
    cited: tuple[Cited, ...] = ()
    note: str = ""
    contrasts: tuple[tuple[str, str], ...] = ()  # labels of arms to compare with each other
    against: str | None = None  # the arm all are compared with, else each with its dense one
    source: str = published.SOURCE  # of the cited rows

    @property
    def judged_by(self) -> str:
        held_out = any(arm.config.val_size is not None for arm in self.arms)
        return "validation" if held_out else "test"

    @property
    def compared_with(self) -> str:
        """What `compare` compares arms with: dense training of their own length, unless the arm
        that `against` names has another."""
        lengths = {arm.config.epochs for arm in self.arms}
        if self.against is None or len(lengths) == 1:
            return "dense training"
        return f'"{self.against}"'


def from_experiment(experiment: Experiment, seeds: Sequence[int], store: Store) -> list[Study]:
    """A study for each panel; what has not been trained is counted as missing."""
    studies = []
    for panel in experiment.panels:
        errors = {row.model: row.error for row in panel.cited}
        arms, chosen = [], []
        wanted_seeds = panel.seeded(seeds)
        for arm in panel.arms:
            wanted = [final_config(arm, seed, store) for seed in wanted_seeds]
            found = [store.run(config) for config in wanted if config is not None]
            finished = tuple(run for run in found if run is not None)
            if arm.candidates and finished:
                chosen.append(_chosen(arm, finished[0].config))
            arms.append(
                Result(
                    arm.label,
                    finished[0].config if finished else arm.config,
                    finished,
                    missing=len(wanted_seeds) - len(finished),
                    cited=errors.get(arm.label),
                )
            )
        studies.append(
            Study(
                f"{experiment.title}, {panel.title}",
                experiment.question,
                tuple(arms),
                panel.measure,
                panel.cited,
                f"{panel.note} {'; '.join(chosen)}." if chosen else panel.note,
                panel.contrasts,
                panel.against,
                panel.source,
            )
        )
    return studies


def from_runs(runs: Iterable[Run]) -> list[Study]:
    """A study for each data set, network and length among the runs, an arm for each config."""
    by_config: dict[Config, dict[int, Run]] = {}
    for run in runs:
        plain = dataclasses.replace(canonical(run.config), seed=0, name="any", eval_every=1)
        by_config.setdefault(plain, {})[run.seed] = run
    studies: dict[tuple[Any, ...], list[Config]] = {}
    for config in by_config:
        studies.setdefault(tuple(getattr(config, name) for name in _SHARED), []).append(config)
    made = []
    for configs in studies.values():
        configs.sort(key=lambda c: (c.method != "dense", c.method != "sdnn", c.method, c.sparsity))
        labels = label_all(configs)
        arms = tuple(
            Result(label, config, tuple(run for _, run in sorted(by_config[config].items())))
            for label, config in zip(labels, configs, strict=True)
        )
        made.append(Study(_title(configs[0]), "", arms))
    return made


def label_all(configs: Sequence[Config]) -> list[str]:
    """Short names: the method and sparsity, and whatever else tells apart those that share them.

    What most of those that share a name have goes without saying.
    """
    made = [_label(config) for config in configs]
    for label in set(made):
        alike = [i for i, name in enumerate(made) if name == label]
        for field in dataclasses.fields(Config):
            values = Counter(getattr(configs[i], field.name) for i in alike)
            usual, count = values.most_common(1)[0]
            for i in alike:
                value = getattr(configs[i], field.name)
                if len(values) > 1 and (value != usual or 2 * count <= len(alike)):
                    made[i] += f", {_setting(field.name, value)}"
    return made


def _setting(name: str, value: object) -> str:
    if value is None:
        return f"default {name}"
    return name if value is True else f"{name} {value}"


def reference(arm: Result, study: Study) -> Result | None:
    """The dense arm to compare with: the same network and settings, trained as long, or the one
    that the study names.

    A dense network of another width is compared with the one most other arms refer to.
    """
    arms = study.arms
    if study.against is not None:
        return next((a for a in arms if a.label == study.against and a is not arm), None)
    same = {_without_method(other.config): other for other in arms if _is_dense(other)}
    if not _is_dense(arm):
        return same.get(_without_method(arm.config))
    followers = [same.get(_without_method(other.config)) for other in arms if not _is_dense(other)]
    counted = [(sum(f is other for f in followers), -i) for i, other in enumerate(same.values())]
    if not counted:
        return None
    main = list(same.values())[-max(counted)[1]]
    widths = (
        dataclasses.replace(arm.config, width=None),
        dataclasses.replace(main.config, width=None),
    )
    comparable = _without_method(widths[0]) == _without_method(widths[1])
    return main if comparable and main is not arm else None


def _chosen(arm: Arm, config: Config) -> str:
    """What was chosen for an arm, in words: the fields in which its candidates differ."""
    varied = [
        field.name
        for field in dataclasses.fields(Config)
        if len({getattr(candidate, field.name) for candidate in arm.candidates}) > 1
    ]
    return f"{arm.label}: {', '.join(f'{name} {getattr(config, name):g}' for name in varied)}"


def _is_dense(arm: Result) -> bool:
    """Plain dense training; with the learning rate restarted it is compared like other methods."""
    return arm.config.method == "dense" and not arm.config.restart_lr


def _without_method(config: Config) -> Config:
    return dataclasses.replace(dense_baseline(config), seed=0, name="any", eval_every=1)


def _label(config: Config) -> str:
    if config.method == "dense":
        label = "dense, restarted" if config.restart_lr else "dense"
    elif config.method == "sdnn":
        label = times(config.sparsity)
    else:
        label = f"{_KINDS[config.method]} {config.sparsity:.3g}"
    told = [
        (f"{config.quantize}", config.quantize is not None),
        ("random masks", config.score == "random"),
        ("direct", config.method == "sdnn" and config.r0 == config.sparsity > 0.5),
        ("re-initialised", config.reinit),
        ("single-step", config.unit == "step" and config.dense == config.sparse == 1),
        (f"{config.budget} budget", config.method != "dense" and config.budget != "uniform"),
        (f"pattern {config.pattern}", config.pattern is not None),
    ]
    return ", ".join(itertools.chain([label], (text for text, true in told if true)))


def _title(config: Config) -> str:
    images = "all training images" if config.train_size is None else f"{config.train_size:,} images"
    augmented = "" if config.augment == "none" else f", {config.augment}"
    held_out = "" if config.val_size is None else f", judged by {config.val_size:,} others held out"
    if config.test_size is not None:
        held_out = f", judged by {config.test_size:,} test images"
    return f"{config.model} on {config.data}: {images}{held_out}{augmented}, {config.epochs} epochs"
