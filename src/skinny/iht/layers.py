"""Which tensors of a model are thresholded, what they are called, and what is left dense."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from torch import nn
from torch.optim.swa_utils import AveragedModel

from skinny.errors import SkinnyError
from skinny.iht import ranks
from skinny.iht.budget import matches
from skinny.iht.candidates import Candidate, Kind, candidates
from skinny.iht.patterns import Pattern, Structured, fits

_LARGE = 0.1  # the share of all parameters from which on being left dense is worth a warning

_HOW_TO_INCLUDE: dict[Kind, str] = {
    "embedding": "embeddings, and weights tied to them, are thresholded if `include` names them",
    "frozen": "frozen weights are thresholded only if they are trained: requires_grad_(True)",
    "adapter": "LoRA adapters become dense weights when they are merged: merge them, then prune",
    "other": "tensors that are not the weight of a layer are thresholded if `include` names them",
}


@dataclass(frozen=True)
class Selection:
    """What is thresholded of a model, and what is left dense without anybody having asked."""

    weights: dict[str, nn.Parameter]
    names: dict[str, tuple[str, ...]]  # all that a weight answers to
    inputs: dict[str, tuple[int, int]]  # the axis of a weight's input channels, and their groups
    left: list[Candidate]
    parameters: int  # of the whole model, tied ones once

    @property
    def covered(self) -> float:
        """The share of all parameters that is thresholded."""
        return sum(weight.numel() for weight in self.weights.values()) / self.parameters

    def structured(self, pattern: Pattern | None) -> dict[str, Structured]:
        """The weights whose input channels divide into the groups of a pattern."""
        if pattern is None:
            return {}
        found = {
            name: Structured(pattern, self.inputs[name][0])
            for name, weight in self.weights.items()
            if fits(pattern, weight, *self.inputs[name])
        }
        if not found:
            raise SkinnyError(
                f"no layer can have the pattern {pattern}: the input channels of none divide by "
                f"{pattern.size}"
            )
        return found

    def warning(self) -> str | None:
        """What is large and left dense, and how to include it; None if nothing is."""
        groups = []
        for kind, left in _by_kind(self.left).items():
            size = sum(candidate.parameter.numel() for candidate in left)
            share = size / self.parameters
            if share >= _LARGE:
                groups.append(f"{_first(left)} ({share:.0%}; {_HOW_TO_INCLUDE[kind]})")
        if not groups:
            return None
        return (
            f"IHT thresholds {self.covered:.0%} of the model's {self.parameters:,} parameters and "
            f"leaves dense: {', '.join(groups)}. include='*' takes all trainable tensors with two "
            "or more dimensions; `exclude` says what is to stay dense, without a warning"
        )


def unwrapped(model: nn.Module) -> nn.Module:
    """The user's own module inside `torch.compile` and data-parallel wrappers.

    Both keep the very same parameters under longer names; masks are named after the short ones, so
    that they fit whether or not the model is wrapped when they are loaded.
    """
    while True:
        if isinstance(model, nn.parallel.DistributedDataParallel | nn.DataParallel):
            model = model.module
        elif isinstance(inner := getattr(model, "_orig_mod", None), nn.Module):
            model = inner
        else:
            return model


def original(model: nn.Module) -> nn.Module:
    """The module inside all wrappers and an average (EMA, SWA) of models."""
    model = unwrapped(model)
    return unwrapped(model.module) if isinstance(model, AveragedModel) else model


def replicas(model: nn.Module) -> Any:
    """The process group whose ranks train copies of the model; None without such a wrapper."""
    while not isinstance(model, nn.parallel.DistributedDataParallel):
        inner = getattr(model, "_orig_mod", None)
        if not isinstance(inner, nn.Module):
            return None
        model = inner
    return model.process_group


def prunable(
    model: nn.Module, include: str | Sequence[str] | None = None, exclude: str | Sequence[str] = ()
) -> dict[str, nn.Parameter]:
    """{name: parameter} of what is thresholded, in the model's order: see `select`."""
    return select(model, include, exclude).weights


