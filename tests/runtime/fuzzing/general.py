"""Random small networks of format 2: any registered operation, over values that fit it.

A node is drawn and kept if the graph with it passes the checks. Operations whose stored tensors
must fit their input have a function here that draws these.
"""

import math
from collections.abc import Callable
from random import Random
from typing import Any

import numpy as np
from tests.runtime.fuzzing.mutations import Parts, any_node

from skinny import graph as G
from skinny.graph import operations
from skinny.graph.values import spec_of

MOST_ELEMENTS = 4000  # of one value of two images
MOST_STORED = 100_000  # elements of one stored tensor: an empty value can have any other side
ATTEMPTS = 25  # to draw a node of one operation that fits
BATCHES = (2, 3)
Tensors = dict[str, np.ndarray]


class TooLargeError(Exception):
    """A stored tensor that fits the value at hand would be too large."""


class Network:
    """A graph that grows node by node, with its stored tensors."""

    def __init__(self, rng: Random) -> None:
        self.rng, self.arrays = rng, np.random.default_rng(rng.randrange(1 << 30))
        rank = rng.choice([1, 2, 2, 3, 3, 4])
        sides = [rng.randint(1, (40, 12, 7, 4)[rank - 1]) for _ in range(rank)]
        self.graph: dict[str, Any] = {
            "inputs": [
                {"name": "x", "shape": ["batch", *sides], "dtype": "float32"},
                {"name": "i", "shape": ["batch", *sides[: rng.randint(0, 2)]], "dtype": "int64"},
                {"name": "b", "shape": ["batch", *sides], "dtype": "bool"},
            ],
            "nodes": [],
            "outputs": [],
        }
        self.tensors: Tensors = {"t": self.array(sides[-1])}
        self.shapes: dict[str, tuple[int, ...]] = {}
        self._fits()

    def array(self, *shape: int) -> np.ndarray:
        if math.prod(shape) > MOST_STORED:
            raise TooLargeError
        made = self.arrays.standard_normal(shape).astype(np.float32)
        return np.where(self.arrays.random(shape) < self.rng.choice([0, 0.5, 0.9]), 0, made)

    def grow(self, op: str) -> bool:
        """A node of this operation at the end, if one that fits is drawn."""
        before, count = dict(self.tensors), len(self.graph["nodes"])
        for _ in range(ATTEMPTS):
            try:
                self.graph["nodes"].append(self._draw(op))
                if self._fits():
                    return True
            except TooLargeError:
                pass
            del self.graph["nodes"][count:]
            self.tensors = dict(before)
        return False

    def _draw(self, op: str) -> dict[str, Any]:
        names = list(self.shapes)
        source = self.rng.choice([names[-1], self.rng.choice(names)])
        book = {"graph": self.graph, "tensors": self.tensors}
        made = any_node(self.rng, Parts({}, book, {}, "2"), source, f"v{len(names)}", op)
        shape = self.shapes[source]
        if op in STATES and len(shape) == 3:
            made["inputs"][1:] = [self._constant(*shape[1:]) for _ in range(STATES[op])]
        if op in FITTING and shape:
            for name, value in FITTING[op](self, shape).items():
                if isinstance(value, np.ndarray):
                    stored = f"{made['output']}.{name}" if isinstance(made["output"], str) else name
                    while stored in self.tensors:
                        stored += "_"
                    self.tensors[stored], value = value, stored
                made[name] = value
        return made

    def _constant(self, *shape: int) -> str:
        name = f"c{len(self.tensors)}"
        self.tensors[name] = self.array(*shape)
        self.graph["nodes"].append({"op": "constant", "inputs": [], "output": name, "tensor": name})
        return name

    def _fits(self) -> bool:
        specs = {name: spec_of(array) for name, array in self.tensors.items()}
        last = self.graph["nodes"][-1:]
        outputs = [node["output"] for node in last]
        names = [n for own in outputs for n in (own if isinstance(own, list) else [own])]
        record = {**self.graph, "outputs": names or ["x"]}
        try:
            graph = G.from_json(record, specs.get)
            G.check(graph, specs.get)
            for batch in BATCHES:
                shapes = {
                    value["name"]: tuple(batch if s == "batch" else s for s in value["shape"])
                    for value in self.graph["inputs"]
                }
                special = G.specialize(graph, shapes, specs.get, self.tensors.__getitem__)
                if any(spec.size > MOST_ELEMENTS for spec in special.specs.values()):
                    return False
        except G.GraphError:
            return False
        self.shapes = {
            name: spec.shape for name, spec in special.specs.items() if isinstance(name, str)
        }
        return True


def general_network(rng: Random) -> tuple[Tensors, dict[str, Any]]:
    """Stored tensors and the graph of a network of one to eight nodes."""
    made = Network(rng)
    wanted = rng.choice([1, 2, 3, 3, 4, 6, 8])
    for _ in range(3 * wanted):
        if len(made.graph["nodes"]) < wanted:
            made.grow(rng.choice(sorted(operations())))
    names = [name for name in made.shapes if name not in ("x", "i", "b")] or ["x"]
    made.graph["outputs"] = [names[-1], *[name for name in names[:-1] if rng.random() < 0.3]]
    return made.tensors, made.graph


