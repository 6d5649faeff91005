import copy

import pytest

from skinny.packing import GraphError
from skinny.packing import graph as graphs

SHAPES = {
    "conv.weight": (8, 3, 3, 3),
    "conv.bias": (8,),
    "grouped.weight": (8, 4, 3, 3),
    "fc.weight": (10, 8),
    "fc.bias": (10,),
    "empty.weight": (0, 3, 3, 3),
    "tall.weight": (8, 3, 5000, 1),
    "norm.weight": (8,),
    "norm.mean": (8,),
    "norm.var": (8,),
    "norm.other": (9,),
}


def conv(**changes):
    return {
        "op": "conv",
        "inputs": ["x"],
        "output": "v0",
        "weight": "conv.weight",
        "bias": "conv.bias",
        "stride": [1, 1],
        "padding": [1, 1],
        "dilation": [1, 1],
        "groups": 1,
    } | changes


def pool(**changes):
    return {
        "op": "max_pool",
        "inputs": ["x"],
        "output": "v0",
        "kernel": [3, 3],
        "stride": [2, 2],
        "padding": [0, 0],
        "dilation": [1, 1],
        "ceil": True,
    } | changes


def norm(**changes):
    return {
        "op": "batch_norm",
        "inputs": ["x"],
        "output": "v0",
        "weight": "norm.weight",
        "bias": None,
        "mean": "norm.mean",
        "var": "norm.var",
        "eps": 1e-5,
    } | changes


def node(op, **attributes):
    return {"op": op, "inputs": ["x"], "output": "v0"} | attributes


def graph(*nodes, **changes):
    return {
        "inputs": [{"name": "x", "shape": [None, 3, 32, 32], "dtype": "float32"}],
        "nodes": list(nodes),
        "outputs": ["v0"],
    } | changes


def check(value):
    return graphs.check(value, SHAPES.get)


GOOD = [
    conv(),
    conv(bias=None, stride=[4, 4], weight="grouped.weight", groups=2),
    pool(),
    norm(),
    norm(weight=None),
    node("linear", weight="fc.weight", bias="fc.bias"),
    node("relu"),
    node("leaky_relu", slope=0.01),
    node("gelu", approximate="tanh"),
    node("hardtanh", min=-1, max=1.0),
    node(
        "avg_pool",
        kernel=[2, 2],
        stride=[2, 2],
        padding=[0, 0],
        ceil=False,
        count_include_pad=True,
        divisor=None,
    ),
    node("adaptive_avg_pool", size=[6, 6]),
    node("lrn", size=5, alpha=1e-4, beta=0.75, k=1.0),
    node("flatten", start=1, end=-1),
    node("reshape", shape=[None, -1, 8]),
    node("add", inputs=["x", "x"]),
    node("concat", inputs=["x", "x", "x"], axis=1),
    node("softmax", axis=-1),
]


@pytest.mark.parametrize("good", GOOD, ids=lambda n: n["op"])
def test_a_good_node_passes(good):
    value = graph(good)
    assert check(copy.deepcopy(value)) == value


