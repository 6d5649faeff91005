"""Every operation: shape rule, reference, torch, ONNX both ways, JSON."""

import json

import numpy as np
import pytest
import torch
from tests.graph import running
from tests.graph.cases import CASES

from skinny import graph as G
from skinny.graph.registry import operation

ALL = [
    pytest.param(op, case, id=f"{op}-{at}")
    for op, cases in CASES.items()
    for at, case in enumerate(cases)
]


def graph_and_feeds(op, case):
    graph = running.graph_of(op, case.inputs, case.attributes, case.outputs)
    return graph, running.feeds(graph, case.inputs)


@pytest.mark.parametrize(("op", "case"), ALL)
def test_the_reference_has_the_inferred_type_and_shape_and_json_changes_nothing(op, case):
    graph, given = graph_and_feeds(op, case)
    spec, tensor = running.specs_of(case.tensors), case.tensors.__getitem__
    shapes = {name: array.shape for name, array in given.items()}
    specs = G.specialize(graph, shapes, spec, tensor).specs
    for name, array in zip(graph.outputs, running.run(graph, given, case.tensors), strict=True):
        assert (str(array.dtype), array.shape) == specs[name][:2]
    record = json.loads(json.dumps(G.to_json(graph)))
    assert G.from_json(record, spec) == graph


@pytest.mark.parametrize(
    ("op", "case"), [param for param in ALL if param.values[1].torch is not None]
)
def test_the_reference_computes_what_torch_computes(op, case):
    graph, given = graph_and_feeds(op, case)
    inputs = [torch.tensor(x) if isinstance(x, np.ndarray) else x for x in case.inputs]
    stored = {name: torch.tensor(array) for name, array in case.tensors.items()}
    named = {k: stored[v] for k, v in case.attributes.items() if k in operation(op).stored}
    want = case.torch(*inputs, **named)
    want = want if isinstance(want, tuple | list) else (want,)
    for got, expected in zip(running.run(graph, given, case.tensors), want, strict=True):
        running.same(got, expected.numpy())


@pytest.mark.parametrize(("op", "case"), ALL)
def test_onnx_computes_the_same_and_comes_back(op, case, tmp_path):
    graph, given = graph_and_feeds(op, case)
    if not case.exports:
        return
    want = running.run(graph, given, case.tensors)
    model = running.onnx_bytes(graph, case.tensors, dict.fromkeys(graph.free_sizes, 0))
    if not any(0 in np.shape(x) for x in case.inputs):  # ONNX Runtime refuses some empty tensors
        for got, expected in zip(running.run_onnx(model, given), want, strict=True):
            running.same(got, expected)
    for got, expected in zip(running.run_imported(model, tmp_path, given), want, strict=True):
        running.same(got, expected)
