"""The optimizers of a training: what they remember of each weight, and when a step is done."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer
from torch.utils.hooks import RemovableHandle

from skinny.errors import SkinnyError
from skinny.iht import optimizer_state, ranks


class Optimizers:
    """One optimizer or several, each with weights of its own, taken as one.

    A step of the training is done when every optimizer has stepped once. Where one steps again
    before the others have (they step less often, or a loss scaler skipped them), it is done too.
    """

    def __init__(
        self, given: Optimizer | Sequence[Optimizer], weights: Mapping[str, Tensor]
    ) -> None:
        several = [given] if isinstance(given, Optimizer) else list(given)
        self._all = [_with_hooks(optimizer) for optimizer in several]
        self._weights = weights
        self._held = [_held(optimizer, weights) for optimizer in self._all]
        self._stepped: set[int] = set()  # the optimizers that have in this step of the training
        strangers = weights.keys() - {name for names in self._held for name in names}
        if strangers:
            owner = "the optimizer does" if len(self._all) == 1 else "the optimizers do"
            raise SkinnyError(
                f"{owner} not hold {', '.join(name for name in weights if name in strangers)}: "
                "give it these parameters, or exclude them from pruning"
            )

    @property
    def parameters(self) -> set[int]:
        """The ids of all that they train."""
        return {id(p) for one in self._all for group in one.param_groups for p in group["params"]}

    def hook(
        self,
        before: Callable[[list[str]], None],
        after: Callable[[list[str], int], None],
        before_closure: Callable[[], None],
    ) -> list[RemovableHandle]:
        """Call before(names) and after(names, done) around each optimizer's step: the weights that
        it holds, and how many steps of the training are done with it. Where a closure computes the
        gradients within the step, before_closure() is called before it and before(names) after it
        too."""

        idle: set[int] = set()

        def begin(number: int, _: Optimizer, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            closure = kwargs.get("closure", args[1] if len(args) > 1 else None)
            act = partial(before, self._held[number])
            if not callable(closure):
                if _is_idle(self._all[number]):
                    idle.add(number)
                else:
                    act()
                return None
            act()
            both = _between(before_closure, closure, act)
            if "closure" in kwargs:
                return args, {**kwargs, "closure": both}
            return (args[0], both, *args[2:]), kwargs

        def end(number: int, *_: Any) -> None:
            if number in idle:
                idle.remove(number)
            else:
                after(self._held[number], self._count(number))

        handles = []
        for number, optimizer in enumerate(self._all):
            handles.append(optimizer.register_step_pre_hook(partial(begin, number)))
            handles.append(optimizer.register_step_post_hook(partial(end, number)))
        return handles

    def states(self) -> Iterator[tuple[str, Mapping[str, Any]]]:
        """(name, state) of each weight, in each optimizer that holds it."""
        for optimizer, names in zip(self._all, self._held, strict=True):
            for name in names:
                yield name, optimizer.state.get(self._weights[name], {})

    def clear(self, masks: Mapping[str, Tensor]) -> None:
        """Forget what moves truncated weights."""
        self._forget_curvature()
        for name, state in self.states():
            optimizer_state.clear(state, masks[name])

    def refill(self, masks: Mapping[str, Tensor]) -> None:
        """Let restored weights set out at the pace of their layer."""
        self._forget_curvature()
        for name, state in self.states():
            optimizer_state.refill(state, masks[name])

    def has_stepped(self) -> bool:
        return any(optimizer_state.has_stepped(state) for _, state in self.states())

    def _forget_curvature(self) -> None:
        """L-BFGS moves all weights along the gradients of many steps, kept in one flat state. Those
        of other masks go; the gradients to come move no truncated weight, so that the points at
        which it evaluates its closure within a step have their zeros too."""
        for optimizer in self._all:
            if isinstance(optimizer, torch.optim.LBFGS):
                optimizer.state.clear()

    def _count(self, number: int) -> int:
        done = int(number in self._stepped)
        if done:
            self._stepped.clear()
        self._stepped.add(number)
        if len(self._stepped) == len(self._all):
            self._stepped.clear()
            done += 1
        return done


def _with_hooks(given: Optimizer) -> Optimizer:
    """The optimizer that steps, inside wrappers such as those of `accelerator.prepare`."""
    optimizer: Any = given
    while not hasattr(optimizer, "_optimizer_step_pre_hooks"):
        inner = getattr(optimizer, "optimizer", None)
        if not isinstance(inner, Optimizer):
            raise SkinnyError(
                f"IHT needs torch.optim.Optimizer, one or a list; a {type(given).__name__} was "
                "given, which is none and has none as its attribute `optimizer`"
            )
        optimizer = inner
    assert isinstance(optimizer, torch.optim.Optimizer)
    return optimizer


def _between(
    before: Callable[[], None], closure: Callable[[], Any], act: Callable[[], None]
) -> Callable[[], Any]:
    def both() -> Any:
        before()
        loss = closure()
        act()
        return loss

    return both


def _is_idle(optimizer: Optimizer) -> bool:
    """A step that changes nothing, by which distributed checkpoints make an optimizer allocate its
    state: no state yet, learning rates and gradients all zero."""
    groups = optimizer.param_groups
    if optimizer.state or any(float(group["lr"]) != 0 for group in groups if "lr" in group):
        return False
    gradients = [p.grad for group in groups for p in group["params"] if p.grad is not None]
    return not any(bool(ranks.local(gradient).any()) for gradient in gradients)


def _held(optimizer: Optimizer, weights: Mapping[str, Tensor]) -> list[str]:
    known = {id(p) for group in optimizer.param_groups for p in group["params"]}
    return [name for name, weight in weights.items() if id(weight) in known]
