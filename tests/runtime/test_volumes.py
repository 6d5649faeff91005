"""Convolutions and pooling of volumes run natively and compute what their references do."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.graph import running
from tests.runtime.native_graphs import mixed

from skinny.graph import Node
from skinny.graph.graph import Graph, Input, complete


def triple(low, high):
    return st.tuples(*[st.integers(low, high)] * 3)


def check(op, x, attributes, tensors):
    nodes = (
        Node(op, ("x",), ("y",), complete(op, attributes, op)),
        Node("relu", ("y",), ("z",), {}),
    )
    graph = Graph((Input("x", "float32", x.shape),), nodes, ("z",))
    want = running.run(graph, {"x": x}, tensors)
    made = mixed(graph, {"x": x}, tensors, threads=2)
    assert not any(isinstance(item, Node) for item in made.items)
    running.same(made.run({"x": x})[0], want[0], 1e-4)


@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_any_convolution_of_volumes(data):
    groups = data.draw(st.sampled_from([1, 1, 2, 3]))
    inputs, outputs = (groups * data.draw(st.integers(1, 5)) for _ in range(2))
    kernel, stride, dilation, padding = (
        data.draw(triple(*limits)) for limits in ((1, 3), (1, 3), (1, 2), (0, 2))
    )
    sides = [
        data.draw(st.integers(max(1, d * (k - 1) + 1 - 2 * p), 9))
        for k, d, p in zip(kernel, dilation, padding, strict=True)
    ]
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    x = rng.standard_normal((data.draw(st.integers(1, 3)), inputs, *sides)).astype(np.float32)
    weight = rng.standard_normal((outputs, inputs // groups, *kernel)).astype(np.float32)
    weight[rng.random(weight.shape) < data.draw(st.sampled_from([0.0, 0.8]))] = 0
    tensors = {"w": weight, "b": rng.standard_normal(outputs).astype(np.float32)}
    attributes = {
        "weight": "w", "bias": "b", "groups": groups, "stride": stride, "padding": padding,
        "dilation": dilation,
    }  # fmt: skip
    check("conv", x, attributes, tensors)


@pytest.mark.parametrize(
    ("op", "attributes"),
    [
        ("max_pool", {"kernel": (2, 3, 2), "stride": (1, 2, 2), "padding": (1, 1, 0),
                      "dilation": (1, 1, 2), "ceil": False}),
        ("max_pool", {"kernel": (3, 3, 3), "stride": (2, 2, 2), "padding": (1, 1, 1),
                      "dilation": (1, 1, 1), "ceil": True}),
        ("avg_pool", {"kernel": (2, 3, 2), "stride": (2, 2, 1), "padding": (1, 1, 1), "ceil": True,
                      "count_include_pad": True, "divisor": None}),
        ("avg_pool", {"kernel": (3, 2, 3), "stride": (1, 2, 2), "padding": (1, 1, 1), "ceil": True,
                      "count_include_pad": False, "divisor": None}),
        ("avg_pool", {"kernel": (2, 2, 2), "stride": (2, 2, 2), "padding": (0, 0, 0),
                      "ceil": False, "count_include_pad": True, "divisor": 5}),
        ("adaptive_avg_pool", {"size": (2, 3, 4)}),
        ("adaptive_max_pool", {"size": (3, 1, 2)}),
        ("adaptive_avg_pool", {"size": (1, 1, 1)}),
    ],
)  # fmt: skip
@pytest.mark.parametrize("shape", [(1, 1, 5, 6, 7), (3, 2, 7, 5, 6)])
def test_pooling_of_volumes(op, attributes, shape):
    x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    check(op, x, attributes, {})
