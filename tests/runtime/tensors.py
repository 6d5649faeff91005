"""A tensor program of few steps, whose tensors lie in the arena in any order of axes and with gaps
between their rows."""

from typing import NamedTuple

import numpy as np
from hypothesis import strategies as st

from skinny import _native
from skinny.runtime.layout import View


class Tensor(NamedTuple):
    """As `skinny.runtime.strided.Tensor`: native code reads the fields by name."""

    storage: int
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]


class Layout(NamedTuple):
    """The order of a tensor's axes in memory, outermost first, and the gap after each one."""

    order: tuple[int, ...]
    gaps: tuple[int, ...]


def row_major(rank: int) -> Layout:
    return Layout(tuple(range(rank)), (0,) * rank)


@st.composite
def layouts(draw, rank: int) -> Layout:
    order = tuple(draw(st.permutations(range(rank))))
    gaps = [0] * rank
    for _ in range(draw(st.integers(0, 2)) if rank else 0):  # more would fill any arena
        gaps[draw(st.integers(0, rank - 1))] = draw(st.sampled_from([1, 3]))
    return Layout(order, tuple(gaps))


class Workbench:
    """Places tensors, runs the steps that were added to `program`, returns the outputs."""

    def __init__(self, cells: int = 1 << 18, grain: float = 0.0) -> None:
        self.program = _native.TensorProgram(cells=cells, grain=grain)
        self.used = 0
        self.inputs: list[np.ndarray] = []
        self.shapes: list[tuple[int, ...]] = []

    def place(self, shape: tuple[int, ...], layout: Layout | None = None) -> Tensor:
        layout = layout or row_major(len(shape))
        strides, stride = [0] * len(shape), 1
        for axis in reversed(layout.order):
            strides[axis] = stride
            stride = stride * shape[axis] + layout.gaps[axis]
        tensor = Tensor(0, self.used, tuple(shape), tuple(strides))
        self.used += stride + 1
        return tensor

    def input(self, values: np.ndarray, layout: Layout | None = None) -> Tensor:
        tensor = self.place(values.shape, layout)
        self.program.add_input(target=tensor, dtype=values.dtype.name)
        self.inputs.append(np.ascontiguousarray(values).reshape(values.shape))
        return tensor

    def constant(self, values: np.ndarray) -> Tensor:
        flat = np.ascontiguousarray(values, np.float32).reshape(-1)
        strides = [s // 4 for s in np.empty(values.shape, np.float32).strides]
        number = self.program.add_constant(values=flat)
        return Tensor(number, 0, values.shape, tuple(strides))

    def output(self, tensor: Tensor) -> Tensor:
        self.program.add_output(source=tensor)
        self.shapes.append(tensor.shape)
        return tensor

    def run(self, threads: int = 2) -> list[np.ndarray]:
        results = [np.full(shape, np.nan, np.float32) for shape in self.shapes]
        self.program.run(inputs=self.inputs, outputs=results, threads=threads, timed=False)
        return results


def broadcast(tensor: Tensor, shape: tuple[int, ...]) -> Tensor:
    """Strides of 0 along the axes that `tensor` lacks, or has one entry of."""
    missing = len(shape) - len(tensor.shape)
    strides = [
        0 if axis < missing or tensor.shape[axis - missing] == 1 else tensor.strides[axis - missing]
        for axis in range(len(shape))
    ]
    return tensor._replace(shape=tuple(shape), strides=tuple(strides))


def run_image_step(add, x, outputs, size, *, gap=0, threads=2):
    """The result, [samples, outputs, *size], of a step on images that `add(program, **views)` adds.
    gap: zeros that it leaves before the first row and between the rows. Nothing else is written."""
    samples, channels, height, width = x.shape
    bench = Workbench(1 << 20)
    source = bench.input(x)
    channel_stride = size[0] * (size[1] + gap) + gap
    sample_stride = outputs * channel_stride + 9
    whole = Tensor(0, bench.used, (samples, sample_stride), (sample_stride, 1))
    bench.program.add_fill(target=whole, value=7)
    add(
        bench.program,
        samples=samples,
        source_sample_stride=channels * height * width,
        target_sample_stride=sample_stride,
        source=View(source.offset, channels, height, width, height * width, width, 0),
        target=View(bench.used, outputs, *size, channel_stride, size[1] + gap, gap),
    )
    bench.output(whole)
    result = bench.run(threads)[0]
    assert (result[:, sample_stride - 9 :] == 7).all()  # nothing after a sample is written
    written = result[:, : sample_stride - 9].reshape(samples, outputs, channel_stride)
    rows = written[:, :, gap:].reshape(samples, outputs, size[0], size[1] + gap)
    assert (rows[..., size[1] :] == 0).all()  # the padding is zero
    return rows[..., : size[1]]
