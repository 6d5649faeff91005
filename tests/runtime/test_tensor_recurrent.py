"""Recurrent layers against their references."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.graph import running
from tests.runtime.native_graphs import mixed
from tests.runtime.tensors import Workbench

from skinny._native import LinearWeights
from skinny.graph import Node
from skinny.graph.graph import Graph, Input, complete

GATES = {"lstm": 4, "gru": 3}


def layer(op, length, batch, features, size, *, density=1.0, biased=True, reverse=False, seed=0):
    rng = np.random.default_rng(seed)

    def floats(*shape):
        return rng.standard_normal(shape).astype(np.float32)

    rows = GATES[op] * size
    # larger weights of the state would amplify the rounding of a moment in all moments after it
    tensors = {"w": floats(rows, features), "u": floats(rows, size) / np.float32(size**0.5)}
    for name, weight in tensors.items():
        tensors[name] = np.where(rng.random(weight.shape) < density, weight, np.float32(0))
    attributes = {"weight_input": "w", "weight_hidden": "u", "reverse": reverse}
    if biased:
        tensors |= {"b": floats(rows), "d": floats(rows)}
        attributes |= {"bias_input": "b", "bias_hidden": "d"}
    given = {"x": floats(length, batch, features), "h": floats(batch, size)}
    if op == "lstm":
        given["c"] = floats(batch, size)
    results = ("y", *(f"last {name}" for name in list(given)[1:]))
    node = Node(op, tuple(given), results, complete(op, attributes, op))
    inputs = tuple(Input(name, "float32", array.shape) for name, array in given.items())
    return Graph(inputs, (node,), results), given, tensors


def check(graph, given, tensors, threads):
    want = running.run(graph, given, tensors)
    made = mixed(graph, given, tensors, threads=threads)
    assert not any(isinstance(item, Node) for item in made.items)
    for got, expected in zip(made.run(given), want, strict=True):
        running.same(got, expected, 1e-5)


@settings(max_examples=80, deadline=None)
@given(data=st.data())
@pytest.mark.parametrize("op", GATES)
def test_any_recurrent_layer_equals_the_reference(op, data):
    length, batch = data.draw(st.integers(1, 12)), data.draw(st.integers(1, 5))
    features, size = data.draw(st.integers(1, 20)), data.draw(st.integers(1, 70))
    graph, given, tensors = layer(
        op,
        length,
        batch,
        features,
        size,
        density=data.draw(st.sampled_from([0.0, 0.1, 1.0])),
        biased=data.draw(st.booleans()),
        reverse=data.draw(st.booleans()),
        seed=data.draw(st.integers(0, 9)),
    )
    check(graph, given, tensors, data.draw(st.integers(1, 3)))


@pytest.mark.parametrize("op", GATES)
@pytest.mark.parametrize("reverse", [False, True])
def test_a_long_sequence_through_a_sparse_layer_equals_the_reference(op, reverse):
    graph, given, tensors = layer(op, 150, 3, 40, 96, density=0.1, reverse=reverse)
    check(graph, given, tensors, 2)


@pytest.mark.parametrize("op", GATES)
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1e30])
def test_what_is_not_finite_stays_in_its_sample_and_in_the_moments_after_it(op, value):
    graph, given, tensors = layer(op, 6, 3, 5, 9)
    given["x"][3, 1] = value
    with np.errstate(invalid="ignore", over="ignore"):
        check(graph, given, tensors, 2)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"projected": (4, 2, 11)}, "sizes of a recurrent layer must agree"),
        ({"projected": (4, 3, 12)}, "sizes of a recurrent layer must agree"),
        ({"target": (5, 2, 3)}, "sizes of a recurrent layer must agree"),
        ({"h": (2, 4)}, "sizes of a recurrent layer must agree"),
        ({"last_c": (3, 3)}, "sizes of a recurrent layer must agree"),
        ({"last_c": None}, "first and a last cell state"),
    ],
)
def test_sizes_that_do_not_agree_are_refused(changed, message):
    bench = Workbench()
    shapes = {"projected": (4, 2, 12), "target": (4, 2, 3)}
    shapes |= dict.fromkeys(("h", "c", "last_h", "last_c"), (2, 3))
    shapes |= changed
    tensors = {
        name: None if shape is None else bench.place(shape) for name, shape in shapes.items()
    }
    with pytest.raises(ValueError, match=message):
        bench.program.add_recurrent(
            **tensors,
            weights=LinearWeights(dense=np.ones((12, 3), np.float32)),
            bias=np.zeros(12, np.float32),
            reverse=False,
        )


def test_a_state_must_not_be_written_over_what_is_read():
    bench = Workbench()
    projected, h, target = bench.place((4, 2, 9)), bench.place((2, 3)), bench.place((4, 2, 3))
    with pytest.raises(ValueError, match="must not write what it reads"):
        bench.program.add_recurrent(
            projected=projected,
            h=h,
            c=None,
            target=target,
            last_h=h,
            last_c=None,
            weights=LinearWeights(dense=np.ones((9, 3), np.float32)),
            bias=np.zeros(9, np.float32),
            reverse=False,
        )
