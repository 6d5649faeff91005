"""Batch normalisation as a scale and a shift, and folding it into the convolution before it.

    y = gamma (W x + b - mean) / sqrt(var + eps) + beta  =  (s W) x + (s (b - mean) + beta),
    s = gamma / sqrt(var + eps)     one number per output channel

The file keeps the model's own tensors, so that they come back bit for bit; the fold is done by
whoever runs the graph.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
Read = Callable[[str], NDArray[Any]]


def fold_batch_norms(
    graph: Mapping[str, Any], read: Read
) -> tuple[dict[str, Any], dict[str, Floats]]:
    """The graph with each `conv` -> `batch_norm` pair as one node, and the new tensors.

    A folded node keeps its `weight` and gets `weight_scale`, the name of s [output channels], by
    which the weights of each output channel are still to be multiplied; its `bias` is new. A batch
    norm is folded only if nothing else uses the convolution's output; others stay, also after a
    `linear`, whose last axis need not be the one that is normalised.
    """
    uses = Counter(name for node in graph["nodes"] for name in node["inputs"])
    uses.update(graph["outputs"])
    extra: dict[str, Floats] = {}
    nodes: list[dict[str, Any]] = []
    maker: dict[str, int] = {}  # value -> index in `nodes` of the convolution that computes it
    for node in graph["nodes"]:
        source = node["inputs"][0]
        if node["op"] == "batch_norm" and source in maker and uses[source] == 1:
            layer = nodes[maker.pop(source)]
            tag = f"{node['output']}:folded"
            bias = None if layer["bias"] is None else read(layer["bias"])
            extra[f"{tag}_scale"], extra[f"{tag}_bias"] = batch_norm_scale(node, read, bias)
            layer |= {
                "output": node["output"],
                "weight_scale": f"{tag}_scale",
                "bias": f"{tag}_bias",
            }
            continue
        nodes.append(dict(node))
        if node["op"] == "conv":
            maker[node["output"]] = len(nodes) - 1
    return {**graph, "nodes": nodes}, extra


def batch_norm_scale(
    node: Mapping[str, Any], read: Read, bias: NDArray[Any] | None = None
) -> tuple[Floats, Floats]:
    """Batch normalisation in evaluation is x * scale + shift, per channel; of x + bias, if it is
    given."""
    # a file may hold any numbers; NaN and infinity come out as torch would have it
    with np.errstate(all="ignore"):
        mean, var = (np.asarray(read(node[field]), np.float64) for field in ("mean", "var"))
        scale = 1 / np.sqrt(var + node["eps"])
        if node["weight"] is not None:
            scale = scale * read(node["weight"])
        shift = -mean * scale
        if node["bias"] is not None:
            shift = shift + read(node["bias"])
        if bias is not None:
            shift = shift + scale * bias
        return scale.astype(np.float32), shift.astype(np.float32)
