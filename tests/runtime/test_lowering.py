"""Every lowering computes what its operation's reference computes."""

import numpy as np
import pytest
from tests.graph import running
from tests.graph.cases import CASES
from tests.runtime.native_graphs import check, graph_of, mixed, nodes, random, steps

from skinny.graph import Node, operation, operations
from skinny.graph.graph import Graph
from skinny.runtime.lowering import LOWERINGS

VIEWS = ("view", "reshape", "split")
NATIVE = [op for op in CASES if operation(op).lowering]
# natively where what they are given is known ahead, which the cases do not say (test_lookups.py)
BY_CONSTANTS = ("embedding_bag", "index", "gather_rows")


def test_the_registry_names_every_lowering_and_every_named_one_exists():
    assert {entry.lowering for entry in operations().values()} - {""} == set(LOWERINGS)


def graph_and_feeds(op, case):
    """The operation alone; a view followed by a sum, because NumPy does views alone."""
    graph = running.graph_of(op, case.inputs, case.attributes, case.outputs)
    given = running.feeds(graph, case.inputs)
    if operation(op).lowering in VIEWS:
        after = nodes(*(("add", (y, 1.5), (f"{y}+",), {}) for y in graph.outputs))
        sums = tuple(f"{y}+" for y in graph.outputs)
        graph = Graph(graph.inputs, (*graph.nodes, *after), sums)
    return graph, given


@pytest.mark.parametrize(
    ("op", "case"),
    [pytest.param(op, c, id=f"{op}-{at}") for op in NATIVE for at, c in enumerate(CASES[op])],
)
def test_a_lowering_computes_what_the_reference_does(op, case):
    graph, given = graph_and_feeds(op, case)
    want = running.run(graph, given, case.tensors)
    for threads in (1, 2):
        found = mixed(graph, given, case.tensors, threads=threads).run(given)
        for got, expected in zip(found, want, strict=True):
            running.same(got, expected, 2e-5)


@pytest.mark.parametrize("op", [op for op in NATIVE if op not in BY_CONSTANTS])
def test_an_operation_with_a_lowering_runs_natively_in_some_of_its_cases(op):
    def by_reference(case):
        graph, given = graph_and_feeds(op, case)
        return any(isinstance(item, Node) for item in mixed(graph, given, case.tensors).items)

    assert not all(map(by_reference, CASES[op]))


def test_a_chain_of_elementwise_operations_is_one_step():
    given = {"x": random(0, 3, 5), "s": random(1, 5)}
    graph = graph_of(
        given,
        ["y"],
        ("pow", ("x", 3), ("a",), {}),
        ("mul", ("a", 0.044715), ("b",), {}),
        ("add", ("x", "b"), ("c",), {}),
        ("tanh", ("c",), ("d",), {}),
        ("add", ("d", 1.0), ("e",), {}),
        ("mul", ("e", "x"), ("f",), {}),
        ("div", ("f", "s"), ("y",), {}),
    )
    assert steps(check(graph, given, {})) == ["map"]


@pytest.mark.parametrize("size", [1, 2, 5, 6, 32, 33])
@pytest.mark.parametrize("channels", [1, 7, 40])
@pytest.mark.parametrize("then", ["nothing", "its input", "a view of its input"])
def test_a_normalisation_is_written_over_its_input_if_nothing_else_reads_it(size, channels, then):
    given = {"x": random(0, 2, channels, 5, 9)}
    records = [("softmax", ("x",), ("a",), {"axis": 1})]
    if then == "a view of its input":
        records += [("reshape", ("a",), ("b",), {"shape": (2, channels, 45)})]
    lrn = {"size": size, "alpha": 0.5, "beta": 0.75, "k": 1.5}
    records += [("lrn", ("a",), ("n",), lrn), ("softmax", ("n",), ("y",), {"axis": 1})]
    outputs = {"nothing": ["y"], "its input": ["y", "a"], "a view of its input": ["y", "b"]}[then]
    made = check(graph_of(given, outputs, *records), given, {}, threads=2)
    (segment,) = made._natives.values()
    values = segment._plan.values
    assert (values["n"].home is values["a"].home) == (then == "nothing" and size <= 32)


