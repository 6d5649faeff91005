"""The execution plan of a network: one program per batch mode, made when the network is loaded.

The head runs on one image at a time (`Mode.single`) or on a vector of images at a time
(`Mode.interleaved`), whose first layers may run image by image (`Mode.prefix`). The tail
(`Mode.tail`), the fully connected layers at the end, runs on all images of a batch at once, so that
their weights are read once.
"""

import math
import time
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skinny._native import MOST_CACHED, Engine, Mode
from skinny.runtime.divide import split_head
from skinny.runtime.fuse import Layer, fuse
from skinny.runtime.images import Images
from skinny.runtime.kernel_weights import KernelWeights
from skinny.runtime.layout import Shape, empty
from skinny.runtime.lower import lower
from skinny.runtime.lower_conv import is_depthwise, reads_unpadded
from skinny.runtime.memory import MemoryLimit, MemoryLimitError
from skinny.runtime.program import Program
from skinny.runtime.step_info import StepInfo
from skinny.runtime.teams import nanoseconds, worth
from skinny.runtime.weights import Weights

# Operations on vectors of features, which the tail may have.
_TAIL_OPERATIONS = {"linear", "activate", "softmax", "log_softmax", "batch_norm", "add", "concat"}
_CODE_SHARE = 16  # of the memory limit, for the code of one mode
# Floats of a vector of images that are live at once, after a division of the head: they and the
# code stay in a third-level cache of 32 MB for the most part, though all threads are in one vector.
_DIVIDED = 10 << 20
_DIVIDED_LANES = 16  # with fewer, images in vectors are no faster
# Floats of dense weights that stay in a core's second-level cache: reading them once for a vector
# of images gains nothing over reading them for each image. The values of an image mostly stay
# there, too; those of a vector do not if they take more floats than this.
_CACHED_WEIGHTS, _CACHED_VALUES = 1 << 17, 1 << 21
_MOST_TEAMS = 64  # kept; more sizes of batches start anew


class Draft:
    """The programs of a graph, planned without reading any weights.

    `kernels` can tell how much memory the weights would take, before `lower` plans the programs.
    """

    def __init__(
        self, graph: Mapping[str, Any], shapes: Mapping[str, Shape], weights: Weights, threads: int
    ) -> None:
        """threads: how many the programs are divided for; any number may run them."""
        own = dict(shapes)
        self._layers = fuse(graph)
        self._start, self._end = graph["inputs"][0]["name"], graph["outputs"][0]
        if len(graph["outputs"]) > 1:
            self._end = _join(self._layers, graph["outputs"], own)
        self._first, self._boundary = split_tail(self._layers, self._end, own)
        self.outputs = math.prod(own[self._end])
        self.kernels = KernelWeights(weights, own, threads)
        self.engine = Engine()
        self.programs: list[Program] = []
        self._shapes, self._threads = own, threads

    def lower(self) -> None:
        head, tail = self._layers[: self._first], self._layers[self._first :]
        start, boundary = self._start, self._boundary
        programs = {mode: self._program(mode) for mode in Mode}
        lower(programs[Mode.single], head, start, boundary)
        lower(programs[Mode.interleaved], head, start, boundary)
        lower(programs[Mode.tail], tail, boundary, self._end)
        division, lanes = None, self.engine.lanes()
        if self._one_by_one(head, programs):
            self.programs = [programs[Mode.single], programs[Mode.tail]]
            return
        if lanes >= _DIVIDED_LANES and programs[Mode.interleaved].positions > MOST_CACHED // lanes:
            single = programs[Mode.single]
            division = split_head(
                head, start, boundary, self._shapes, _DIVIDED // lanes,
                lambda layer: is_depthwise(single, layer),
            )  # fmt: skip
        if division is None:
            del programs[Mode.prefix]
        else:
            at, value = division
            lower(programs[Mode.prefix], head[:at], start, value)
            programs[Mode.interleaved] = self._program(Mode.interleaved)
            lower(programs[Mode.interleaved], head[at:], value, boundary)
        self.programs = list(programs.values())

    def _one_by_one(self, head: list[Layer], programs: Mapping[Mode, Program]) -> bool:
        """Whether all images of a batch run one by one: vectors of images are for sparse weights,
        whose code and indices are read once for all of them, and for small images, whose rows
        would not fill vectors, unless there are depthwise layers, whose kernels are for one."""
        convolutions = [layer for layer in head if layer.op == "conv"]
        others = [x for x in convolutions if not is_depthwise(programs[Mode.single], x)]
        if any(self.kernels.kernel(layer.node) != "dense" for layer in others):
            return False
        small = programs[Mode.interleaved].positions <= _CACHED_VALUES // self.engine.lanes()
        # A network that is one first layer writes the caller's results, image by image.
        one = len(head) == len(self._layers) == 1 and reads_unpadded(programs[Mode.single], head[0])
        if small and len(others) == len(convolutions) and not one:
            return False
        total = sum(math.prod(self.kernels.shape(layer.node)) for layer in convolutions)
        return 0 < total <= _CACHED_WEIGHTS

    def _program(self, mode: Mode) -> Program:
        return Program(self.engine, mode, self._shapes, self.kernels, self._threads)


