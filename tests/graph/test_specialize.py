"""A graph for given sizes: sizes are numbers, constants are computed, dead nodes are dropped."""

import numpy as np
import pytest
import torch
from tests.graph import running

from skinny import graph as G
from skinny.graph.specialize import MOST_FOLDED, SMALL, Specializer
from skinny.graph.values import own_dtype, promoted, spec_of


def graph(nodes, outputs=("y",), shape=("batch", "length"), tensors=None):
    inputs = [{"name": "x", "shape": list(shape), "dtype": "float32"}]
    record = {"inputs": inputs, "nodes": nodes, "outputs": list(outputs)}
    return G.from_json(record, running.specs_of(tensors or {}))


def node(op, inputs, output, **attributes):
    return {"op": op, "inputs": inputs, "output": output, **attributes}


def specialize(made, shape, tensors=None):
    tensors = tensors or {}
    return G.specialize(made, {"x": shape}, running.specs_of(tensors), tensors.__getitem__)


SIZES = [
    node("size", ["x"], "n", axis=1),
    node("floor_divide", ["n", 2], "half"),
    node("slice", ["x"], "y", axis=1, end="half"),
]


def test_sizes_that_are_values_become_integers():
    special = specialize(graph(SIZES), (3, 10))
    (kept,) = special.nodes
    assert kept["end"] == 5
    assert special.specs["y"].shape == (3, 5)
    assert not special.constants  # nobody reads them any more
    assert specialize(graph(SIZES), (1, 4)).specs["y"].shape == (1, 2)


def test_a_size_left_null_is_that_of_the_first_input():
    made = graph([node("reshape", ["x"], "y", shape=[None, 2, -1])])
    assert specialize(made, (3, 10)).nodes[0]["shape"] == (3, 2, -1)


def test_constants_are_computed_and_nodes_that_nobody_needs_are_dropped():
    tensors = {"t": np.array([1, 2], np.float32)}
    made = graph(
        [
            node("constant", [], "c", tensor="t"),
            node("mul", ["c", 3], "three"),
            node("exp", ["x"], "unused"),
            node("add", ["x", "three"], "y"),
        ],
        tensors=tensors,
        shape=("batch", 2),
    )
    special = specialize(made, (1, 2), tensors)
    assert [kept.op for kept in special.nodes] == ["add"]
    np.testing.assert_array_equal(special.constants["three"], [3, 6])
    (y,) = running.run(made, {"x": np.zeros((1, 2), np.float32)}, tensors)
    np.testing.assert_array_equal(y, [[3, 6]])


def test_an_output_may_be_a_constant():
    made = graph([node("shape", ["x"], "y")])
    (y,) = running.run(made, {"x": np.zeros((4, 7), np.float32)}, {})
    np.testing.assert_array_equal(y, [4, 7])


def test_an_input_may_be_an_output_and_be_returned_twice():
    made = graph([], outputs=("x", "x"))
    x = np.ones((1, 2), np.float32)
    assert [y is x for y in running.run(made, {"x": x}, {})] == [True, True]


def test_large_constants_stay_nodes_and_small_ones_are_always_computed():
    spec = running.specs_of({})
    work = Specializer({"x": G.Spec("float32", (1,))}, spec, {}.__getitem__,
                       most_folded=2 * SMALL, room=64 * SMALL)  # fmt: skip
    emit = lambda at, n: work.add(  # noqa: E731
        graph([node("full", [], f"c{at}", shape=[n], value=1, dtype="bool"),
               node("relu", ["x"], "y")]).nodes[0])  # fmt: skip
    assert emit(0, 2 * SMALL + 1) is not None
    folded = [emit(at, 2 * SMALL) is None for at in range(1, 40)]
    assert folded == [True] * 32 + [False] * 7
    assert emit(99, SMALL) is None
    assert 2 * SMALL < MOST_FOLDED


def test_a_size_that_depends_on_the_values_is_refused():
    made = graph(
        [
            node("argmax", ["x"], "n", axis=0),
            node("max", ["n"], "most"),
            node("slice", ["x"], "y", axis=1, end="most"),
        ]
    )
    with pytest.raises(G.GraphError, match=r"node 2 \(slice\).*depends on the input's values"):
        specialize(made, (2, 3))


@pytest.mark.parametrize(
    ("value", "says"),
    [
        (node("full", [], "n", shape=[2], value=1, dtype="int64"), "not a single integer"),
        (node("full", [], "n", shape=[], value=1.5, dtype="float32"), "not a single integer"),
    ],
)
def test_a_size_is_a_single_integer(value, says):
    made = graph([value, node("slice", ["x"], "y", axis=1, end="n")])
    with pytest.raises(G.GraphError, match=says):
        specialize(made, (2, 3))


def test_an_error_names_the_node_and_what_it_is_given():
    made = graph([node("relu", ["x"], "z"), node("permute", ["z"], "y", axes=[0, 1, 2])])
    with pytest.raises(G.GraphError, match=r"node 1 \(permute\) .* given float32 \[2, 3\]"):
        specialize(made, (2, 3))


def test_a_constant_index_outside_is_refused():
    made = graph(
        [
            node("arange", [], "i", end=9),
            node("full", [], "c", shape=[4], value=1, dtype="float32"),
            node("gather_rows", ["c", "i"], "y", axis=0),
        ]
    )
    with pytest.raises(G.GraphError, match=r"node 2 \(gather_rows\): an index lies outside the 4"):
        specialize(made, (2, 3))


@pytest.mark.parametrize(
    ("shapes", "says"),
    [
        ({}, "'a' is not given"),
        ({"a": (2, 3), "b": (2, 5)}, r"'b' is of shape \[2, 5\]; it must be \[2, 3, 4\]"),
        ({"a": (2, 3), "b": (3, 3, 4)}, r"it must be \[2, 3, 4\]"),
        ({"a": (2, 3), "b": (2, 3, 5)}, r"it must be \[2, 3, 4\]"),
        ({"a": (2, 3), "b": (2, 3, 4), "c": ()}, "no input 'c'"),
    ],
)
def test_input_shapes_must_be_what_the_graph_declares(shapes, says):
    inputs = [
        {"name": "a", "shape": [None, "length"], "dtype": "float32"},
        {"name": "b", "shape": [None, "length", 4], "dtype": "float32"},
    ]
    record = {"inputs": inputs, "nodes": [], "outputs": ["a"]}
    made = G.from_json(record, running.specs_of({}))
    with pytest.raises(G.GraphError, match=says):
        G.specialize(made, shapes, running.specs_of({}), {}.__getitem__)


VALUES = [
    *(np.ones(2, kind) for kind in ("bool", "uint8", "int8", "int32", "int64", "float32")),
    *(True, 2, 2.5),
]


@pytest.mark.parametrize("first", VALUES, ids=lambda v: str(getattr(v, "dtype", v)))
@pytest.mark.parametrize("second", VALUES, ids=lambda v: str(getattr(v, "dtype", v)))
def test_types_are_promoted_as_in_torch(first, second):
    if not any(isinstance(value, np.ndarray) for value in (first, second)):
        return
    specs = [spec_of(value) for value in (first, second)]
    tensors = [torch.tensor(v) if isinstance(v, np.ndarray) else v for v in (first, second)]
    assert promoted(*specs) == own_dtype(torch.result_type(*tensors))


def test_a_literal_beyond_the_largest_float_is_infinite():
    made = graph([node("mul", ["x", 1e300], "y")])
    (y,) = running.run(made, {"x": np.array([[1, -1]], np.float32)}, {})
    np.testing.assert_array_equal(y, [[np.inf, -np.inf]])
