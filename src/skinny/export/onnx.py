"""Packed files from ONNX models, and ONNX models from packed files. Needs the extra `onnx`, not
torch.

A written model is dense, the zeros in place, and takes what the graph takes: images already scaled
and normalised.
"""

import json
import os
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from skinny import packing
from skinny.errors import SkinnyError
from skinny.export.onnx_import import read
from skinny.export.onnx_writer import Writer, onnx_module
from skinny.files import atomic_write
from skinny.graph import Graph, GraphError, Spec, from_json, specialize
from skinny.graph.values import Array
from skinny.packing.dtypes import COMPUTED

_LARGEST = 2**31 - 1  # protobuf's limit
_TYPICAL = (64, 32, 16, 128, 224, 8)  # sizes to try where a size beside the batch is free


def read_graph(
    path: str | os.PathLike[str],
    example: Any = None,
    dynamic: Mapping[str, Mapping[int, str]] | None = None,
) -> tuple[Graph, dict[str, Array]]:
    """The graph of an ONNX file, and its tensors.

    example: arrays by input name, to fix sizes that the file leaves free, except the batch and
    those that `dynamic` names.
    """
    if example is None and not dynamic:
        graph, arrays = read(path)
    elif isinstance(example, Mapping) and all(hasattr(x, "shape") for x in example.values()):
        shapes = {name: tuple(map(int, x.shape)) for name, x in example.items()}
        graph, arrays = read(path, shapes, dynamic or {})
    else:
        raise SkinnyError(
            "the example of an ONNX file, which dynamic needs, too, is a mapping from the names of "
            f"its inputs to arrays; got {type(example).__name__}"
        )
    return graph, arrays


def to_onnx(packed: str | os.PathLike[str], path: str | os.PathLike[str]) -> None:
    """Write a packed file's network as an ONNX model, its free sizes free."""
    onnx = onnx_module()
    with packing.open(packed) as file:
        if file.graph is None:
            raise SkinnyError(f"{packed} holds weights without a graph, which ONNX needs")

        def spec(name: str) -> Spec | None:
            if name not in file.names:
                return None
            entry = file.entry(name)
            return Spec(COMPUTED[entry.dtype], entry.shape)

        def tensor(name: str) -> Array:
            dtype = COMPUTED[file.entry(name).dtype]
            read = file.read_float32 if dtype == "float32" else file.read
            return np.asarray(read(name), dtype, order="C")

        graph = from_json(file.graph, spec)
        model = Writer(graph, _sample(graph, spec, tensor), spec, tensor).model()
        if file.labels is not None:
            model.metadata_props.add(key="labels", value=json.dumps(file.labels))
        if file.preprocessing is not None:
            model.metadata_props.add(key="preprocessing", value=json.dumps(file.preprocessing))
    if model.ByteSize() > _LARGEST:
        raise SkinnyError(f"{packed} is larger than the 2 GB an ONNX file can hold")
    onnx.checker.check_model(model)
    try:
        with atomic_write(path) as out:
            out.write(model.SerializeToString())
    except OSError as problem:
        raise SkinnyError(f"cannot write {path}: {problem.strerror or problem}") from problem


def _sample(
    graph: Graph, spec: Callable[[str], Spec | None], tensor: Callable[[str], Array]
) -> dict[str, int]:
    """Free sizes that the graph accepts: two for the batch, a typical one for all others."""
    problem: GraphError | None = None
    for size in _TYPICAL:
        sizes = {name: 2 if name == "batch" else size for name in graph.free_sizes}
        shapes = {
            value.name: tuple(sizes[s] if isinstance(s, str) else s for s in value.shape)
            for value in graph.inputs
        }
        try:
            specialize(graph, shapes, spec, tensor)
            return sizes
        except GraphError as found:
            problem = found
    assert problem is not None
    raise problem
