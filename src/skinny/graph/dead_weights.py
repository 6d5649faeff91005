"""Weights that a pruned network can do without, because they change no output.

Pruning leaves channels that no layer reads: their own weights and biases are dead. And it leaves
channels that read nothing: what they give is their bias, the same everywhere, so that it can move
into the biases of the layers that read it, and the weights that read it are dead. A file need not
hold either. Outputs are the same but for the rounding of the biases that were moved.
"""

from collections.abc import Mapping, Set
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from skinny.graph.graph import Graph, Node

# what leaves every channel by itself, and in its place
_ACTIVATIONS = {"relu", "gelu", "silu", "tanh", "sigmoid"}
_POOLS = {"max_pool", "avg_pool"}
Arrays = dict[str, NDArray[Any]]


class _Reader(NamedTuple):
    """A layer that reads channels, and what happens to them on the way."""

    layer: Node
    between: tuple[Node, ...]


def without_dead_weights(
    graph: Graph, arrays: Mapping[str, NDArray[Any]], fixed: Set[str] = frozenset()
) -> Arrays:
    """The stored tensors that change, with zeros for dead weights, by name. `fixed` names those
    that must not change; nor do tensors that several layers use, or that are not float32."""
    users: dict[str, int] = {}
    readers: dict[str, list[Node]] = {}
    for node in graph.nodes:
        for value in set(node.values):
            readers.setdefault(value, []).append(node)
        for tensor in node.tensors:
            users[tensor] = users.get(tensor, 0) + 1

    def ours(node: Node) -> bool:
        return (node.op == "conv" or (node.op == "linear" and not node["transposed"])) and all(
            users[name] == 1 and name not in fixed and arrays[name].dtype == np.float32
            for name in node.tensors
        )

    made = dict(arrays)
    layers = []
    for node in filter(ours, graph.nodes):
        axes = made[node["weight"]].ndim - 2
        found = _readers(node.output, axes, readers, set(graph.outputs))
        if found is not None:
            layers.append((node, found))
    for node, found in layers:
        if all(ours(reader.layer) and _takes_constants(reader) for reader in found):
            _move_constants(node, found, made)
    for node, found in reversed(layers):
        _clear_unread(node, found, made)
    return {name: array for name, array in made.items() if array is not arrays[name]}


def _readers(
    value: str,
    axes: int,  # of an image: [batch, channels, ...]; 0: channels are the last axis
    readers: dict[str, list[Node]],
    outputs: set[str],
    between: tuple[Node, ...] = (),
) -> list[_Reader] | None:
    """All that read the channels of a value; None wherever that is not plain to see."""
    if value in outputs:
        return None
    found: list[_Reader] = []
    for node in readers.get(value, []):
        if node.op in _ACTIVATIONS or (node.op in _POOLS and len(node["kernel"]) == axes):
            behind = _readers(node.output, axes, readers, outputs, (*between, node))
        elif axes and node.op == "reshape" and len(node["shape"]) == 2:
            if node["shape"][0] is not None:  # the batch, which stays
                return None
            behind = _readers(node.output, 0, readers, outputs, (*between, node))
        elif node.op == ("conv" if axes else "linear"):
            behind = [_Reader(node, between)]
        else:
            return None
        if behind is None:
            return None
        found += behind
    return found


def _takes_constants(reader: _Reader) -> bool:
    """Is a channel that is the same everywhere still so where it is read, with nothing beside?"""
    layer = reader.layer
    if layer["bias"] is None or (
        layer.op == "conv" and (any(layer["padding"]) or layer["groups"] > 1)
    ):
        return False
    return all(
        node.op in ("relu", "reshape", "max_pool")  # whose padding is never the largest
        or (
            node.op == "avg_pool"
            and not any(node["padding"])
            and not node["ceil"]
            and node["divisor"] is None
        )
        for node in reader.between
    )


def _move_constants(node: Node, found: list[_Reader], made: Arrays) -> None:
    """Into the biases of its readers, from channels of a layer that read nothing."""
    weight = made[node["weight"]]
    constant = ~(weight != 0).reshape(weight.shape[0], -1).any(axis=1)
    if not constant.any():
        return
    bias = np.zeros(weight.shape[0]) if node["bias"] is None else made[node["bias"]]
    for layer, between in found:
        given = np.maximum(bias, 0) if any(each.op == "relu" for each in between) else bias
        read = _by_channel(made[layer["weight"]], weight.shape[0])
        if read is None:
            continue
        with np.errstate(over="ignore", invalid="ignore"):
            sums = read[:, constant].sum(axis=2, dtype=np.float64)
            moved = made[layer["bias"]] + sums @ given[constant].astype(np.float64)
            moved = moved.astype(np.float32)
        if not np.isfinite(moved).all():
            continue
        read = read.copy()
        read[:, constant] = 0
        made[layer["weight"]] = read.reshape(made[layer["weight"]].shape)
        made[layer["bias"]] = moved


def _clear_unread(node: Node, found: list[_Reader], made: Arrays) -> None:
    """Zeros for weights and biases of channels for which no reader has a weight."""
    channels = made[node["weight"]].shape[0]
    unread = np.ones(channels, np.bool_)
    for layer, _ in found:
        plain = layer["groups"] == 1 if layer.op == "conv" else not layer["transposed"]
        read = _by_channel(made[layer["weight"]], channels) if plain else None
        if read is None:
            return
        unread &= ~(read != 0).any(axis=(0, 2))
    for name in node.tensors:
        if unread.any() and made[name][unread].any():
            made[name] = made[name].copy()
            made[name][unread] = 0


def _by_channel(weight: NDArray[Any], channels: int) -> NDArray[Any] | None:
    """[outputs, channels, whatever a channel has]: a flattened image has its channels one after
    the other. None if that cannot be."""
    if weight.shape[1] % channels:
        return None
    return weight.reshape(weight.shape[0], channels, -1)
