"""The weights of a plan in kernel form: each made once, and shared by the programs of all modes."""

import math
from collections.abc import Iterable, Mapping
from typing import Any

from skinny._native import MAX_TAPS, ConvWeights, DirectWeights, Engine, LinearWeights
from skinny.runtime.convolution import IMAGE_CHANNELS, Geometry, block_taps, geometry
from skinny.runtime.layout import Shape, View
from skinny.runtime.weights import Kernel, Weights

Node = Mapping[str, Any]


class KernelWeights:
    """What the kernels read of a model's weights.

    Planning asks for geometries and kernels, which need only shapes; weights are decoded when a
    step is emitted that uses them.
    """

    def __init__(self, weights: Weights, shapes: Mapping[str, Shape], threads: int) -> None:
        self.weights = weights
        self._shapes = shapes
        self._threads = threads
        self._geometries: dict[tuple[Any, ...], Geometry] = {}
        self._convolutions: dict[tuple[Any, ...], ConvWeights] = {}
        self._direct: dict[tuple[Any, ...], DirectWeights] = {}
        self._linear: dict[str, LinearWeights] = {}

    def geometry(
        self,
        node: Node,
        given: View | None = None,
        row_stride: int | None = None,
    ) -> Geometry:
        """Where the taps of a convolution lie: `convolution.geometry` has the arguments."""
        key = (node["output"], given, row_stride)
        if key not in self._geometries:
            x, out = self._shapes[node["inputs"][0]], self._shapes[node["output"]]
            self._geometries[key] = geometry(node, x, self.shape(node), out, given, row_stride)
        return self._geometries[key]

    def shape(self, node: Node) -> tuple[int, ...]:
        return self.weights.shape(node["weight"])

    def kept(self, node: Node) -> int:
        return self.weights.kept(node["weight"])

    def kernel(self, node: Node) -> Kernel:
        outputs, *rest = self.shape(node)
        if math.prod(rest[1:]) > MAX_TAPS:  # a sparse kernel cannot index the taps of one channel
            return "dense"
        return self.weights.kernel(node["weight"], outputs // node.get("groups", 1))

    def convolution(self, node: Node) -> ConvWeights:
        dense = self.kernel(node) == "dense"
        size = math.prod(self.shape(node))
        block = block_taps(
            self.geometry(node),
            self._shapes[node["output"]],
            Engine.lanes(),
            self.kept(node) / size,
            dense,
        )
        key = (node["weight"], node.get("weight_scale"), node["groups"], block)
        if key not in self._convolutions:
            weight = self.weights.convolution(node)
            self._convolutions[key] = ConvWeights(
                weights=weight.reshape(len(weight), -1),
                groups=node["groups"],
                block_taps=block,
                ranges=self._threads,
                dense=dense,
            )
        return self._convolutions[key]

    def direct(self, node: Node) -> DirectWeights:
        """The weights of a dense first layer, for programs of one image."""
        key = (node["weight"], node.get("weight_scale"))
        if key not in self._direct:
            self._direct[key] = DirectWeights(weights=self.weights.convolution(node))
        return self._direct[key]

    def linear(self, node: Node) -> LinearWeights:
        name = node["weight"]
        if name not in self._linear:
            self._linear[name] = self.weights.linear(name, self.kernel(node) == "dense")
        return self._linear[name]

    @property
    def bytes(self) -> int:
        """Of all weights made so far."""
        made = (self._convolutions, self._direct, self._linear)
        return sum(weights.bytes for kind in made for weights in kind.values())

    def estimate(self, nodes: Iterable[Node]) -> int:
        """About how many bytes the weights of nodes take in kernel form, and while they are made,
        one tensor after the other. Reads nothing."""
        held, making = 0, 0
        for node in nodes:
            if "weight" not in node or node["op"] == "batch_norm":
                continue
            shape, kept = self.shape(node), self.kept(node)
            size, taps = math.prod(shape), math.prod(shape[1:])
            dense = self.kernel(node) == "dense"
            # values; tap indices or bitmask; where each row of a block begins; tap offsets
            values = 4 * size if dense else 6 * kept + size // 4
            if node["op"] == "conv" and dense and shape[1] <= IMAGE_CHANNELS:
                values *= 2  # in the form of direct convolutions too
            if node["op"] == "linear" and not dense:
                values += LinearWeights.most_strip_bytes(kept=kept)
            blocks = 256 * max(self._threads, node.get("groups", 1))
            held += values + 16 * shape[0] + 12 * taps + blocks
            # read, decoded, and a convolution's expanded
            expanded = 4 * size if node["op"] == "conv" or dense else 0
            making = max(making, 8 * kept + size // 4 + expanded)
        return held + making
