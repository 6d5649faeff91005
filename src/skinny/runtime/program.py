"""A program being written: values with their place in the arena, and steps in order."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from skinny.packing import GraphError
from skinny.runtime.layout import Buffer, Shape, View, arrange, compact
from skinny.runtime.weights import Weights

SINGLE, BLOCK, TAIL = 0, 1, 2  # native/runtime/program.h
LARGEST_OFFSET = 2**31 - 1


@dataclass(frozen=True)
class StepInfo:
    """What a step computes, for `profile`."""

    name: str
    op: str
    kernel: str
    operations: int = 0  # multiplications and additions of one image, those with zeros not counted


class Program:
    """One phase of a network. Steps are emitted into the engine once all values have their place.

    A step that reads a value calls `read` before it calls `step`, one that writes a value calls
    `make`; `view` tells where the value lies, and is asked when the step is emitted, not before.
    """

    def __init__(
        self, engine: Any, phase: int, shapes: dict[str, Shape], weights: Weights, threads: int
    ) -> None:
        self.engine = engine
        self.phase = phase
        self.shapes = shapes
        self.weights = weights
        self.threads = threads
        self.lanes: int = engine.lanes()
        self.n = self.lanes if phase == BLOCK else 1  # images interleaved
        self.margins: dict[str, View] = {}  # values that are not compact
        self._buffers: dict[str, Buffer] = {}
        self._temporaries: list[Buffer] = []
        self._emits: list[Callable[[], None]] = []
        self.infos: list[StepInfo] = []

    def make(self, name: str) -> None:
        """The next step writes this value."""
        view = self.margins.get(name, compact(self.shapes[name]))
        self._buffers[name] = Buffer(view, len(self._emits))

    def read(self, name: str) -> None:
        """The next step reads this value."""
        self._buffers[name].last = len(self._emits)

    def alias(self, name: str, of: str) -> None:
        """A value is another one with a new shape."""
        self._buffers[name] = self._buffers[of]

    def view(self, name: str) -> View:
        """Where a value lies, once all have their place."""
        buffer = self._buffers[name]
        if name in self.margins:
            return buffer.view
        return compact(self.shapes[name])._replace(offset=buffer.view.offset)

    def temporary(self, view: View) -> Buffer:
        """A place the next step writes and the one after it reads."""
        buffer = Buffer(view, len(self._emits))
        buffer.last = buffer.first + 1
        self._temporaries.append(buffer)
        return buffer

    def step(self, info: StepInfo, emit: Callable[[], None]) -> None:
        self._emits.append(emit)
        self.infos.append(info)

    def finish(self, start: str, end: str) -> list[StepInfo]:
        """Arranges the arena and emits all steps, which lead from value `start` to `end`."""
        self.read(end)
        buffers = {id(buffer): buffer for buffer in self._buffers.values()}
        positions = arrange([*buffers.values(), *self._temporaries])
        if positions * self.n > LARGEST_OFFSET:
            raise GraphError(
                f"the network's values need {positions} positions, too many to address"
            )
        out = compact((math.prod(self.shapes[end]),))
        self.engine.begin(
            self.phase,
            positions,
            self.view(start),
            out._replace(offset=self._buffers[end].view.offset),
        )
        for emit in self._emits:
            emit()
        self._emits.clear()  # they hold the weights, and this program
        return self.infos