def _conv(net: Network, shape: tuple[int, ...], *, transposed: bool = False) -> dict[str, Any]:
    rng, n = net.rng, max(1, len(shape) - 2)
    channels = shape[1] if len(shape) > 1 else 1
    groups = rng.choice([g for g in (1, 1, 2, channels or 1) if channels % g == 0])
    out = rng.randint(1, 4)
    kernel = [rng.randint(1, 3) for _ in range(n)]
    sizes = (channels, out) if transposed else (out * groups, channels // groups)
    made: dict[str, Any] = {
        "weight": net.array(*sizes, *kernel), "groups": groups,
        "bias": net.array(out * groups) if rng.random() < 0.5 else None,
        "stride": [rng.randint(1, 2) for _ in kernel],
        "padding": [rng.randint(0, side - 1) for side in kernel],
        "dilation": [rng.randint(1, 2) for _ in kernel],
    }  # fmt: skip
    return {**made, "output_padding": [0] * n} if transposed else made


def _recurrent(gates: int) -> Callable[[Network, tuple[int, ...]], dict[str, Any]]:
    def weights(net: Network, shape: tuple[int, ...]) -> dict[str, Any]:
        width = shape[-1]  # of the states too
        made = {
            "weight_input": net.array(gates * width, width),
            "weight_hidden": net.array(gates * width, width),
            "reverse": net.rng.random() < 0.5,
        }
        biases = ("bias_input", "bias_hidden") if net.rng.random() < 0.5 else ()
        return {**made, **{name: net.array(gates * width) for name in biases}}

    return weights


def _per_channel(net: Network, shape: tuple[int, ...]) -> dict[str, Any]:
    channels = shape[1] if len(shape) > 1 else 1
    return {name: net.array(channels) for name in ("weight", "bias") if net.rng.random() < 0.7}


def _batch_norm(net: Network, shape: tuple[int, ...]) -> dict[str, Any]:
    channels = shape[1] if len(shape) > 1 else 1
    return {
        **_per_channel(net, shape), "mean": net.array(channels),
        "var": abs(net.array(channels)) + np.float32(0.5), "eps": 1e-5,
    }  # fmt: skip


def _last_axes(net: Network, shape: tuple[int, ...]) -> dict[str, Any]:
    axes = net.rng.randint(1, len(shape))
    names = [name for name in ("weight", "bias") if net.rng.random() < 0.7]
    return {"axes": axes, "eps": 1e-5, **{name: net.array(*shape[-axes:]) for name in names}}


def _linear(net: Network, shape: tuple[int, ...]) -> dict[str, Any]:
    out = net.rng.randint(1, 8)
    bias = net.array(out) if net.rng.random() < 0.5 else None
    return {"weight": net.array(out, shape[-1]), "bias": bias}


def _in_int8(
    float_layer: Callable[[Network, tuple[int, ...]], dict[str, Any]],
) -> Callable[[Network, tuple[int, ...]], dict[str, Any]]:
    def drawn(net: Network, shape: tuple[int, ...]) -> dict[str, Any]:
        made = float_layer(net, shape)
        outputs = made["weight"].shape[0]
        return {
            **made,
            "weight_scale": abs(net.array(outputs)) / 100 + np.float32(0.01),
            "factor": net.array(outputs) if net.rng.random() < 0.5 else None,
            "input_scale": net.rng.choice([0.01, 0.03]),
            "input_zero": net.rng.randint(0, 255),
        }

    return drawn


def _embedding(net: Network, shape: tuple[int, ...]) -> dict[str, Any]:
    return {"weight": net.array(net.rng.choice([5, 5, 9]), net.rng.randint(1, 6))}


def _table_in_int8(net: Network, shape: tuple[int, ...]) -> dict[str, Any]:
    given = _embedding(net, shape)
    return {**given, "weight_scale": abs(net.array(len(given["weight"]))) / 100 + np.float32(0.01)}


STATES = {"lstm": 2, "gru": 1}
FITTING: dict[str, Callable[[Network, tuple[int, ...]], dict[str, Any]]] = {
    "conv": _conv,
    "conv_transpose": lambda net, shape: _conv(net, shape, transposed=True),
    "lstm": _recurrent(4),
    "gru": _recurrent(3),
    "batch_norm": _batch_norm,
    "instance_norm": _per_channel,
    "group_norm": _per_channel,
    "layer_norm": _last_axes,
    "rms_norm": lambda net, shape: {k: v for k, v in _last_axes(net, shape).items() if k != "bias"},
    "linear": _linear,
    "conv_int8": _in_int8(_conv),
    "linear_int8": _in_int8(_linear),
    "embedding": _embedding,
    "embedding_int8": _table_in_int8,
    "embedding_bag": _embedding,
}