class Plan:
    """Runs a graph on the native engine. All weights are read when it is made."""

    def __init__(
        self,
        graph: Mapping[str, Any],
        shapes: Mapping[str, Shape],
        weights: Weights,
        threads: int,
        limit: MemoryLimit,
        taken: int = 0,
        generate: bool = True,
    ) -> None:
        """taken: what others have of the limit while the plan is made. generate: make code for
        layers where it is faster (native/jit), which takes memory."""
        draft = Draft(graph, shapes, weights, threads)
        needed = taken + draft.kernels.estimate(graph["nodes"])
        limit.check(needed, "the network", "choose a smaller network")
        draft.lower()
        once = (Mode.single, Mode.tail)
        needed += sum(4 * p.positions for p in draft.programs if p.mode in once)
        limit.check(needed, "the network", "choose a smaller network")
        self.steps: dict[Mode, list[StepInfo]] = {}
        for program in draft.programs:
            if program.addressable:
                program.emit()
                self.steps[program.mode] = program.infos
        self._engine, self._outputs = draft.engine, draft.outputs
        self._weight_bytes = draft.kernels.bytes
        self._limit = limit
        self._generate = generate
        self.code: dict[Mode, list[int]] = {}  # bytes of each step's generated code
        self.code_seconds: dict[Mode, float] = {}  # that one core took to make it
        steps = [info for mode in once for info in self.steps.get(mode, ())]
        self._work, self._steps_once = nanoseconds(steps), len(steps)
        self._teams: dict[tuple[int, int], int] = {}
        self._team(1, threads)

    def run(
        self,
        x: NDArray[Any],
        images: Images,
        threads: int,
        seconds: list[list[float]] | None = None,
    ) -> NDArray[np.float32]:
        """[batch, outputs] for a checked batch. Fills `seconds` with each mode's steps' times."""
        threads = self._team(len(x), threads)
        y = empty((len(x), self._outputs))
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

    def _team(self, batch: int, threads: int) -> int:
        """How many of `threads` compute a batch, after a check of its memory. Batches of few sizes
        recur, and small networks take a few microseconds: the answers are kept."""
        team = self._teams.get((batch, threads))
        if team is None:
            self._check(batch, threads)
            self._make_code(batch)
            if len(self._teams) >= _MOST_TEAMS:
                self._teams.clear()
            singles = self.singles(batch)
            items = singles + -(-(batch - singles) // self._engine.lanes())
            shared = self._steps_once if items < threads else 0
            team = self._teams[batch, threads] = worth(batch * self._work, threads, shared)
        return team

    def _make_code(self, batch: int) -> None:
        """Code for the modes that a batch runs in, when they are first used."""
        singles = self.singles(batch)
        for mode in self.steps:
            images = {Mode.single: singles, Mode.tail: 0}.get(mode, batch - singles)
            if self._generate and images and mode not in self.code:
                most = self._limit.max_memory // _CODE_SHARE
                began = time.perf_counter()
                self.code[mode] = self._engine.generate(mode=mode, max_bytes=most)
                self.code_seconds[mode] = time.perf_counter() - began

    def memory(self, batch: int, threads: int) -> int:
        """Bytes of the weights, and of what the engine takes for a batch and keeps for the next.
        Raises a `MemoryLimitError` if that cannot be addressed."""
        mode = Mode.interleaved if self.singles(batch) < batch else Mode.single
        if mode not in self.steps:
            count = 1 if mode == Mode.single else self._engine.lanes()
            raise MemoryLimitError(
                f"the values of {count} images at a time are too large to address; give the "
                "network fewer images, or choose a smaller one"
            )
        code = sum(map(sum, self.code.values()))
        workspace = self._engine.workspace_bytes(images=batch, threads=threads)
        return self._weight_bytes + code + workspace

    def _check(self, batch: int, threads: int) -> None:
        """Raises a `MemoryLimitError` if a batch needs more memory than the network may take."""
        needed = self.memory(batch, threads) + 4 * batch * self._outputs
        images = "one image" if batch == 1 else f"a batch of {batch} images"
        self._limit.check(needed, f"{images} on {threads} threads", "give it fewer images, threads")


def _join(layers: list[Layer], outputs: list[str], shapes: dict[str, Shape]) -> str:
    """Adds a value that is all outputs, one after the other, and returns its name."""

    def add(layer: Layer, shape: Shape) -> str:
        while layer.output in shapes:
            layer.output += "'"
        shapes[layer.output] = shape
        layers.append(layer)
        return layer.output

    flat = [
        add(Layer("reshape", [], [name], f"{name} (output {i})"), (math.prod(shapes[name]),))
        for i, name in enumerate(outputs)
    ]
    whole = Layer("concat", [{"op": "concat", "axis": 1}], flat, "all outputs")
    return add(whole, (sum(shapes[name][0] for name in flat),))


def split_tail(layers: list[Layer], end: str, shapes: Mapping[str, Shape]) -> tuple[int, str]:
    """The index of the tail's first layer, and the name of the one value the tail reads. All values
    of the tail are vectors of features. The tail is empty if no such layer exists."""
    first, boundary = len(layers), end
    entering = {end}  # what the layers from `start` on read and do not make
    for start in range(len(layers) - 1, -1, -1):
        layer = layers[start]
        vectors = all(len(shapes[name]) == 1 for name in (*layer.inputs, layer.output))
        if layer.op not in _TAIL_OPERATIONS or not vectors:
            break
        entering.discard(layer.output)
        entering.update(layer.inputs)
        if len(entering) == 1:
            first, (boundary,) = start, entering
    return first, boundary
