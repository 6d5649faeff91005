import numpy as np
import pytest

from skinny.runtime.fold import fold_batch_norms

CHANNELS = 4


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def tensors(rng):
    return {
        "conv.bias": rng.standard_normal(CHANNELS),
        "norm.weight": rng.standard_normal(CHANNELS),
        "norm.bias": rng.standard_normal(CHANNELS),
        "norm.mean": rng.standard_normal(CHANNELS),
        "norm.var": rng.random(CHANNELS) + 0.1,
    }


def layer(op="conv", source="x", output="a", bias="conv.bias"):
    return {"op": op, "inputs": [source], "output": output, "weight": "conv.weight", "bias": bias}


def norm(source="a", output="b", **changes):
    return {
        "op": "batch_norm",
        "inputs": [source],
        "output": output,
        "weight": "norm.weight",
        "bias": "norm.bias",
        "mean": "norm.mean",
        "var": "norm.var",
        "eps": 1e-5,
    } | changes


def graph(*nodes, outputs=("b",)):
    return {"inputs": [{"name": "x"}], "nodes": list(nodes), "outputs": list(outputs)}


@pytest.mark.parametrize("bias", ["conv.bias", None])
@pytest.mark.parametrize("affine", [True, False])
def test_a_folded_layer_computes_what_the_two_did(rng, bias, affine):
    known = tensors(rng)
    second = norm() if affine else norm(weight=None, bias=None)
    folded, extra = fold_batch_norms(graph(layer(bias=bias), second), known.__getitem__)
    (node,) = folded["nodes"]
    assert (node["op"], node["output"], node["weight"]) == ("conv", "b", "conv.weight")
    product = rng.standard_normal((10, CHANNELS))  # W x
    own = known[bias] if bias else 0.0
    before = (product + own - known["norm.mean"]) / np.sqrt(known["norm.var"] + 1e-5)
    if affine:
        before = before * known["norm.weight"] + known["norm.bias"]
    after = product * extra[node["weight_scale"]] + extra[node["bias"]]
    np.testing.assert_allclose(after, before, rtol=1e-4, atol=1e-5)
    assert {array.dtype for array in extra.values()} == {np.dtype(np.float32)}


def test_the_given_graph_is_left_as_it_was(rng):
    original = graph(layer(), norm())
    fold_batch_norms(original, tensors(rng).__getitem__)
    assert original == graph(layer(), norm())


@pytest.mark.parametrize(
    "kept",
    [
        graph(layer(), norm(), {"op": "relu", "inputs": ["a"], "output": "c"}, outputs=["b", "c"]),
        graph(layer(), norm(), outputs=["a", "b"]),
        graph(norm(source="x")),
        graph(layer("linear"), norm()),
        graph(layer(), {"op": "relu", "inputs": ["a"], "output": "r"}, norm(source="r")),
    ],
    ids=["used twice", "also an output", "nothing before it", "linear", "relu in between"],
)
def test_what_cannot_be_folded_stays(rng, kept):
    folded, extra = fold_batch_norms(kept, tensors(rng).__getitem__)
    assert folded == kept
    assert extra == {}


def test_two_layers_that_share_a_weight_are_folded_apart(rng):
    shared = graph(
        layer(),
        norm(),
        layer(source="b", output="c"),
        norm(source="c", output="d", eps=0.5),
        outputs=["d"],
    )
    folded, extra = fold_batch_norms(shared, tensors(rng).__getitem__)
    first, second = folded["nodes"]
    assert first["weight"] == second["weight"] == "conv.weight"
    assert not np.allclose(extra[first["weight_scale"]], extra[second["weight_scale"]])
