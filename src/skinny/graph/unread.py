"""Biases that no layer reads: those of channels all of whose weights in the next layer are zero.

A pruned layer often reads few of the channels before it. What the others compute does not matter,
so that a file need not hold their biases: with zeros there, the network's outputs are the same.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from skinny.graph.graph import Graph, Node

# what leaves every channel by itself, and in its place
_ACTIVATIONS = {"relu", "gelu", "silu", "tanh", "sigmoid"}
_POOLS = {"max_pool", "avg_pool"}
Weight = Callable[[str], NDArray[np.generic]]


def unread_biases(graph: Graph, weight: Weight) -> dict[str, NDArray[np.bool_]]:
    """{name of a bias: which of its entries no layer reads, [channels]}; `weight` gives a stored
    tensor by its name."""
    readers: dict[str, list[Node]] = {}
    users: dict[str, int] = {}
    for node in graph.nodes:
        for value in set(node.values):
            readers.setdefault(value, []).append(node)
        for tensor in node.tensors:
            users[tensor] = users.get(tensor, 0) + 1
    found = {}
    for node in graph.nodes:
        if node.op not in ("conv", "linear") or node["bias"] is None or users[node["bias"]] > 1:
            continue
        channels = weight(node["bias"]).size
        axes = weight(node["weight"]).ndim - 2
        read = _read(node.output, axes, channels, readers, set(graph.outputs), weight)
        if not read.all():
            found[node["bias"]] = ~read
    return found


def _read(
    value: str,
    axes: int,  # of an image: [batch, channels, ...]; 0: channels are the last axis
    channels: int,
    readers: dict[str, list[Node]],
    outputs: set[str],
    weight: Weight,
) -> NDArray[np.bool_]:
    """Which channels of a value anything may look at; all, wherever that is not plain to see."""
    everything = np.ones(channels, np.bool_)
    if value in outputs:
        return everything
    read = np.zeros(channels, np.bool_)
    for node in readers.get(value, []):
        if node.op in _ACTIVATIONS or (node.op in _POOLS and len(node["kernel"]) == axes):
            read |= _read(node.output, axes, channels, readers, outputs, weight)
        elif axes and node.op == "reshape" and len(node["shape"]) == 2:
            if node["shape"][0] is not None:  # the batch, which stays
                return everything
            (flat,) = node.outputs
            if flat in outputs or any(n.op != "linear" for n in readers.get(flat, [])):
                return everything
            for linear in readers.get(flat, []):
                read |= _of_weight(linear, channels, weight)
        elif node.op == ("conv" if axes else "linear"):
            read |= _of_weight(node, channels, weight)
        else:
            return everything
    return read


def _of_weight(node: Node, channels: int, weight: Weight) -> NDArray[np.bool_]:
    """Input channels for which a layer has any weight; a flattened image has its channels one
    after the other."""
    plain = node["groups"] == 1 if node.op == "conv" else not node["transposed"]
    values = weight(node["weight"])
    if not plain or values.shape[1] % channels:
        return np.ones(channels, np.bool_)
    by_channel = values.reshape(values.shape[0], channels, -1)
    read: NDArray[np.bool_] = (by_channel != 0).any(axis=(0, 2))
    return read
