"""What the callbacks share: options of IHT, what is logged, how a training ends."""

from collections.abc import Mapping, Sequence
from typing import Any, TypedDict

from torch import nn

from skinny.errors import SkinnyError
from skinny.iht import attached
from skinny.iht.budget import Rules
from skinny.iht.controller import IHT, Restore, Score


class Options(TypedDict, total=False):
    """Of `skinny.IHT`."""

    budget: str | Rules
    pattern: str | None
    quantize: str | None
    include: str | Sequence[str] | None
    exclude: str | Sequence[str]
    score: Score
    restore: Restore
    seed: int


def check(options: Mapping[str, Any]) -> None:
    """An error when the callback is made, and not when the training begins."""
    unknown = [name for name in options if name not in Options.__annotations__]
    if unknown:
        raise SkinnyError(
            f"IHTCallback has no option {unknown[0]!r}; of IHT it takes "
            f"{', '.join(Options.__annotations__)}"
        )


def scalars(iht: IHT, layers: bool) -> dict[str, float]:
    """What a logger shows: the sparsity now, the change ratio of the latest mask update if there
    was one before it; on request for each layer too."""
    found = {"iht/sparsity": iht.sparsity}
    update = iht.history[-1] if iht.sparse else None
    if update is not None and update.change_ratio is not None:
        found["iht/change_ratio"] = update.change_ratio
    if layers:
        for name, sparsity in iht.layer_sparsity().items():
            found[f"iht/sparsity/{name}"] = sparsity
        if update is not None and update.change is not None:
            for name, ratio in update.change.items():
                found[f"iht/change_ratio/{name}"] = ratio
    return found


def finish(iht: IHT, model: nn.Module) -> None:
    """An error if the budget does not hold, and a warning if the training ended before its last
    span: a trainer's quick checks and interrupted trainings do."""
    if iht.span is iht.timeline.spans[-1]:
        iht.finish()
    else:
        attached.warn_if_unfinished(model)
