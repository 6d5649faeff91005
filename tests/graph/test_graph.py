"""Graphs read from JSON: what is accepted, and what hostile files are told."""

import copy
import json
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.graph import running
from tests.graph.cases import CASES

from skinny import graph as G

X = {"name": "x", "shape": [None, 3], "dtype": "float32"}
RELU = {"op": "relu", "inputs": ["x"], "output": "y"}
SPECS = {
    "w": G.Spec("float32", (4, 3)),
    "b": G.Spec("float32", (4,)),
    "none": G.Spec("float32", (0,)),
}


def record(*nodes, inputs=(X,), outputs=("y",), **more):
    return {"inputs": list(inputs), "nodes": list(nodes), "outputs": list(outputs), **more}


def read(value):
    return G.from_json(value, SPECS.get)


def test_a_null_in_a_shape_is_the_batch_and_names_are_free_sizes():
    graph = read(record(RELU, inputs=[{**X, "shape": [None, "length", 3]}]))
    assert graph.free_sizes == ("batch", "length")


def test_attributes_left_out_have_their_default_and_are_left_out_again():
    graph = read(record({"op": "linear", "inputs": ["x"], "output": "y", "weight": "w"}))
    assert graph.nodes[0]["bias"] is None
    assert graph.nodes[0]["transposed"] is False
    (node,) = G.to_json(graph)["nodes"]
    assert node == {"op": "linear", "inputs": ["x"], "output": "y", "weight": "w"}


def test_literals_are_operands_and_sizes_may_be_values():
    graph = read(
        record(
            {"op": "size", "inputs": ["x"], "output": "n", "axis": 0},
            {"op": "mul", "inputs": ["x", 2.5], "output": "m"},
            {"op": "reshape", "inputs": ["m"], "output": "y", "shape": [3, "n"]},
        )
    )
    assert graph.nodes[2].values == ("m", "n")
    assert read(json.loads(json.dumps(G.to_json(graph)))) == graph


def test_several_outputs_are_a_list_and_returns_are_kept():
    split = {"op": "split", "inputs": ["x"], "output": ["y", "z"], "axis": 1, "lengths": [1, 2]}
    value = record(split, outputs=["y", "z"], returns={"a": 0, "rest": [1, None]})
    graph = read(value)
    assert graph.nodes[0].outputs == ("y", "z")
    assert G.to_json(graph) == value | {"inputs": [{**X, "shape": ["batch", 3]}]}


def nested(depth):
    value = 0
    for _ in range(depth):
        value = [value]
    return value