def test_an_expression_of_too_many_sources_is_cut():
    given = {f"x{at}": random(at, 7) for at in range(40)}
    records = [("add", ("x0", "x1"), ("y1",), {})]
    records += [("mul", (f"y{at - 1}", f"x{at}"), (f"y{at}",), {}) for at in range(2, 40)]
    made = check(graph_of(given, ["y39"], *records), given, {})
    assert 1 < len(steps(made)) < 8


@pytest.mark.parametrize(("stride", "native"), [(16, True), (17, False)])
def test_zeros_between_elements_are_not_convolved_where_they_are_nearly_all(stride, native):
    """A kilobyte with a stride and a kernel of 500 would take minutes."""
    given, tensors = {"x": random(0, 1, 2, 3, 3)}, {"w": random(1, 2, 2, 3, 3)}
    window = {"stride": (stride, stride), "padding": (0, 0), "dilation": (1, 1)}
    rest = {"weight": "w", "bias": None, "groups": 1, "output_padding": (0, 0)}
    record = ("conv_transpose", ("x",), ("y",), {**window, **rest})
    made = check(graph_of(given, ("y",), record), given, tensors)
    assert made.interpreted == ([] if native else ["conv_transpose"])


def test_attention_of_linear_layers_is_computed_without_a_copy():
    """Tokens are feature-major: heads split off and joined again are views."""
    given = {"x": random(0, 2, 19, 12)}
    tensors = {name: random(at, 12, 12) for at, name in enumerate("qkvo")}
    heads = {"shape": (2, 19, 3, 4)}
    records = []
    for name in "qkv":
        records += [
            ("linear", ("x",), (f"{name}0",), {"weight": name}),
            ("reshape", (f"{name}0",), (f"{name}1",), heads),
            ("permute", (f"{name}1",), (f"{name}2",), {"axes": (0, 2, 1, 3)}),
        ]
    records += [
        ("attention", ("q2", "k2", "v2"), ("a",), {}),
        ("permute", ("a",), ("b",), {"axes": (0, 2, 1, 3)}),
        ("reshape", ("b",), ("c",), {"shape": (2, 19, 12)}),
        ("linear", ("c",), ("d",), {"weight": "o"}),
        ("add", ("d", "x"), ("e",), {}),
        ("layer_norm", ("e",), ("y",), {"axes": 1, "eps": 1e-5}),
    ]
    made = check(graph_of(given, ["y"], *records), given, tensors)
    assert steps(made).count("copy") == 1  # of the input, which comes row by row


@pytest.mark.parametrize("shape", [(1, 197, 24), (2, 16, 24), (3, 41, 24), (19, 24)])
@pytest.mark.parametrize("outputs", [7, 24])
@pytest.mark.parametrize("threads", [1, 2, 3])
def test_a_perceptron_on_tokens_is_one_step_where_threads_get_equal_shares(shape, outputs, threads):
    given = {"x": random(0, *shape)}
    rng = np.random.default_rng(1)
    tensors = {"w": random(1, 96, 24), "v": random(2, outputs, 96), "b": random(3, 96)}
    tensors |= {name: tensors[name] * (rng.random(tensors[name].shape) < 0.2) for name in "wv"}
    graph = graph_of(
        given,
        ["y"],
        ("linear", ("x",), ("a",), {"weight": "w", "bias": "b"}),
        ("gelu", ("a",), ("c",), {"approximate": "none"}),
        ("linear", ("c",), ("d",), {"weight": "v"}),
        ("relu", ("d",), ("y",), {}),
    )
    made = check(graph, given, tensors, threads=threads)
    if threads == 1:
        assert steps(made) == ["copy", "linear"]


def test_an_empty_part_of_a_concatenation_keeps_it_from_nothing():
    given = {"x": random(0, 2, 3, 4)}
    graph = graph_of(
        given,
        ["y"],
        ("slice", ("x",), ("rest",), {"axis": 2, "start": 4, "end": 9, "step": 1}),
        ("relu", ("x",), ("r",), {}),
        ("concat", ("r", "rest", "x"), ("y",), {"axis": -1}),
    )
    made = check(graph, given, {})
    assert not any(isinstance(item, Node) for item in made.items)


