"""Which nodes of a graph run together.

A layer is a node with the activation after it; a chain is a convolution with the 1x1 convolutions
after it. Both only where the value between has no other use.
"""

import math
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from skinny import _native
from skinny._native import ActivationKind

Node = Mapping[str, Any]


@dataclass(frozen=True)
class Activation:
    """An activation and its parameters (clamping: low and high)."""

    kind: ActivationKind = ActivationKind.none
    a: float = 0.0
    b: float = 0.0

    @property
    def native(self) -> _native.Activation:
        return _native.Activation(self.kind, self.a, self.b)


NONE = Activation()


def activation_of(node: Node) -> Activation | None:
    """The activation a node is, or None."""
    match node["op"]:
        case "relu":
            return Activation(ActivationKind.clamp, 0.0, math.inf)
        case "relu6":
            return Activation(ActivationKind.clamp, 0.0, 6.0)
        case "hardtanh":
            return Activation(ActivationKind.clamp, float(node["min"]), float(node["max"]))
        case "leaky_relu":
            return Activation(ActivationKind.leaky_relu, float(node["slope"]))
        case "elu":
            return Activation(ActivationKind.elu, float(node["alpha"]))
        case "gelu":
            return Activation(
                ActivationKind.gelu if node["approximate"] == "none" else ActivationKind.gelu_tanh
            )
        case "sigmoid" | "tanh" | "silu" | "hardswish" | "hardsigmoid" as op:
            return Activation(ActivationKind[op])
    return None


@dataclass
class Layer:
    """Nodes that become one step, which reads `inputs` and writes `output`."""

    op: str
    nodes: list[Node]
    inputs: list[str]
    output: str
    # one for each node with weights; for the op "activate", the activation itself
    activations: list[Activation] = field(default_factory=lambda: [NONE])
    pool: Node | None = None  # after a chain
    residual: str | None = None  # a value that is added to what a chain computes
    bounds: tuple[float, float] = (-math.inf, math.inf)  # that the sum is clamped to
    computed: str = ""  # the value before the pooling; `output` without pooling

    def __post_init__(self) -> None:
        self.computed = self.computed or self.output

    @property
    def node(self) -> Node:
        return self.nodes[0]


def fuse(graph: Mapping[str, Any]) -> list[Layer]:
    """The graph's nodes as layers, in order; activations go into the convolution, linear layer or
    batch norm before them."""
    uses = Counter(name for node in graph["nodes"] for name in node["inputs"])
    uses.update(graph["outputs"])
    layers: list[Layer] = []
    maker: dict[str, Layer] = {}
    for node in graph["nodes"]:
        activation = activation_of(node)
        before = maker.get(node["inputs"][0])
        if (
            activation is not None
            and before is not None
            and before.op in ("conv", "linear", "batch_norm")
            and before.activations == [NONE]
            and uses[before.output] == 1
        ):
            before.output = before.computed = node["output"]
            before.activations = [activation]
            maker[before.output] = before
            continue
        layer = Layer(node["op"], [node], list(node["inputs"]), node["output"])
        if activation is not None:
            layer.op, layer.activations = "activate", [activation]
        layers.append(layer)
        maker[layer.output] = layer
    return layers


def chain(
    layers: list[Layer],
    outputs: list[str],
    joins: Callable[[Layer, Layer], bool],
    pools: Callable[[Layer, Layer], bool],
) -> list[Layer]:
    """Joins convolutions with the 1x1 convolutions and the pooling after them.

    joins: may a convolution and the 1x1 convolution after it be joined? pools: may a convolution
    and the pooling after it?
    """
    uses = Counter(name for layer in layers for name in layer.inputs)
    uses.update(outputs)
    joined: list[Layer] = []
    maker: dict[str, Layer] = {}
    for layer in layers:
        before = maker.get(layer.inputs[0])
        if before is not None and (
            before.op != "conv" or before.pool is not None or uses[before.output] != 1
        ):
            before = None
        if before is not None and joins(before, layer):
            before.nodes.extend(layer.nodes)
            before.activations.extend(layer.activations)
            before.output = before.computed = layer.output
        elif before is not None and pools(before, layer):
            before.pool, before.output = layer.node, layer.output
        else:
            before = replace(layer, nodes=[*layer.nodes], activations=[*layer.activations])
            joined.append(before)
        maker[layer.output] = before
    return joined


def add_residuals(
    layers: list[Layer], outputs: list[str], takes: Callable[[Layer, Layer], bool]
) -> list[Layer]:
    """Joins convolutions with the sum after them, and with the clamping activation after that.

    takes: may a convolution add the other operand of a sum by itself?
    """
    uses = Counter(name for layer in layers for name in layer.inputs)
    uses.update(outputs)
    place = {layer.output: i for i, layer in enumerate(layers)}
    maker: dict[str, Layer] = {}  # of sums and convolutions in `joined`
    joined: list[Layer] = []
    for layer in layers:
        before = None
        if layer.op == "add":
            # the later operand: the other one has been computed before
            name, other = sorted(layer.inputs, key=lambda n: place.get(n, -1), reverse=True)
            before = maker.get(name)
            if before is not None and uses[name] == 1 and name != other and takes(before, layer):
                before.residual = other
            else:
                before = None
        elif layer.op == "activate":
            before = maker.get(layer.inputs[0])
            clamps = layer.activations[0].kind == ActivationKind.clamp
            if before is not None and before.residual and uses[before.output] == 1 and clamps:
                before.bounds = (layer.activations[0].a, layer.activations[0].b)
            else:
                before = None
        if before is None:
            joined.append(layer)
            if layer.op == "conv":
                maker[layer.output] = layer
            continue
        del maker[before.output]
        before.output = before.computed = layer.output
        if layer.op == "add":
            maker[before.output] = before
    return joined
