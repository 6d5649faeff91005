"""Graphs of one node, run by references, by ONNX Runtime, and after being imported from ONNX."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from skinny import graph as G
from skinny.export import onnx_import
from skinny.export.onnx_writer import Writer
from skinny.graph.graph import Graph, Input, Node, complete
from skinny.graph.values import Spec, spec_of


def frozen(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def specs_of(tensors: Mapping[str, np.ndarray]) -> Any:
    return lambda name: spec_of(tensors[name]) if name in tensors else None


def graph_of(op: str, inputs: tuple[Any, ...], attributes: dict[str, Any],
             outputs: int = 1) -> Graph:  # fmt: skip
    """A graph of one node; numbers among the inputs are literals. There is always an input."""
    operands = [f"x{at}" if isinstance(x, np.ndarray) else x for at, x in enumerate(inputs)]
    declared = [
        Input(
            f"x{at}",
            str(x.dtype),
            tuple(_side(side, at, axis) for axis, side in enumerate(x.shape)),
        )
        for at, x in enumerate(inputs)
        if isinstance(x, np.ndarray)
    ]
    names = tuple(f"y{at}" for at in range(outputs))
    given = complete(op, {k: frozen(v) for k, v in attributes.items()}, op)
    node = Node(op, tuple(operands), names, given)
    return Graph(tuple(declared) or (Input("unused", "float32", (1,)),), (node,), names)


def _side(side: int, at: int, axis: int) -> int | str:
    """An input declares no size of 0, but a free size may be 0."""
    return side or f"free_{at}_{axis}"


def feeds(graph: Graph, inputs: tuple[Any, ...]) -> dict[str, np.ndarray]:
    given = {f"x{at}": x for at, x in enumerate(inputs) if isinstance(x, np.ndarray)}
    return given or {"unused": np.zeros(1, np.float32)}


def run(graph: Graph, given: Mapping[str, np.ndarray], tensors: Mapping[str, np.ndarray]) -> Any:
    return G.run(graph, given, specs_of(tensors), tensors.__getitem__)


def onnx_bytes(graph: Graph, tensors: Mapping[str, np.ndarray], sizes: Any = None) -> bytes:
    writer = Writer(graph, sizes or {}, specs_of(tensors), tensors.__getitem__)
    return bytes(writer.model().SerializeToString())


def run_onnx(model: bytes, given: Mapping[str, np.ndarray]) -> list[np.ndarray]:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    wanted = {value.name for value in session.get_inputs()}
    return list(session.run(None, {k: v for k, v in given.items() if k in wanted}))


def run_imported(model: bytes, folder: Any, given: Mapping[str, np.ndarray]) -> Any:
    path = folder / "model.onnx"
    path.write_bytes(model)
    graph, tensors = onnx_import.read(path, {name: x.shape for name, x in given.items()})
    names = {value.name for value in graph.inputs}
    return run(graph, {k: v for k, v in given.items() if k in names}, tensors)


def same(got: Any, want: Any, tolerance: float = 1e-5) -> None:
    got, want = np.asarray(got), np.asarray(want)
    assert got.shape == want.shape
    assert got.dtype == want.dtype
    if got.dtype.kind == "f":
        np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance)
    else:
        np.testing.assert_array_equal(got, want)


__all__ = ["Spec", "feeds", "graph_of", "onnx_bytes", "run", "run_imported", "run_onnx", "same",
           "specs_of"]  # fmt: skip