def test_inputs_of_a_concatenation_are_written_where_they_belong():
    given = {"x": random(0, 1, 4, 6, 6)}
    tensors = {"a": random(1, 3, 4, 1, 1), "b": random(2, 5, 4, 3, 3)}
    window = {"stride": (1, 1), "dilation": (1, 1), "groups": 1}
    graph = graph_of(
        given,
        ["y"],
        ("conv", ("x",), ("a",), {"weight": "a", "padding": (0, 0), **window}),
        ("conv", ("x",), ("b",), {"weight": "b", "padding": (1, 1), **window}),
        ("relu", ("b",), ("c",), {}),
        ("concat", ("a", "c"), ("y",), {"axis": 1}),
    )
    assert steps(check(graph, given, tensors)) == ["conv", "copy", "conv"]  # the copy pads


@pytest.mark.parametrize("low_memory", [False, True])
def test_convolutions_take_batch_norms_activations_and_factors_with_them(low_memory):
    given = {"x": random(0, 2, 4, 7, 5)}
    tensors = {"w": random(1, 8, 4, 3, 3), "p": random(2, 8, 8, 1, 1), "m": random(3, 8),
               "v": random(4, 8) ** 2, "b": random(5, 8)}  # fmt: skip
    window = {"stride": (1, 1), "dilation": (1, 1), "groups": 1}
    graph = graph_of(
        given,
        ["y"],
        ("conv", ("x",), ("a",), {"weight": "w", "bias": "b", "padding": (1, 1), **window}),
        ("batch_norm", ("a",), ("b",), {"mean": "m", "var": "v", "weight": "b", "eps": 1e-3}),
        ("mul", ("b", 0.5), ("c",), {}),
        ("silu", ("c",), ("d",), {}),
        ("conv", ("d",), ("e",), {"weight": "p", "padding": (0, 0), **window}),
        ("clamp", ("e",), ("y",), {"min": 0.25}),
    )
    assert steps(check(graph, given, tensors, low_memory=low_memory)) == ["copy", "conv", "conv"]


def test_a_value_read_twice_is_not_taken_into_its_maker():
    given = {"x": random(0, 9, 4)}
    graph = graph_of(
        given,
        ["y", "z"],
        ("linear", ("x",), ("a",), {"weight": "w"}),
        ("relu", ("a",), ("y",), {}),
        ("add", ("a", "y"), ("z",), {}),
    )
    check(graph, given, {"w": random(1, 6, 4)})


def test_references_run_before_the_native_nodes_that_are_ready():
    """A native node in the middle that does not need the reference does not cut the segment."""
    given = {"x": random(0, 3, 4)}
    graph = graph_of(
        given,
        ["y"],
        ("exp", ("x",), ("a",), {}),
        ("cumsum", ("x",), ("b",), {"axis": 1}),
        ("add", ("a", "b"), ("y",), {}),
    )
    made = check(graph, given, {})
    assert [getattr(item, "op", "segment") for item in made.items] == ["cumsum", "segment"]


def test_zeros_around_an_image_are_left_to_the_strided_convolution():
    given = {"x": random(0, 2, 3, 8, 9)}
    tensors = {"w": random(1, 4, 3, 3, 3)}
    window = {"stride": (2, 2), "dilation": (1, 1), "groups": 1, "padding": (0, 1)}
    graph = graph_of(
        given,
        ["y"],
        ("pad", ("x",), ("a",), {"before": (0, 0, 1, 0), "after": (0, 0, 2, 1)}),
        ("conv", ("a",), ("y",), {"weight": "w", **window}),
    )
    assert steps(check(graph, given, tensors)) == ["copy", "conv"]


def test_convolutions_that_read_the_same_layout_share_the_copy():
    given = {"x": random(0, 1, 3, 8, 9)}
    tensors = {"a": random(1, 4, 3, 3, 3), "b": random(2, 5, 3, 3, 3)}
    window = {"stride": (1, 1), "dilation": (1, 1), "groups": 1, "padding": (1, 1)}
    graph = graph_of(
        given,
        ["y", "z"],
        ("conv", ("x",), ("y",), {"weight": "a", **window}),
        ("conv", ("x",), ("z",), {"weight": "b", **window}),
    )
    assert steps(check(graph, given, tensors)) == ["copy", "conv", "conv"]


