"""What IHT reports: the record of a mask update, and the events that a callback is told of."""

from dataclasses import dataclass
from typing import Literal

from skinny.iht.timeline import Span


@dataclass(frozen=True)
class MaskUpdate:
    """The record of one mask update."""

    at: int  # epochs or steps done before it
    target: float  # the sparsity asked for
    size: dict[str, int]  # weights per layer
    kept: dict[str, int]  # of which kept
    change: dict[str, float] | None  # change ratio per layer; None for the first mask update

    @property
    def sparsity(self) -> float:
        """Over all layers: the fraction of prunable weights removed."""
        return 1 - sum(self.kept.values()) / sum(self.size.values())

    @property
    def change_ratio(self) -> float | None:
        """Over all layers: the share of weights whose state the mask update turned over."""
        if self.change is None:
            return None
        changed = sum(ratio * self.size[name] for name, ratio in self.change.items())
        return changed / sum(self.size.values())

    def layer_sparsity(self) -> dict[str, float]:
        return {name: 1 - self.kept[name] / size for name, size in self.size.items()}


@dataclass(frozen=True)
class Event:
    """What happened where a span begins.

    pruning:  the new masks are made (`iht.masks`), and the weights are still what they were
    pruned:   the masks are applied, and enforced from here on
    restored: the truncated weights are trained again
    """

    kind: Literal["pruning", "pruned", "restored"]
    span: Span  # the span that begins
    update: MaskUpdate  # its record; of a restoration, that of the mask update it ends
