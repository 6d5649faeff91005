"""Layers whose weight is computed from other tensors: which of these may be thresholded?

A parametrisation computes the weight anew in every forward pass, so that a zero in the tensor that
is trained must give a zero in the weight, at the same place, and nothing worse. Spectral norm does:
it divides by a number. Weight norm divides each row by its norm, which is 0/0 once a row has lost
all of its weights. Orthogonal matrices and unknown parametrisations mix their entries.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from torch import nn
from torch.nn.utils import parametrize, prune
from torch.nn.utils.parametrizations import _SpectralNorm, _WeightNorm
from torch.nn.utils.spectral_norm import SpectralNorm
from torch.nn.utils.weight_norm import WeightNorm

_NORM_OF_A_ROW = "a row that has lost all of its weights would be NaN under weight norm"


@dataclass(frozen=True)
class Trained:
    """A tensor that is trained in place of a weight."""

    parameter: nn.Parameter
    layer: nn.Module
    stands_for: str  # the name of the weight within the layer
    refusal: str | None = None  # why it cannot be thresholded and what to do; None where it can


def trained_tensors(layer: nn.Module) -> Iterator[Trained]:
    """The tensors from which a layer computes its parametrised ones, in the new and the old way."""
    by_name = layer.parametrizations if parametrize.is_parametrized(layer) else nn.ModuleDict()
    assert isinstance(by_name, nn.ModuleDict)
    for name, chain in by_name.items():
        undo = f"torch.nn.utils.parametrize.remove_parametrizations(layer, {name!r})"
        steps = list(chain.children())
        if all(isinstance(step, _SpectralNorm) for step in steps):
            reason = None
        elif any(isinstance(step, _WeightNorm) for step in steps):
            reason = f"{_NORM_OF_A_ROW}: undo it ({undo})"
        else:
            kinds = ", ".join(type(step).__name__ for step in steps)
            reason = f"{kinds} need not leave zeros where they are: undo it ({undo})"
        for parameter in chain.parameters():
            yield Trained(parameter, layer, name, reason)
    for hook in layer._forward_pre_hooks.values():
        if isinstance(hook, SpectralNorm):
            yield Trained(layer.get_parameter(f"{hook.name}_orig"), layer, hook.name)
        elif isinstance(hook, WeightNorm):
            reason = f"{_NORM_OF_A_ROW}: undo it (torch.nn.utils.remove_weight_norm(layer))"
            for part in ("g", "v"):
                parameter = layer.get_parameter(f"{hook.name}_{part}")
                yield Trained(parameter, layer, hook.name, reason)
        elif isinstance(hook, prune.BasePruningMethod):
            name = hook._tensor_name
            undo = f"torch.nn.utils.prune.remove(layer, {name!r})"
            reason = f"torch.nn.utils.prune prunes it: make its zeros permanent ({undo})"
            yield Trained(layer.get_parameter(f"{name}_orig"), layer, name, reason)
