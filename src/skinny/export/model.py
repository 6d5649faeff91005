"""A model to one file, and back to its weights."""

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from torch import Tensor, nn

from skinny import packing
from skinny.errors import SkinnyError
from skinny.export.graph import take_graph
from skinny.export.tensors import to_arrays, to_tensor
from skinny.iht.attached import warn_if_unfinished
from skinny.iht.layers import unwrapped
from skinny.packing import Values


def pack(
    model: nn.Module | Mapping[str, Tensor],
    path: str | os.PathLike[str],
    *,
    example: Tensor | Sequence[Tensor] | None = None,
    labels: Iterable[str] | None = None,
    preprocessing: Mapping[str, Any] | None = None,
    values: Values = "exact",
    signed_zeros: bool = False,
    weights_only: bool = False,
    config_hash: str | None = None,
    sparsity: Mapping[str, Any] | None = None,
) -> None:
    """Write a model, or a state_dict, to one packed file that needs no torch to run.

    example: an input of the model (its batch size does not matter), from which the graph is taken;
    weights_only leaves the graph out, and a state_dict has none. preprocessing: mean and std, and
    optionally scale, resize and crop (docs/format.md). values: "exact" brings every value back as
    it is, and every zero as 0.0 (-0.0 too, unless signed_zeros); "fp16", "bf16" and "int8" round
    the weights. config_hash, sparsity: where it came from.

    The model is packed in eval mode and left as it was.
    """
    if isinstance(model, nn.Module):
        model = unwrapped(model)
        warn_if_unfinished(model)
        if example is None and not weights_only:
            raise SkinnyError(
                "packing a model needs an example input to take its graph from: "
                "pass example=x[:1], or weights_only=True for a file without a graph"
            )
        graph = None if weights_only or example is None else take_graph(model, example)
        state: Mapping[str, Any] = model.state_dict()
    else:
        if example is not None:
            raise SkinnyError("a state_dict has no graph; pass the model itself with an example")
        graph, state = None, model
    packing.write(
        path,
        to_arrays(state),
        graph=graph,
        labels=labels,
        preprocessing=preprocessing,
        values=values,
        signed_zeros=signed_zeros,
        config_hash=config_hash,
        sparsity=sparsity,
    )


def unpack(path: str | os.PathLike[str]) -> dict[str, Tensor]:
    """The state_dict of a packed file, as it was packed.

    Tied tensors share memory again. `skinny.packing.to_safetensors` does without torch.
    """
    with packing.open(path) as file:
        state: dict[str, Tensor] = {}
        for name in file.names:
            other = file.tied.get(name)
            state[name] = (
                to_tensor(file.read(name), file.entry(name).dtype)
                if other is None
                else state[other]
            )
        return state
