"""Shape rules on random and nasty shapes: they refuse, or the reference has that very shape."""

from types import SimpleNamespace

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.graph import running
from tests.graph.cases import CASES

from skinny import graph as G
from skinny.graph.registry import operation

SIDES = st.sampled_from([0, 1, 1, 2, 3, 4, 6])
SHAPES = st.lists(SIDES, max_size=5).map(tuple)
NUMBERS = st.sampled_from([-9, -3, -2, -1, 0, 1, 2, 3, 4, 7, 30])
TUPLES = st.lists(NUMBERS, max_size=4).map(tuple)
DTYPES = st.sampled_from(["bool", "uint8", "int8", "int32", "int64", "float32"])
MOST = 100_000  # elements that a test computes


def array(draw, like):
    """The array itself, one of its rank and type, or any other."""
    what = draw(st.sampled_from(["itself", "sides", "anything"]))
    if what == "itself" or not isinstance(like, np.ndarray):
        return like
    if what == "sides":
        shape, dtype = tuple(draw(SIDES) for _ in like.shape), str(like.dtype)
    else:
        shape, dtype = draw(SHAPES), draw(DTYPES)
    return np.random.default_rng(1).integers(0, 4, shape).astype(dtype)


def attribute(draw, value):
    if isinstance(value, bool):
        return draw(st.booleans())
    if isinstance(value, int):
        return draw(st.one_of(st.just(value), NUMBERS))
    if isinstance(value, tuple):
        nudged = st.tuples(*(st.one_of(st.just(item), NUMBERS) for item in value))
        return draw(st.one_of(st.just(value), nudged, TUPLES))
    return value


@settings(max_examples=600, deadline=None)
@given(st.sampled_from(sorted(CASES)), st.data())
def test_a_shape_rule_refuses_or_tells_the_shape_that_the_reference_has(op, data):
    case = CASES[op][data.draw(st.integers(0, len(CASES[op]) - 1))]
    inputs = tuple(array(data.draw, like) for like in case.inputs)
    stored = operation(op).stored
    attributes = {
        name: value if name in stored else attribute(data.draw, value)
        for name, value in case.attributes.items()
    }
    tensors = {name: array(data.draw, like) for name, like in case.tensors.items()}
    try:
        graph = running.graph_of(op, inputs, attributes, case.outputs)
        shapes = {name: x.shape for name, x in running.feeds(graph, inputs).items()}
        spec, tensor = running.specs_of(tensors), tensors.__getitem__
        G.check(graph, spec)
        special = G.specialize(graph, shapes, spec, tensor)
        if all(special.specs[name].size <= MOST for name in graph.outputs):
            running.run(graph, running.feeds(graph, inputs), tensors)  # asserts the shape
    except G.GraphError:
        pass


def test_no_index_looks_up_no_row():
    table = SimpleNamespace(weight=np.ones((7, 4)), weight_scale=np.ones(7))
    found = operation("embedding_int8").reference(table, np.zeros((0, 0), np.int64))
    assert found.shape == (0, 0, 4)
