"""What references take beside their results, as measured, is within what the registry says."""

import math
import tracemalloc

import numpy as np
import pytest
from tests.graph import running
from tests.graph.cases import CASES

from skinny.graph import GraphError
from skinny.graph.graph import Node, complete
from skinny.graph.registry import operation
from skinny.graph.specialize import Specializer, attributes_of, evaluate
from skinny.graph.values import spec_of

OVERHEAD = 400_000  # bytes of Python's own, and of slices
MOST = 2_000_000  # elements


def enlarged(op, case, factor):
    """The case's inputs, repeated along an axis that the operation leaves alone."""
    recurrent = op in ("lstm", "gru")
    made = []
    for x in case.inputs:
        if isinstance(x, np.ndarray) and x.ndim and not (op == "attention" and x.ndim == 2):
            x = np.repeat(x, factor, 1 if recurrent and x.ndim == 3 else 0)
        made.append(x)
    return made


def node_of(op, case, inputs):
    """The node for these inputs and its specs; None if it cannot take them."""
    operands = tuple(f"x{i}" if isinstance(x, np.ndarray) else x for i, x in enumerate(inputs))
    given = complete(op, {k: running.frozen(v) for k, v in case.attributes.items()}, op)
    node = Node(op, operands, tuple(f"y{i}" for i in range(case.outputs)), given)
    specs = {f"x{i}": spec_of(x) for i, x in enumerate(inputs) if isinstance(x, np.ndarray)}
    tensors = running.specs_of(case.tensors)
    work = Specializer(specs, tensors, case.tensors.__getitem__, most_folded=0)
    try:
        node = work.add(node)
    except GraphError:
        return None
    return node, [specs[f"y{i}"] for i in range(case.outputs)]


@pytest.mark.parametrize("op", sorted(CASES))
def test_a_reference_takes_no_more_than_its_workspace(op):
    entry = operation(op)
    for case in CASES[op]:
        for factor in (4000, 400, 40):
            inputs = enlarged(op, case, factor)
            found = node_of(op, case, inputs)
            if found is None or found[0] is None:
                continue
            node, outputs = found
            if (
                sum(spec.size for spec in map(spec_of, inputs)) + sum(s.size for s in outputs)
                > MOST
            ):
                continue
            tracemalloc.start()
            evaluate(node, case.tensors.__getitem__, list(inputs), tuple(outputs))
            peak = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
            attributes = attributes_of(node, entry, running.specs_of(case.tensors))
            said = entry.workspace_bytes(attributes, [spec_of(x) for x in inputs], outputs)
            assert peak <= sum(spec.bytes for spec in outputs) + said + OVERHEAD
            break


def run(op, x, tensors=None, outputs=1, **attributes):
    tensors = tensors or {}
    graph = running.graph_of(op, (x,), attributes, outputs)
    return running.run(graph, running.feeds(graph, (x,)), tensors)


@pytest.mark.parametrize("op", ["max_pool", "avg_pool", "adaptive_max_pool", "adaptive_avg_pool"])
def test_pooling_takes_no_loop_over_all_its_outputs(op):
    """Which would never end here."""
    windows = {"kernel": (2,), "stride": (1,), "padding": (1,), "ceil": False}
    more = {"max_pool": {"dilation": (1,)}, "avg_pool": {"count_include_pad": False}}
    given = {**windows, **more[op]} if op in more else {"size": (3,)}
    x = np.zeros((1, 1, 30_000_000), np.int8)
    (y,) = run(op, x, **given)
    assert y.shape == (1, 1, 30_000_001 if op in more else 3)


def test_resizing_makes_nothing_larger_than_input_and_output():
    x = np.ones((1, 1, 1, 1_000_000), np.float32)
    tracemalloc.start()
    (y,) = run("resize", x, size=(4000, 1), mode="linear")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert y.shape == (1, 1, 4000, 1)
    assert peak < 100 * x.size


def test_the_zeros_between_the_inputs_of_a_transposed_convolution_count():
    """Of 8 inputs a result of one element: but 69 thousand million zeros on the way."""
    entry = operation("conv_transpose")
    given = complete("conv_transpose", {
        "weight": "w", "bias": None, "stride": (4096,) * 3, "padding": (2048,) * 3,
        "dilation": (1,) * 3, "groups": 1, "output_padding": (0,) * 3,
    }, "")  # fmt: skip
    node = Node("conv_transpose", ("x",), ("y",), given)
    spec = running.specs_of({"w": np.zeros((1, 1, 1, 1, 1), np.float32)})
    attributes, x = attributes_of(node, entry, spec), spec_of(np.zeros((1, 1, 2, 2, 2), np.float32))
    assert math.prod(entry.infer(attributes, x).shape) == 1
    assert entry.workspace_bytes(attributes, [x], []) > 4 * 4097**3


def test_a_sequence_without_end_is_refused():
    tensors = {"a": np.ones((4, 1), np.float32), "b": np.ones((4, 1), np.float32)}
    x, h = np.zeros((200_000, 1, 1), np.float32), np.zeros((1, 1), np.float32)
    given = {"weight_input": "a", "weight_hidden": "b"}
    graph = running.graph_of("lstm", (x, h, h), given, 3)
    with pytest.raises(GraphError, match="longer than 131072"):
        running.run(graph, running.feeds(graph, (x, h, h)), tensors)


def test_offsets_of_bags_must_rise():
    tensors = {"weight": np.ones((3, 2), np.float32)}
    inputs = (np.array([0, 1, 2]), np.array([0, 2, 1]))
    graph = running.graph_of("embedding_bag", inputs, {"weight": "weight", "mode": "sum"})
    with pytest.raises(GraphError, match="offsets must rise"):
        running.run(graph, running.feeds(graph, inputs), tensors)