@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("outputs", [4, 8])
@pytest.mark.parametrize("low_memory", [False, True])
def test_depthwise_convolutions_read_their_input_as_it_lies(stride, outputs, low_memory):
    given = {"x": random(0, 2, 3, 7, 10)}
    tensors = {
        "e": random(1, 4, 3, 1, 1),
        "d": random(2, outputs, 1, 3, 3),
        "m": random(3, outputs),
        "v": random(4, outputs) ** 2,
        "p": random(5, 5, outputs, 3, 3),
    }
    window = {"stride": (1, 1), "dilation": (1, 1), "groups": 1}
    graph = graph_of(
        given,
        ["y"],
        ("conv", ("x",), ("a",), {"weight": "e", "padding": (0, 0), **window}),
        ("pad", ("a",), ("b",), {"before": (0, 0, 0, 0), "after": (0, 0, 1, 1)}),
        ("conv", ("b",), ("c",), {"weight": "d", "padding": (1, 0), **window, "groups": 4,
                                  "stride": (stride, stride)}),
        ("batch_norm", ("c",), ("d",), {"mean": "m", "var": "v", "eps": 1e-3}),
        ("hardswish", ("d",), ("e",), {}),
        ("conv", ("e",), ("y",), {"weight": "p", "padding": (1, 1), **window}),
    )  # fmt: skip
    made = steps(check(graph, given, tensors, low_memory=low_memory))
    assert made == ["conv", "conv", "conv"] or low_memory  # which computes layer by layer


def test_depthwise_signals_equal_the_reference():
    given = {"x": random(0, 2, 6, 50)}
    window = {"stride": (1,), "dilation": (2,), "groups": 6, "padding": (3,)}
    graph = graph_of(given, ["y"], ("conv", ("x",), ("y",), {"weight": "w", **window}))
    assert steps(check(graph, given, {"w": random(1, 6, 1, 7)})) == ["conv"]


@pytest.mark.parametrize("size", [(1, 14, 14), (3, 5, 6), (2, 1, 33)])
@pytest.mark.parametrize("sparsity", [0.0, 0.8])
@pytest.mark.parametrize("following", ["output", "3x3"])  # which wants zeros around the rows
def test_the_gate_of_squeeze_and_excitation_is_taken_into_the_convolution(
    size, sparsity, following
):
    samples, height, width = size
    given = {"x": random(0, samples, 12, height, width)}
    project = random(1, 20, 12, 1, 1)
    project[np.random.default_rng(2).random(project.shape) < sparsity] = 0
    tensors = {"p": project, "r": random(3, 12, 12, 1, 1), "k": random(4, 5, 20, 3, 3)}
    window = {"stride": (1, 1), "dilation": (1, 1), "groups": 1}
    records = [
        ("hardswish", ("x",), ("a",), {}),
        ("adaptive_avg_pool", ("a",), ("m",), {"size": (1, 1)}),
        ("conv", ("m",), ("g",), {"weight": "r", "padding": (0, 0), **window}),
        ("sigmoid", ("g",), ("h",), {}),
        ("mul", ("a", "h"), ("b",), {}),
        ("conv", ("b",), ("c",), {"weight": "p", "padding": (0, 0), **window}),
        ("conv", ("c",), ("d",), {"weight": "k", "padding": (1, 1), **window}),
    ]
    end = {"output": ("c", records[:-1]), "3x3": ("d", records)}[following]
    graph = graph_of(given, [end[0]], *end[1])
    made = steps(check(graph, given, tensors, threads=2))
    assert made.count("map") == 1  # the activation, not the product


def test_a_product_with_a_gate_that_others_read_too_is_made():
    given = {"x": random(0, 2, 12, 4, 5), "g": random(1, 2, 12, 1, 1)}
    window = {"stride": (1, 1), "dilation": (1, 1), "groups": 1, "padding": (0, 0)}
    graph = graph_of(
        given,
        ["y", "b"],
        ("mul", ("g", "x"), ("b",), {}),
        ("conv", ("b",), ("y",), {"weight": "p", **window}),
    )
    assert steps(check(graph, given, {"p": random(2, 3, 12, 1, 1)})) == ["map", "conv"]
