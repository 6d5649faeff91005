"""A program being planned: values with their offset in the arena, and steps in order."""

import math
from collections.abc import Callable

from skinny._native import MAX_OFFSET, Engine, Mode
from skinny.runtime.kernel_weights import KernelWeights
from skinny.runtime.layout import Buffer, Shape, View, compact, plan_memory
from skinny.runtime.step_info import StepInfo


class Program:
    """The program of one batch mode. First its steps and their memory are planned, without reading
    any weights; then `emit` hands them to the engine.

    A step that reads a value calls `read` before it calls `step`, one that writes a value calls
    `make`; `view` tells where the value lies, and is asked when the step is emitted, not before.
    """

    def __init__(
        self,
        engine: Engine,
        mode: Mode,
        shapes: dict[str, Shape],
        weights: KernelWeights,
        threads: int,
    ) -> None:
        self.engine = engine
        self.mode = mode
        self.shapes = shapes
        self.weights = weights
        self.threads = threads
        self.lanes = engine.lanes()
        self.n = self.lanes if mode == Mode.interleaved else 1  # images interleaved
        # values with padding around rows, or with gaps between channels; all others are compact
        self.padded: dict[str, View] = {}
        # where values have gaps between channels: the row stride of images whose rows lie apart
        self.row_strides: dict[Shape, int] | None = None
        # values that lie in another one, which is no slice itself, from a position on: inputs of a
        # concatenation, and other shapes of a value
        self.slices: dict[str, tuple[str, int]] = {}
        self._buffers: dict[str, Buffer] = {}
        self._temporaries: list[Buffer] = []
        self._emits: list[Callable[[], None]] = []
        self.infos: list[StepInfo] = []
        self.positions = 0  # of the arena
        self._ends = ("", "")

    def make(self, name: str) -> None:
        """The next step writes this value."""
        whole, _ = self.slice_of(name)
        if whole not in self._buffers:
            self._buffers[whole] = Buffer(self.layout(whole), len(self._emits))
        self._buffers[name] = self._buffers[whole]
        self.read(name)

    def read(self, name: str) -> None:
        """The next step reads this value."""
        self._buffers[name].last = len(self._emits)

    def layout(self, name: str) -> View:
        """How a value lies; its offset is known after memory planning."""
        return self.padded.get(name, compact(self.shapes[name]))

    def row_stride(self, shape: Shape) -> int | None:
        """That of values with gaps between channels, if values of this shape should have them."""
        if self.row_strides is None:
            return None
        return self.row_strides.get(shape[1:], shape[2])

    def alias(self, name: str, of: str) -> None:
        """A value is another one with a new shape."""
        self._buffers[name] = self._buffers[of]
        self.slices[name] = self.slice_of(of)

    def slice_of(self, name: str) -> tuple[str, int]:
        """The value that holds another one, and from which position on."""
        return self.slices.get(name, (name, 0))

    def view(self, name: str) -> View:
        """Where a value lies, after memory planning."""
        buffer = self._buffers[name]
        if name in self.padded:
            return buffer.view
        offset = buffer.view.offset + self.slice_of(name)[1]
        return compact(self.shapes[name])._replace(offset=offset)

    def temporary(self, view: View) -> Buffer:
        """A buffer that the next step writes and the one after it reads."""
        buffer = Buffer(view, len(self._emits))
        buffer.last = buffer.first + 1
        self._temporaries.append(buffer)
        return buffer

    def step(self, info: StepInfo, emit: Callable[[], None]) -> None:
        self._emits.append(emit)
        self.infos.append(info)

    def finish(self, start: str, end: str) -> None:
        """Plans the memory of all steps, which lead from value `start` to `end`."""
        self.read(end)
        buffers = {id(buffer): buffer for buffer in self._buffers.values()}
        self.positions = plan_memory([*buffers.values(), *self._temporaries])
        self._ends = (start, end)

    @property
    def addressable(self) -> bool:
        """Whether the kernels can address the arena."""
        return self.positions * self.n <= MAX_OFFSET

    def emit(self) -> None:
        """Hands all steps to the engine, with their weights."""
        start, end = self._ends
        out = compact((math.prod(self.shapes[end]),))
        self.engine.begin(
            mode=self.mode,
            positions=self.positions,
            source=self.view(start),
            target=out._replace(offset=self.view(end).offset),
            read_once=start != end and self._buffers[start].last == 0,
        )
        for emit in self._emits:
            emit()
