"""What each tensor of a model is: a weight that is thresholded by default, or why it is not."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from torch import nn

from skinny.errors import SkinnyError
from skinny.iht.parametrized import trained_tensors

_TRANSPOSED = (nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d)
# Layers that people call layers with weights. Others count if they look like one, see `_is_weight`.
_LAYERS = (
    *(nn.Linear, nn.Bilinear),
    *(nn.Conv1d, nn.Conv2d, nn.Conv3d),
    *_TRANSPOSED,
    *(nn.RNNBase, nn.RNNCellBase, nn.MultiheadAttention),
)
_EMBEDDINGS = (nn.Embedding, nn.EmbeddingBag)
_WEIGHT = re.compile(r"(^|_)weight(_|$)")  # weight, in_proj_weight, weight_ih_l0_reverse
_ADAPTER = re.compile(r"(^|\.)lora_")

Kind = Literal["weight", "embedding", "adapter", "frozen", "other"]


@dataclass(frozen=True)
class Candidate:
    """A parameter with two or more dimensions; biases and most normalisation have one."""

    parameter: nn.Parameter
    names: tuple[str, ...]  # all that it answers to: its own first, then those it is tied under
    kind: Kind
    refusal: str | None  # why it cannot be thresholded, and what to do
    input_axis: int = 1  # of the input channels
    groups: int = 1  # into which they fall

    @property
    def name(self) -> str:
        return self.names[0]


def candidates(model: nn.Module) -> Iterator[Candidate]:
    """In the model's order, a tied tensor once. The tensor that is trained in place of a
    parametrised weight answers to the name of the weight as well."""
    names: dict[int, list[str]] = {}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        names.setdefault(id(parameter), []).append(name)
    refusals: dict[int, str] = {}
    weights: set[int] = set()
    embedded: set[int] = set()
    inputs: dict[int, tuple[int, int]] = {}
    for path, layer in model.named_modules():
        own = [(name, parameter) for name, parameter in layer.named_parameters(recurse=False)]
        for trained in trained_tensors(layer):
            key, weight = id(trained.parameter), f"{path}.{trained.stands_for}".lstrip(".")
            names[key].append(weight)
            own.append((trained.stands_for, trained.parameter))
            if trained.refusal is not None:
                refusals[key] = _refusal(weight, trained.refusal)
        weights |= {id(p) for name, p in own if _is_weight(layer, name, p)}
        inputs |= {id(p): found for _, p in own if (found := _input_channels(layer)) != (1, 1)}
        if _is_embedding(layer):
            embedded |= {id(p) for _, p in own}
            if getattr(layer, "sparse", False):
                refusals |= {id(p): _sparse_gradients(f"{path}.{name}") for name, p in own}
    for parameter in model.parameters():
        key = id(parameter)
        if isinstance(parameter, nn.parameter.UninitializedParameter):
            raise SkinnyError(
                f"{names[key][0]} has no shape yet: run a batch through the model first"
            )
        if parameter.dim() < 2:
            continue
        kind: Kind = "weight" if key in weights else "other"
        if not parameter.requires_grad or not parameter.is_floating_point():
            kind = "frozen"
        elif key in embedded:
            kind = "embedding"
        elif any(_ADAPTER.search(name) for name in names[key]):
            kind = "adapter"
        axis, groups = inputs.get(key, (1, 1))
        yield Candidate(parameter, tuple(names[key]), kind, refusals.get(key), axis, groups)


def _is_embedding(layer: nn.Module) -> bool:
    return isinstance(layer, _EMBEDDINGS) or (
        not isinstance(layer, _LAYERS) and "Embedding" in type(layer).__name__
    )


def _is_weight(layer: nn.Module, name: str, parameter: nn.Parameter) -> bool:
    """Is the parameter that a layer calls `name` one of its weights?

    A layer of a user's own (GPT-2's Conv1D, say) has one if it is called a weight and is a matrix
    or more. Normalisation over several dimensions has such a weight too, which is none.
    """
    if not _WEIGHT.search(name):
        return False
    if isinstance(layer, _LAYERS):
        return True
    return "Norm" not in type(layer).__name__ and sum(size > 1 for size in parameter.shape) >= 2


def _input_channels(layer: nn.Module) -> tuple[int, int]:
    """The axis of a layer's weight that is the input channels', and the groups they fall into.

    A weight is [outputs, inputs of a group, *kernel] but in transposed convolutions and in layers
    that multiply from the right, as GPT-2's Conv1D.
    """
    if isinstance(layer, _TRANSPOSED):
        return 0, layer.groups
    return (0, 1) if type(layer).__name__ == "Conv1D" else (1, 1)


def _refusal(weight: str, reason: str) -> str:
    layer = weight.rpartition(".")[0] or weight
    return (
        f"{weight} is parametrised and cannot be thresholded, because {reason}, "
        f"or leave it dense (exclude={layer!r})"
    )


def _sparse_gradients(weight: str) -> str:
    return (
        f"{weight} is the weight of an embedding with sparse gradients, which cannot be masked: "
        "make it with sparse=False, or exclude it"
    )
