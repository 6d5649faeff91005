"""A model to one file, and back to its weights."""

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn

from skinny import packing
from skinny.errors import SkinnyError
from skinny.export.examples import Dynamic, Examples
from skinny.export.int8 import Calibration, Report, to_int8
from skinny.export.onnx import read_graph
from skinny.export.stored import CONSTANT, Stored, check_labels, graph_record, with_constants
from skinny.export.tensors import to_arrays, to_tensor
from skinny.export.torch_import import UnsupportedOperationError, take_graph
from skinny.graph import Graph
from skinny.graph.dead_weights import without_dead_weights
from skinny.graph.ops.int8 import INT8_OPS
from skinny.graph.values import own_dtype
from skinny.iht.attached import warn_if_unfinished
from skinny.iht.input_range import find, paused
from skinny.iht.layers import original
from skinny.packing import Values

Compute = Literal["fp32", "int8"]
Example = Tensor | Sequence[Tensor] | Mapping[str, Tensor]


def pack(
    model: nn.Module | Mapping[str, Tensor] | str | os.PathLike[str],
    path: str | os.PathLike[str],
    *,
    example: Example | None = None,
    dynamic: Dynamic | None = None,
    labels: Iterable[str] | None = None,
    preprocessing: Mapping[str, Any] | None = None,
    values: Values = "exact",
    size: int | None = None,
    signed_zeros: bool = False,
    weights_only: bool = False,
    config_hash: str | None = None,
    sparsity: Mapping[str, Any] | None = None,
    compute: Compute = "fp32",
    calibration: Calibration | None = None,
) -> Report | None:
    """Write a model, a state_dict, or an ONNX file to one packed file that needs no torch to run.

    example: inputs of the model, a tensor, several by position, or a mapping by name, from
    which the graph is taken (the batch size does not matter); weights_only leaves the graph
    out, and a state_dict has none. dynamic: sizes beside the batch that callers choose, as
    {"input_ids": {1: "length"}}. An ONNX file needs no example; one by name fixes the sizes
    that it leaves free, except the batch and those of `dynamic`. preprocessing: mean and std,
    and optionally scale, resize and crop (docs/format.md). values: "exact" brings every value
    back as it is, and every zero as 0.0 (-0.0 too, unless signed_zeros); "fp16", "bf16",
    "int8" to "int2" and "codebook8" to "codebook2" round the weights (docs/format.md); size chooses
    one of these for each tensor, so that the file has at most `size` bytes. A rounded file has
    zeros for weights and biases that change no output, and biases into which the constants of
    channels without weights have moved (graph/dead_weights.py). config_hash,
    sparsity: where it came from. compute: "int8" makes layers that multiply 8-bit integers, whose
    weights are then stored as such unless `values` says otherwise; it needs `calibration`, batches
    like `example`, or the range of each layer's input by the name of its weight,
    {"conv1.weight": (-1.0, 3.5)} (which a model trained for int8 has itself), and returns a
    `Report`, a table of the layers (docs/runtime.md).

    The model is packed in eval mode and left as it was.
    """
    if size is not None and (values != "exact" or signed_zeros):
        raise SkinnyError("size chooses how values are stored: give it without values")
    if compute == "int8" and calibration is None and isinstance(model, nn.Module):
        calibration = find(original(model)) or None
    if compute != "fp32":
        _check_compute(compute, calibration, size)
    labels = None if labels is None else list(labels)
    lossy = values != "exact" or size is not None
    report: Report | None = None
    graph: Mapping[str, Any] | None = None
    format_ = 1
    tensors: Any
    if isinstance(model, str | os.PathLike):
        own, arrays = read_graph(model, example, dynamic)
        tensors = arrays
        if calibration is not None:
            own, more, report = to_int8(own, arrays, calibration)
            tensors = {**arrays, **more}
        elif lossy:
            tensors = _without_dead(own, arrays, arrays)
        graph, format_ = _described(own, Stored(tensors), labels)
    elif isinstance(model, nn.Module):
        model = original(model)
        warn_if_unfinished(model)
        if example is None and not weights_only:
            raise SkinnyError(
                "packing a model needs an example input to take its graph from: "
                "pass example=x[:1], or weights_only=True for a file without a graph"
            )
        tensors = dict(to_arrays(model.state_dict()))
        if example is not None and not weights_only:
            taken, extra = _graph(model, example, dynamic)
            taken, constants = with_constants(taken, extra)
            state = {n: _array(t) for n, t in {**model.state_dict(), **constants}.items()}
            tensors |= dict(to_arrays(constants))
            if calibration is not None:
                taken, more, report = to_int8(taken, state, calibration)
                state |= more
                tensors |= more
            elif lossy:
                tensors = _without_dead(taken, tensors, state)
            graph, format_ = _described(taken, Stored(state), labels)
    else:
        if compute != "fp32":
            raise SkinnyError("a state_dict has no graph to compute in int8; pass the model itself")
        if example is not None:
            raise SkinnyError("a state_dict has no graph; pass the model itself with an example")
        tensors = to_arrays(model)
    described: dict[str, Any] = {
        "graph": graph,
        "format": format_,
        "labels": labels,
        "preprocessing": preprocessing,
        "config_hash": config_hash,
        "sparsity": sparsity,
    }
    if size is not None:
        packing.write_within(size, path, tensors, **described)
    else:
        kinds = _kinds(values, graph) if report is not None else values
        packing.write(path, tensors, values=kinds, signed_zeros=signed_zeros, **described)
    return report