LINEAR = {"op": "linear", "inputs": ["x"], "output": "y", "weight": "w"}
HOSTILE = {
    "not a table": [],
    "fields": {"inputs": [X], "nodes": []},
    "more fields": record(RELU, extra=1),
    "not lists": {"inputs": X, "nodes": {}, "outputs": "y"},
    "no inputs": record(inputs=[], outputs=[]),
    "no outputs": record(RELU, outputs=[]),
    "many outputs": record(RELU, outputs=["y"] * 2000),
    "input without a name": record(RELU, inputs=[{**X, "name": ""}]),
    "input named by a list": record(RELU, inputs=[{**X, "name": ["x"]}]),
    "input of nothing": record(RELU, inputs=[{**X, "shape": [0]}]),
    "input of many axes": record(RELU, inputs=[{**X, "shape": [1] * 9}]),
    "input too large": record(RELU, inputs=[{**X, "shape": [2**40]}]),
    "input of a broken size": record(RELU, inputs=[{**X, "shape": [1.5]}]),
    "input of a true size": record(RELU, inputs=[{**X, "shape": [True]}]),
    "input of objects": record(RELU, inputs=[{**X, "dtype": "object"}]),
    "dtype is a list": record(RELU, inputs=[{**X, "dtype": ["float32"]}]),
    "two inputs of one name": record(RELU, inputs=[X, X]),
    "no operation": record({"inputs": ["x"], "output": "y"}),
    "operation is a number": record({**RELU, "op": 1}),
    "unknown operation": record({**RELU, "op": "system"}),
    "no output": record({"op": "relu", "inputs": ["x"]}),
    "output without a name": record({**RELU, "output": ""}),
    "output is a table": record({**RELU, "output": {}}),
    "no inputs of a node": record({"op": "relu", "output": "y"}),
    "inputs are a text": record({**RELU, "inputs": "x"}),
    "input is a table": record({**RELU, "inputs": [{}]}),
    "input is NaN": record({**RELU, "inputs": [math.nan]}),
    "input is infinite": record({**RELU, "inputs": [math.inf]}),
    "input is huge": record({**RELU, "inputs": [10**400]}),
    "too many inputs": record({**RELU, "inputs": ["x", "x"]}),
    "too few inputs": record({**RELU, "inputs": []}),
    "unknown attribute": record({**RELU, "slope": 1}),
    "attribute missing": record({**LINEAR, "weight": None}),
    "a cycle": record({**RELU, "inputs": ["y"]}),
    "used before it is computed": record({**RELU, "inputs": ["z"]}, {**RELU, "output": "z"}),
    "assigned twice": record(RELU, RELU),
    "assigns an input": record({**RELU, "output": "x"}, outputs=["x"]),
    "output that nothing computes": record(RELU, outputs=["z"]),
    "output is a list": record(RELU, outputs=[["y"]]),
    "tensor that does not exist": record({**LINEAR, "weight": "nothing"}),
    "tensor of another rank": record({**LINEAR, "weight": "b"}),
    "tensor named by a number": record({**LINEAR, "weight": 3}),
    "tensor without elements": record({"op": "constant", "inputs": [], "output": "y",
                                       "tensor": "none"}),
    "size that nothing computes": record({"op": "reshape", "inputs": ["x"], "output": "y",
                                          "shape": ["z"]}),
    "size without a name": record({"op": "reshape", "inputs": ["x"], "output": "y",
                                   "shape": [""]}),
    "many sizes": record({"op": "reshape", "inputs": ["x"], "output": "y", "shape": [1] * 20}),
    "sizes in sizes": record({"op": "reshape", "inputs": ["x"], "output": "y", "shape": [[1]]}),
    "size of NaN": record({"op": "reshape", "inputs": ["x"], "output": "y", "shape": [math.nan]}),
    "negative slope is infinite": record({**RELU, "op": "leaky_relu", "slope": math.inf}),
    "returns another output": record(RELU, returns=[1]),
    "returns a text": record(RELU, returns={"a": "y"}),
    "returns true": record(RELU, returns=[True]),
    "returns nested deeply": record(RELU, returns=nested(900)),
    "very many nodes": record(*[RELU] * 70000),
}  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_graph_is_refused(name):
    with pytest.raises(G.GraphError):
        read(HOSTILE[name])


JUNK = st.sampled_from(
    [None, True, -1, 0, 7, 2**31, 2**70, 1e308, math.nan, "", "x0", "y0", "n" * 99, [], {}, [[]],
     [None, -1], ["x0"], {"a": 1}, [2**31] * 8]
)  # fmt: skip


def places(value, path=()):
    yield path
    if isinstance(value, dict | list):
        for key in value if isinstance(value, dict) else range(len(value)):
            yield from places(value[key], (*path, key))


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(sorted(CASES)), st.data())
def test_a_damaged_graph_is_refused_or_can_be_specialized_without_a_surprise(op, data):
    case = CASES[op][data.draw(st.integers(0, len(CASES[op]) - 1))]
    graph = running.graph_of(op, case.inputs, case.attributes, case.outputs)
    value = copy.deepcopy(G.to_json(graph))
    for _ in range(data.draw(st.integers(1, 2))):
        path = data.draw(st.sampled_from([at for at in places(value) if at]))
        parent = value
        for key in path[:-1]:
            parent = parent[key]
        parent[path[-1]] = copy.deepcopy(data.draw(JUNK))
    spec = running.specs_of(case.tensors)
    try:
        changed = G.from_json(value, spec)
        sizes = dict.fromkeys(changed.free_sizes, 2)
        shapes = {
            v.name: tuple(sizes[s] if isinstance(s, str) else s for s in v.shape)
            for v in changed.inputs
        }
        G.specialize(changed, shapes, spec, case.tensors.__getitem__)
    except G.GraphError:
        pass
