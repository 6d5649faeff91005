"""Which tensors of a model may be thresholded, and what they are called."""

from collections.abc import Iterable, Sequence

import torch
from torch import nn

from skinny.errors import SkinnyError
from skinny.iht.budget import matches

_PRUNABLE = (
    nn.Linear,
    nn.Conv1d,
    nn.Conv2d,
    nn.Conv3d,
    nn.ConvTranspose1d,
    nn.ConvTranspose2d,
    nn.ConvTranspose3d,
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


def prunable(
    model: nn.Module, include: str | Sequence[str] | None = None, exclude: str | Sequence[str] = ()
) -> dict[str, nn.Parameter]:
    """{name: parameter} of what is thresholded, in the model's order.

    By default the weights of linear and convolution layers (transposed ones too). `include` names
    others instead, by shell globs over parameter or layer names, among all parameters with two or
    more dimensions: biases and normalisation parameters are never thresholded. `exclude` takes
    away. Frozen parameters are left alone. A tied weight counts once, under its first name, and
    answers to each of its names.
    """
    model = unwrapped(model)
    aliases: dict[int, list[str]] = {}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        aliases.setdefault(id(parameter), []).append(name)
    candidates = {
        names[0]: names
        for parameter in model.parameters()
        if parameter.requires_grad and parameter.is_floating_point() and parameter.dim() >= 2
        for names in [aliases[id(parameter)]]
    }
    by_default = {
        id(module.weight): module.weight
        for module in model.modules()
        if isinstance(module, _PRUNABLE)
    }
    parameters = dict(model.named_parameters())
    if include is None:
        chosen = [name for name in candidates if id(parameters[name]) in by_default]
    else:
        chosen = _matching(candidates, _patterns(include), "include", candidates)
    offered = {name: candidates[name] for name in chosen}
    dropped = set(_matching(offered, _patterns(exclude), "exclude", candidates))
    kept = {name: parameters[name] for name in chosen if name not in dropped}
    if not kept:
        raise SkinnyError(
            "the model has no weight to threshold"
            + (f" after excluding {', '.join(sorted(dropped))}" if dropped else "")
            + "; trainable tensors with two or more dimensions: "
            + (", ".join(candidates) or "none")
        )
    with_sparse_gradients = {
        id(module.weight)
        for module in model.modules()
        if isinstance(module, nn.Embedding | nn.EmbeddingBag) and module.sparse
    }
    for name, parameter in kept.items():
        if id(parameter) in with_sparse_gradients:
            raise SkinnyError(
                f"{name} is the weight of an embedding with sparse gradients, which cannot be "
                "masked: make it with sparse=False, or exclude it"
            )
        if type(parameter.data) is not torch.Tensor:
            raise SkinnyError(
                f"{name} is a {type(parameter.data).__name__}: sharded parameters are not "
                "supported; use DistributedDataParallel"
            )
    return kept


def _patterns(given: str | Sequence[str]) -> list[str]:
    return [given] if isinstance(given, str) else list(given)


def _matching(
    offered: dict[str, list[str]], patterns: list[str], option: str, exist: Iterable[str]
) -> list[str]:
    """The offered names that any pattern matches; each pattern must match at least one."""
    found: set[str] = set()
    for pattern in patterns:
        hit = {name for name, names in offered.items() if any(matches(n, pattern) for n in names)}
        if not hit:
            raise SkinnyError(
                f"the {option} pattern {pattern!r} matches nothing; there are: {', '.join(exist)}"
            )
        found |= hit
    return [name for name in offered if name in found]