def _described(
    graph: Graph, tensors: Stored, labels: list[str] | None
) -> tuple[dict[str, Any], int]:
    if labels is not None:
        check_labels(labels, graph, tensors)
    return graph_record(graph, tensors)


def _without_dead(
    graph: Graph, tensors: Mapping[str, Any], arrays: Mapping[str, np.ndarray[Any, Any]]
) -> dict[str, Any]:
    """The tensors with zeros, which take few bytes, for float32 weights and biases without
    effect."""
    tied = {own.name for own in tensors.values() if isinstance(own, packing.Tied)}
    single = {  # others are float32 in `arrays` alone
        name
        for name, own in tensors.items()
        if isinstance(own, np.ndarray) and own.dtype == np.float32
    }
    return dict(tensors) | without_dead_weights(graph, arrays, (arrays.keys() - single) | tied)


def _check_compute(compute: str, calibration: Calibration | None, size: int | None) -> None:
    if compute != "int8":
        raise SkinnyError(f"compute is {compute!r}; it may be 'fp32' or 'int8'")
    if calibration is None:
        raise SkinnyError(
            "compute='int8' needs calibration: batches of typical inputs, or ranges by weight name"
        )
    if size is not None:
        raise SkinnyError("size chooses other bits than compute='int8' has: give one of them")


def _kinds(values: Values, graph: Any) -> Values | dict[str, Values]:
    """Weights of layers in int8 are stored as what they are computed with."""
    if values != "exact":
        return values
    return {n["weight"]: "int8" for n in graph["nodes"] if n["op"] in INT8_OPS}


def check(model: nn.Module, example: Example, *, dynamic: Dynamic | None = None) -> None:
    """Raises an `UnsupportedOperationError` naming all operations of the model that a packed graph
    cannot express, and the modules that use them: before training, not after."""
    _graph(original(model), example, dynamic)


def _graph(
    model: nn.Module, example: Example, dynamic: Dynamic | None
) -> tuple[Graph, dict[str, Tensor]]:
    if isinstance(model, torch.jit.ScriptModule):
        raise UnsupportedOperationError(
            "a model of TorchScript has no graph that torch.export can take: give the module that "
            "it was made from (weights_only=True packs it without a graph)"
        )
    with paused(model):  # a graph is that of the plain network
        return take_graph(model, Examples(model, example, dynamic))


def unpack(path: str | os.PathLike[str]) -> dict[str, Tensor]:
    """The state_dict of a packed file, as it was packed.

    Tied tensors share memory again. `skinny.packing.to_safetensors` does without torch.
    """
    with packing.open(path) as file:
        state: dict[str, Tensor] = {}
        for name in file.names:
            if name.startswith(CONSTANT):  # of the graph alone
                continue
            other = file.tied.get(name)
            state[name] = (
                to_tensor(file.read(name), file.entry(name).dtype)
                if other is None
                else state[other]
            )
        return state


def _array(tensor: Tensor) -> np.ndarray[Any, Any]:
    plain = tensor.detach().cpu()
    wide = plain.float() if plain.is_floating_point() else plain
    return np.asarray(wide.numpy(), own_dtype(tensor.dtype))
