"""A network run layer by layer, with only one layer's weights in memory at a time."""

from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skinny.runtime import reference
from skinny.runtime.fuse import Layer, fuse
from skinny.runtime.images import Images
from skinny.runtime.layout import Shape
from skinny.runtime.plan import Plan
from skinny.runtime.weights import Weights


class LayerByLayer:
    """Runs each layer as a small network, planned when the layer runs and dropped afterwards.

    Values between layers are plain arrays, kept until their last reader has run.
    """

    def __init__(
        self,
        graph: Mapping[str, Any],
        shapes: Mapping[str, Shape],
        weights: Weights,
    ) -> None:
        self._graph = graph
        self._shapes = shapes
        self._weights = weights
        self._layers = fuse(graph)

    def run(self, x: NDArray[Any], images: Images, threads: int) -> NDArray[np.float32]:
        """[batch, outputs] for a checked batch."""
        outputs = self._graph["outputs"]
        readers = Counter(name for layer in self._layers for name in layer.inputs)
        readers.update(outputs)
        values = {self._graph["inputs"][0]["name"]: images.floats(x)}
        for layer in self._layers:
            inputs = [values[name] for name in layer.inputs]
            values[layer.output] = self._run_layer(layer, inputs, threads)
            for name in layer.inputs:
                readers[name] -= 1
                if not readers[name]:
                    values.pop(name, None)
        rows = [values[name].reshape(len(x), -1) for name in outputs]
        return rows[0] if len(rows) == 1 else np.concatenate(rows, axis=1)

    def _run_layer(
        self, layer: Layer, inputs: list[NDArray[np.float32]], threads: int
    ) -> NDArray[np.float32]:
        name = layer.inputs[0]
        if len(layer.inputs) > 1:  # a sum or a concatenation, which has no weights
            return reference.run_node(layer.node, self._weights.dense, inputs)
        shape = self._shapes[name]
        graph = {
            "inputs": [{"name": name, "shape": [None, *shape], "dtype": "float32"}],
            "nodes": _nodes(self._graph, layer),
            "outputs": [layer.output],
        }
        plan = Plan(graph, self._shapes, self._weights)
        result = plan.run(inputs[0], Images(shape, None), threads)
        return result.reshape(-1, *self._shapes[layer.output])


def _nodes(graph: Mapping[str, Any], layer: Layer) -> list[Mapping[str, Any]]:
    """The nodes of a layer, the activation that was fused into it included."""
    nodes = list(layer.nodes)
    if nodes[-1]["output"] != layer.output:
        nodes.append(next(node for node in graph["nodes"] if node["output"] == layer.output))
    return nodes
