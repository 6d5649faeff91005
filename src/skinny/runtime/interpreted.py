"""A network on the NumPy reference, where the compiled kernels are missing."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skinny.runtime import reference
from skinny.runtime.images import Images
from skinny.runtime.layout import Shape
from skinny.runtime.memory import MemoryLimit
from skinny.runtime.weights import Weights
from skinny.runtime.windows import axes

Node = Mapping[str, Any]


class Interpreted:
    """Runs a graph node by node. All weights are read when it is made, unless low_memory asks to
    read them for every batch again."""

    def __init__(
        self,
        graph: Mapping[str, Any],
        shapes: Mapping[str, Shape],
        weights: Weights,
        limit: MemoryLimit,
        low_memory: bool,
    ) -> None:
        names = {
            node[field]
            for node in graph["nodes"]
            for field in ("weight", "bias", "mean", "var")
            if node.get(field) is not None
        }
        sizes = [4 * math.prod(weights.shape(name)) for name in names]
        self._weight_bytes = max(sizes, default=0) if low_memory else sum(sizes)
        nodes = graph["nodes"]
        self._floats = sum(math.prod(shapes[node["output"]]) for node in nodes)
        self._floats += max((_temporaries(node, shapes, weights) for node in nodes), default=0)
        self._graph = graph
        self._limit = limit
        self._check(1)
        for node in graph["nodes"]:
            if node["op"].endswith("_pool"):
                axes(node, shapes[node["inputs"][0]])  # refuses windows that see nothing
        tensors = {} if low_memory else {name: weights.dense(name) for name in names}
        self._tensor = weights.dense if low_memory else tensors.__getitem__

    def run(self, x: NDArray[Any], images: Images, _: int) -> NDArray[np.float32]:
        """[batch, outputs] for a checked batch."""
        self._check(len(x))
        outputs = reference.run(self._graph, self._tensor, images.floats(x))
        return np.concatenate([output.reshape(len(x), -1) for output in outputs], axis=1)

    def _check(self, batch: int) -> None:
        what = f"a batch of {batch} on the NumPy reference"
        needed = self._weight_bytes + 4 * batch * self._floats
        self._limit.check(needed, what, "give it fewer images, install the compiled kernels")


def _temporaries(node: Node, shapes: Mapping[str, Shape], weights: Weights) -> int:
    """Floats of an image that an operation needs beside its input and output, about."""
    out = math.prod(shapes[node["output"]])
    if node["op"] != "conv":
        return 3 * out
    _, height, width = shapes[node["output"]]
    channels, rows, columns = shapes[node["inputs"][0]]
    kernel = math.prod(weights.shape(node["weight"])[2:])
    top, left = node["padding"]
    padded: int = channels * (rows + 2 * top) * (columns + 2 * left)
    return channels * kernel * height * width + padded + 2 * out
