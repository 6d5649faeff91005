"""What an experiment is: panels of arms that are compared with each other."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from skinny.experiments.published import SOURCE, Cited
from skinny.training import Config
from skinny.training.config import canonical

Measure = Literal["top1", "top5"]


@dataclass(frozen=True)
class Arm:
    """One thing to train, for every seed.

    greedy: the sparsity of each layer is searched first, on held-out images (`greedy.py`).
    candidates: settings, the best of which on held-out images is trained (`tuning.py`).
    """

    label: str
    config: Config
    greedy: bool = False
    candidates: tuple[Config, ...] = ()

    def seeded(self, seed: int) -> Config:
        return canonical(replace(self.config, seed=seed))


@dataclass(frozen=True)
class Panel:
    """Arms under one budget, and what was published about the like.

    Every arm is compared with dense training, in the same settings or as `against` names it;
    `contrasts` are pairs of labels to compare as well. `source` is where the cited rows are from.
    `few` is the number of seeds that suffice, the first of those given: no claim rests on the arms.
    `measure`: whether the true class must be the network's first choice, or one of its first five.
    """

    title: str
    arms: tuple[Arm, ...]
    cited: tuple[Cited, ...] = ()
    note: str = ""
    contrasts: tuple[tuple[str, str], ...] = ()
    against: str | None = None
    source: str = SOURCE
    few: int | None = None
    measure: Measure = "top1"

    def seeded(self, seeds: Sequence[int]) -> Sequence[int]:
        """The seeds that its arms are trained with."""
        return seeds[: self.few]


@dataclass(frozen=True)
class Experiment:
    """A table or figure of the paper, or a question it raises.

    seeds: what it is trained with unless told otherwise; None leaves that to the scale.
    """

    name: str
    title: str
    question: str
    panels: tuple[Panel, ...]
    seeds: tuple[int, ...] | None = None
