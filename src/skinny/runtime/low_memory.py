"""A network run layer by layer, with only one layer's weights in memory at a time."""

import math
from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skinny.runtime import reference
from skinny.runtime.fuse import Layer, fuse
from skinny.runtime.images import Images
from skinny.runtime.layout import Shape
from skinny.runtime.memory import MemoryLimit
from skinny.runtime.plan import Draft, Plan
from skinny.runtime.weights import Weights


class LayerByLayer:
    """Runs each layer as a small network, planned when the layer runs and dropped afterwards.

    Weights are read from the file, and checked, for every batch again. Values between layers are
    plain arrays, kept until their last reader has run.
    """

    def __init__(
        self,
        graph: Mapping[str, Any],
        shapes: Mapping[str, Shape],
        weights: Weights,
        threads: int,
        limit: MemoryLimit,
    ) -> None:
        self._graph = graph
        self._shapes = shapes
        self._weights = weights
        self._limit = limit
        self._layers = fuse(graph)
        self._makers = {node["output"]: node for node in graph["nodes"]}
        draft = Draft(graph, shapes, weights, threads)
        for layer in self._layers:
            needed = draft.kernels.estimate(layer.nodes)
            needed += 4 * sum(math.prod(shapes[name]) for name in (*layer.inputs, layer.output))
            limit.check(needed, "a layer of the network", "choose a smaller network")
        draft.lower()  # refuses what cannot be planned, before the first batch

    def run(self, x: NDArray[Any], images: Images, threads: int) -> NDArray[np.float32]:
        """[batch, outputs] for a checked batch."""
        outputs = self._graph["outputs"]
        readers = Counter(name for layer in self._layers for name in layer.inputs)
        readers.update(outputs)
        values = {self._graph["inputs"][0]["name"]: images.floats(x)}
        taken = sum(value.nbytes for value in values.values())
        for layer in self._layers:
            inputs = [values[name] for name in layer.inputs]
            made = 4 * len(x) * math.prod(self._shapes[layer.output])
            limit = self._limit.less(taken)
            limit.check(2 * made, f"a batch of {len(x)} images", "give it fewer images")
            values[layer.output] = self._run_layer(layer, inputs, threads, limit)
            taken += made
            for name in layer.inputs:
                readers[name] -= 1
                if not readers[name]:
                    taken -= values.pop(name).nbytes
        rows = [values[name].reshape(len(x), -1) for name in outputs]
        return rows[0] if len(rows) == 1 else np.concatenate(rows, axis=1)

    def _run_layer(
        self, layer: Layer, inputs: list[NDArray[np.float32]], threads: int, limit: MemoryLimit
    ) -> NDArray[np.float32]:
        name = layer.inputs[0]
        if len(layer.inputs) > 1:  # a sum or a concatenation, which has no weights
            return reference.run_node(layer.node, self._weights.dense, inputs)
        nodes = list(layer.nodes)
        if nodes[-1]["output"] != layer.output:  # the activation that was fused into it
            nodes.append(self._makers[layer.output])
        shape = self._shapes[name]
        graph = {
            "inputs": [{"name": name, "shape": [None, *shape], "dtype": "float32"}],
            "nodes": nodes,
            "outputs": [layer.output],
        }
        shapes = {name: shape, **{node["output"]: self._shapes[node["output"]] for node in nodes}}
        plan = Plan(graph, shapes, self._weights, threads, limit, generate=False)
        result = plan.run(inputs[0], Images(shape, None), threads)
        return result.reshape(-1, *self._shapes[layer.output])