BAD = {
    "an unknown operation": (graph(node("shell")), "unknown operation 'shell'"),
    "an operation that is no text": (graph(node(["relu"])), "not an operation"),
    "a node that is no table": (graph("relu"), "not an operation"),
    "a missing attribute": (graph(node("softmax")), "exactly its attributes"),
    "an attribute too many": (graph(node("relu", slope=1)), "exactly its attributes"),
    "a missing input": (graph(node("relu", inputs=["y"])), "'y', which nothing before"),
    "an input of another type": (graph(node("relu", inputs=[["x"]])), "which nothing before"),
    "a cycle": (
        graph(node("relu", inputs=["v1"]), node("relu", output="v1", inputs=["v0"])),
        "'v1', which nothing before",
    ),
    "a node that feeds itself": (graph(node("relu", inputs=["v0"])), "which nothing before"),
    "a value assigned twice": (graph(node("relu"), node("relu")), "assigns 'v0' twice"),
    "an input assigned again": (graph(node("relu", output="x")), "assigns 'x' twice"),
    "too few inputs": (graph(node("add")), "number of inputs"),
    "too many inputs": (graph(node("relu", inputs=["x", "x"])), "number of inputs"),
    "no inputs": (graph(node("relu"), inputs=[]), "nothing before"),
    "no outputs": (graph(node("relu"), outputs=[]), "no outputs"),
    "an output nobody computes": (graph(node("relu"), outputs=["v7"]), "computed by no node"),
    "an output that is no text": (graph(node("relu"), outputs=[{}]), "computed by no node"),
    "a missing tensor": (graph(conv(weight="gone")), "'gone' is not"),
    "a missing bias": (graph(conv(bias="gone")), "'gone' is not"),
    "a weight that is no name": (graph(conv(weight=None)), "None is not"),
    "a weight of the wrong rank": (graph(conv(weight="fc.weight")), "rank 4"),
    "a bias of another length": (graph(conv(bias="fc.bias")), "numbers of channels"),
    "an empty weight": (graph(conv(weight="empty.weight", bias=None)), "without elements"),
    "statistics of another length": (graph(norm(mean="norm.other")), "numbers of channels"),
    "a negative eps": (graph(norm(eps=-1.0)), "impossible eps"),
    "groups that do not divide": (graph(conv(groups=3)), "3 groups"),
    "an absurd kernel": (graph(conv(weight="tall.weight", bias=None)), "kernel of"),
    "stride 0": (graph(conv(stride=[0, 1])), "impossible stride"),
    "a negative padding": (graph(conv(padding=[-1, 0])), "impossible padding"),
    "an absurd padding": (graph(conv(padding=[10**9, 0])), "impossible padding"),
    "an absurd dilation": (graph(pool(dilation=[1, 10**30])), "impossible dilation"),
    "a pair of three": (graph(pool(kernel=[3, 3, 3])), "impossible kernel"),
    "a truth as a number": (graph(conv(groups=True)), "impossible groups"),
    "a number as a truth": (graph(pool(ceil=1)), "impossible ceil"),
    "a fraction as a size": (graph(pool(kernel=[3.0, 3.0])), "impossible kernel"),
    "an absurd pooled size": (
        graph(node("adaptive_avg_pool", size=[10**6, 10**6])),
        "impossible size",
    ),
    "an infinite slope": (graph(node("leaky_relu", slope=float("inf"))), "impossible slope"),
    "a slope too large to compute with": (
        graph(node("leaky_relu", slope=10**400)),
        "impossible slope",
    ),
    "an absurd axis": (graph(node("softmax", axis=99)), "impossible axis"),
    "two free sides": (graph(node("reshape", shape=[None, -1, -1])), "impossible shape"),
    "a side of 0": (graph(node("reshape", shape=[None, 0])), "impossible shape"),
    "a truth as a side": (graph(node("reshape", shape=[None, True])), "impossible shape"),
    "an input of absurd size": (
        graph(node("relu"), inputs=[{"name": "x", "shape": [None, 10**9], "dtype": "float32"}]),
        "at most 8 sizes of 1 to 65536",
    ),
    "an input of another type of number": (
        graph(node("relu"), inputs=[{"name": "x", "shape": [None, 3], "dtype": "int64"}]),
        "type 'int64'",
    ),
    "an input without a shape": (graph(node("relu"), inputs=[{"name": "x"}]), "exactly name"),
    "no table at all": ([], "exactly the fields"),
    "a field too many": (graph(node("relu"), code="x"), "exactly the fields"),
    "nodes that are no list": (graph(node("relu"), nodes={}), "not lists"),
    "absurdly many nodes": (graph(*[node("relu")] * 70_000), "more than"),
}


@pytest.mark.parametrize("case", BAD, ids=str)
def test_a_bad_graph_is_refused(case):
    value, message = BAD[case]
    with pytest.raises(GraphError, match=message):
        check(value)