def select(
    model: nn.Module, include: str | Sequence[str] | None = None, exclude: str | Sequence[str] = ()
) -> Selection:
    """What is thresholded of a model, in its order.

    By default the weights of its layers: linear, convolution (transposed too), recurrent and
    attention layers, and tensors called a weight in layers of the user's own. Embeddings and
    weights tied to them, LoRA adapters, biases and normalisation parameters are left dense, and
    frozen parameters are left alone. `include` names others instead, by shell globs over parameter
    or layer names, among all trainable parameters with two or more dimensions. `exclude` takes
    away. A tied weight counts once, under its first name, and answers to each of its names.
    """
    model = unwrapped(model)
    ranks.check_not_flat(model)
    there_are = list(candidates(model))
    trainable = [candidate for candidate in there_are if candidate.kind != "frozen"]
    if include is None:
        chosen = [candidate for candidate in trainable if candidate.kind == "weight"]
    else:
        chosen = _matching(trainable, include, "include", there_are)
    dropped = {candidate.name for candidate in _matching(there_are, exclude, "exclude")}
    kept = [candidate for candidate in chosen if candidate.name not in dropped]
    left = [
        candidate
        for candidate in there_are
        if include is None and candidate.kind != "weight" and candidate.name not in dropped
    ]
    if not kept:
        excluded = [candidate for candidate in chosen if candidate.name in dropped]
        raise SkinnyError(_nothing(excluded, left, trainable))
    for candidate in kept:
        if candidate.refusal is not None:
            raise SkinnyError(candidate.refusal)
        ranks.check_supported(candidate.name, candidate.parameter)
    return Selection(
        weights={candidate.name: candidate.parameter for candidate in kept},
        names={candidate.name: candidate.names for candidate in kept},
        inputs={candidate.name: (candidate.input_axis, candidate.groups) for candidate in kept},
        left=left,
        parameters=sum(parameter.numel() for parameter in model.parameters()),
    )


def find(model: nn.Module, shapes: Mapping[str, list[int]]) -> dict[str, nn.Parameter]:
    """The parameters of these names and shapes in a model, an average of models, or a wrapper."""
    model = original(model)
    parameters = dict(model.named_parameters(remove_duplicate=False))
    for name, shape in shapes.items():
        if name not in parameters or list(parameters[name].shape) != shape:
            raise SkinnyError(
                f"the model is no copy of the one that IHT trains: it has no {name} of the shape "
                f"{tuple(shape)}"
            )
    return {name: parameters[name] for name in shapes}


def check_in_place(model: nn.Module, weights: Mapping[str, nn.Parameter]) -> None:
    """An error unless the weights are still those of the model."""
    ranks.reshard(model)
    now = dict(model.named_parameters(remove_duplicate=False))
    gone = [name for name, weight in weights.items() if now.get(name) is not weight]
    if gone:
        raise SkinnyError(
            f"{', '.join(gone)} of the model is no longer the tensor that IHT was attached to, "
            "so that nothing would prune it: replace, parametrise or shard layers first, then "
            "make the optimizer and attach IHT"
        )


def _matching(
    offered: list[Candidate],
    patterns: str | Sequence[str],
    option: str,
    there_are: Sequence[Candidate] = (),
) -> list[Candidate]:
    """The candidates that any pattern matches; each pattern must match at least one."""
    found: set[str] = set()
    for pattern in [patterns] if isinstance(patterns, str) else patterns:
        hits = [candidate for candidate in offered if _answers(candidate, pattern)]
        if not hits:
            frozen = [candidate for candidate in there_are if _answers(candidate, pattern)]
            raise SkinnyError(
                f"the {option} pattern {pattern!r} matches "
                + (
                    f"frozen weights alone ({_first(frozen)}): {_HOW_TO_INCLUDE['frozen']}"
                    if frozen
                    else f"nothing; there are: {', '.join(c.name for c in offered)}"
                )
            )
        found |= {candidate.name for candidate in hits}
    return [candidate for candidate in offered if candidate.name in found]


def _answers(candidate: Candidate, pattern: str) -> bool:
    return any(matches(name, pattern) for name in candidate.names)


def _by_kind(some: Iterable[Candidate]) -> dict[Kind, list[Candidate]]:
    by_kind: dict[Kind, list[Candidate]] = {}
    for candidate in some:
        by_kind.setdefault(candidate.kind, []).append(candidate)
    return by_kind


def _nothing(excluded: list[Candidate], left: list[Candidate], trainable: list[Candidate]) -> str:
    """Why there is nothing to threshold, and what to do."""
    message = "the model has no weight to threshold"
    if excluded:
        message += f" after excluding {', '.join(candidate.name for candidate in excluded)}"
    if left:
        for kind, some in _by_kind(left).items():
            message += f"; {_first(some)}: {_HOW_TO_INCLUDE[kind]}"
        return message
    names = ", ".join(candidate.name for candidate in trainable)
    return f"{message}; trainable tensors with two or more dimensions: {names or 'none'}"


def _first(some: Sequence[Candidate], shown: int = 3) -> str:
    more = f" and {len(some) - shown} more" if len(some) > shown else ""
    return ", ".join(candidate.name for candidate in some[:shown]) + more
