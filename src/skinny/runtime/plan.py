"""The execution plan of a network: one program per batch mode, planned when it is first needed.

The head runs on one image at a time (`Mode.single`) or on a vector of images at a time
(`Mode.interleaved`). The tail (`Mode.tail`), the fully connected layers at the end, runs on all
images of a batch at once, so that their weights are read once.
"""

import math
import threading
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skinny._native import Engine, Mode
from skinny.runtime.fuse import Layer, fuse
from skinny.runtime.images import Images
from skinny.runtime.layout import Shape
from skinny.runtime.lower import lower
from skinny.runtime.program import Program, StepInfo
from skinny.runtime.weights import Weights

# Operations on vectors of features, which the tail may have.
_TAIL_OPERATIONS = {"linear", "activate", "softmax", "log_softmax", "batch_norm", "add", "concat"}


class Plan:
    """Runs a graph on the native engine."""

    def __init__(
        self,
        graph: Mapping[str, Any],
        shapes: Mapping[str, Shape],
        weights: Weights,
    ) -> None:
        self._shapes = dict(shapes)
        self._weights = weights
        layers = fuse(graph)
        self._start = graph["inputs"][0]["name"]
        self._end = graph["outputs"][0]
        if len(graph["outputs"]) > 1:
            self._end = self._join(layers, graph["outputs"])
        first, self._boundary = split_tail(layers, self._end, self._shapes)
        self._head, self._tail = layers[:first], layers[first:]
        self._lock = threading.Lock()
        self._engine = Engine()
        self.steps: dict[Mode, list[StepInfo]] = {}

    def run(
        self,
        x: NDArray[Any],
        images: Images,
        threads: int,
        seconds: list[list[float]] | None = None,
    ) -> NDArray[np.float32]:
        """[batch, outputs] for a checked batch. Fills `seconds` with each mode's steps' times."""
        self._prepare(len(x), threads)
        y = np.empty((len(x), math.prod(self._shapes[self._end])), np.float32)
        timed = seconds is not None
        if x.dtype == np.uint8:
            scale, shift = images.scaling()
            times = self._engine.run_bytes(
                x=x.reshape(-1), scale=scale, shift=shift, y=y, threads=threads, timed=timed
            )
        else:
            times = self._engine.run_floats(x=x.reshape(-1), y=y, threads=threads, timed=timed)
        if seconds is not None:
            seconds[:] = times
        return y

    def singles(self, batch: int) -> int:
        """How many images of a batch run one by one; the others run in vectors."""
        return self._engine.singles(batch)

    def _prepare(self, batch: int, threads: int) -> None:
        needed = [Mode.tail]
        if self.singles(batch):
            needed.append(Mode.single)
        if self.singles(batch) < batch:
            needed.append(Mode.interleaved)
        with self._lock:
            for mode in needed:
                if mode not in self.steps:
                    program = Program(self._engine, mode, self._shapes, self._weights, threads)
                    layers, start, end = self._head, self._start, self._boundary
                    if mode == Mode.tail:
                        layers, start, end = self._tail, self._boundary, self._end
                    self.steps[mode] = lower(program, layers, start, end)

    def _join(self, layers: list[Layer], outputs: list[str]) -> str:
        """Adds a value that is all outputs, one after the other, and returns its name."""
        flat = []
        for i, name in enumerate(outputs):
            flat.append(f"{name} (output {i})")
            self._shapes[flat[-1]] = (math.prod(self._shapes[name]),)
            layers.append(Layer("reshape", [], [name], flat[-1]))
        joined = "all outputs"
        while joined in self._shapes:
            joined += "'"
        self._shapes[joined] = (sum(self._shapes[name][0] for name in flat),)
        layers.append(Layer("concat", [{"op": "concat", "axis": 1}], flat, joined))
        return joined


def split_tail(layers: list[Layer], end: str, shapes: Mapping[str, Shape]) -> tuple[int, str]:
    """The index of the tail's first layer, and the name of the one value the tail reads. All values
    of the tail are vectors of features. The tail is empty if no such layer exists."""
    first, boundary = len(layers), end
    for start in range(len(layers) - 1, -1, -1):
        layer = layers[start]
        vectors = all(len(shapes[name]) == 1 for name in (*layer.inputs, layer.output))
        if layer.op not in _TAIL_OPERATIONS or not vectors:
            break
        made = {later.output for later in layers[start:]}
        entering = {name for later in layers[start:] for name in later.inputs} - made
        if len(entering) == 1:
            first, boundary = start, entering.pop()
    return first, boundary
