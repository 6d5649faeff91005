"""Folding batch normalisation into the layer before it, when a network is loaded.

    y = gamma (W x + b - mean) / sqrt(var + eps) + beta  =  (s W) x + (s (b - mean) + beta),
    s = gamma / sqrt(var + eps)     one number per output channel

The file keeps the model's own tensors, so that they come back bit for bit; the fold is done by
whoever runs the graph.
"""

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]


def fold_batch_norms(
    graph: dict[str, Any], read: Callable[[str], NDArray[Any]]
) -> tuple[dict[str, Any], dict[str, Floats]]:
    """The graph with each `conv`/`linear` -> `batch_norm` pair as one node, and the new tensors.

    A folded node keeps its `weight` and gets `weight_scale`, the name of s [output channels], by
    which the weights of each output channel are still to be multiplied; its `bias` is new. A batch
    norm is folded only if nothing else uses the layer's output; others stay.
    """
    uses = Counter(name for node in graph["nodes"] for name in node["inputs"])
    uses.update(graph["outputs"])
    extra: dict[str, Floats] = {}
    nodes: list[dict[str, Any]] = []
    maker: dict[str, int] = {}  # value -> place in `nodes` of the layer that computes it
    for node in graph["nodes"]:
        source = node["inputs"][0]
        if node["op"] == "batch_norm" and source in maker and uses[source] == 1:
            layer = nodes[maker.pop(source)]
            tag = f"{node['output']}:folded"
            bias = layer["bias"] and read(layer["bias"])
            extra[f"{tag}_scale"], extra[f"{tag}_bias"] = _fold(node, bias, read)
            layer |= {
                "output": node["output"],
                "weight_scale": f"{tag}_scale",
                "bias": f"{tag}_bias",
            }
            continue
        nodes.append(dict(node))
        if node["op"] in ("conv", "linear"):
            maker[node["output"]] = len(nodes) - 1
    return {**graph, "nodes": nodes}, extra


def _fold(
    node: dict[str, Any], bias: Floats | None, read: Callable[[str], NDArray[Any]]
) -> tuple[Floats, Floats]:
    # a file may hold any numbers; NaN and infinity come out as torch would have it
    with np.errstate(all="ignore"):
        mean, var = (np.asarray(read(node[field]), np.float64) for field in ("mean", "var"))
        gamma = 1.0 if node["weight"] is None else np.asarray(read(node["weight"]), np.float64)
        beta = 0.0 if node["bias"] is None else np.asarray(read(node["bias"]), np.float64)
        own = 0.0 if bias is None else np.asarray(bias, np.float64)
        scale = gamma / np.sqrt(var + node["eps"])
        return scale.astype(np.float32), (scale * (own - mean) + beta).astype(np.float32)
