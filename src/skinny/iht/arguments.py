"""Is what IHT is given what it takes? An error that says so, before anything is attached."""

from collections.abc import Mapping

from torch import nn

from skinny.errors import SkinnyError
from skinny.iht.timeline import Timeline


def check(
    model: object, timeline: object, budget: object, pattern: str | None, score: str, restore: str
) -> None:
    if not isinstance(model, nn.Module):
        raise SkinnyError(f"the model is a {type(model).__name__}: give IHT(model, optimizer, ...)")
    if not isinstance(timeline, Timeline):
        raise SkinnyError(
            f"the timeline is {timeline!r:.40}; make one, such as "
            "skinny.timeline.sdnn(epochs=30, sparsity=0.9)"
        )
    _one_of("score", score, ("magnitude", "random"))
    _one_of("restore", restore, ("zero", "last"))
    if isinstance(budget, str):
        _one_of("budget", budget, ("uniform", "erk", "global"))
    elif not isinstance(budget, Mapping):
        raise SkinnyError(
            f"the budget is {budget!r:.40}; it may be 'erk', 'uniform', 'global' or a table of "
            "layers; how sparse they become together, the timeline says"
        )
    elif pattern is not None and ":" in pattern:
        raise SkinnyError(f"the pattern {pattern} is the budget of every layer: give no other")


def _one_of(what: str, given: object, allowed: tuple[str, ...]) -> None:
    if given not in allowed:
        raise SkinnyError(f"{what} is {given!r}; allowed: {', '.join(allowed)}")
