"""Convolutions, pooling, space-to-depth and linear layers of a tensor program, for several samples,
against NumPy. No torch here: `make sanitize` runs this file too, and test_isa.py with every
instruction set."""

import numpy as np
import pytest
from runtime_tensors import Tensor, Workbench

from skinny import _native
from skinny.runtime.layout import View, compact, padded
from skinny.runtime.windows import Axis

NONE = _native.Activation(_native.ActivationKind.none)
RELU = _native.Activation(_native.ActivationKind.clamp, 0.0, np.inf)


def convolved(x, weight, bias):
    """Of [samples, channels, height, width], padded by one."""
    wide = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(wide, (3, 3), (2, 3))
    return np.einsum("nchwij,ocij->nohw", windows, weight) + bias[:, None, None]


def pooled(x):
    """The largest of each 2 x 2."""
    n, c, h, w = x.shape
    return x.reshape(n, c, h // 2, 2, w // 2, 2).max((3, 5))


def halves(side: int) -> Axis:
    begin = np.arange(0, side, 2, dtype=np.int32)
    return Axis(begin, begin + np.int32(2), np.ones(side // 2, np.float32), 1)


class Images:
    """A bench with samples of images; views are of the first sample."""

    def __init__(self) -> None:
        self.bench = Workbench()
        self.program = self.bench.program

    def place(self, view: View, samples: int, gap: int = 0) -> tuple[View, int, Tensor]:
        """The view in its place, the distance of samples, and its rows as a tensor."""
        stride = view.positions + gap
        view = view._replace(offset=self.bench.used)
        self.bench.used += samples * stride + 1
        shape = (samples, view.channels, view.height, view.width)
        strides = (stride, view.channel_stride, view.row_stride, 1)
        return view, stride, Tensor(0, view.offset + view.origin, shape, strides)

    def input(self, x, view: View, gap: int = 0) -> tuple[View, int]:
        view, stride, tensor = self.place(view, len(x), gap)
        self.program.add_input(target=tensor, dtype="float32")
        self.bench.inputs.append(x)
        return view, stride


def random(*shape):
    return np.random.default_rng(0).normal(size=shape).astype(np.float32)


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("samples", [1, 2, 5])
@pytest.mark.parametrize("split", [False, True])
def test_a_convolution_of_several_samples(samples, threads, split):
    x, weight, bias = random(samples, 5, 8, 10), random(6, 5, 3, 3), random(6)
    weight[np.abs(weight) < 1] = 0
    images = Images()
    copied, copied_stride, _ = images.place(padded((5, 8, 10), (1, 1)), samples)
    source, stride = images.input(x, compact((5, 8, 10)), gap=7)
    images.program.add_space_to_depth(
        samples=samples, source_sample_stride=stride, target_sample_stride=copied_stride,
        source=source, target=copied, stride=(1, 1), rows=[0], columns=[0],
    )  # fmt: skip
    target, target_stride, result = images.place(compact((6, 8, 10)), samples, gap=3)
    rows, columns = np.arange(3) * copied.row_stride, np.arange(3)
    taps = np.arange(5)[:, None, None] * copied.channel_stride + rows[:, None] + columns
    stage = _native.Stage(
        weights=_native.ConvWeights(
            weights=weight.reshape(6, -1), groups=1, block_taps=45, ranges=3, dense=False
        ),
        offsets=taps.astype(np.int32).reshape(-1),
        group_stride=0,
        bias=bias,
        low=-np.inf,
        high=np.inf,
        activation=NONE,
    )
    images.program.add_conv(
        samples=samples, source_sample_stride=copied_stride, target_sample_stride=target_stride,
        source=copied, target=target, height=8, width=10, first=0, flat=False,
        tile_rows=2, tile_vectors=2, split_channels=split, stages=[stage],
    )  # fmt: skip
    images.bench.output(result)
    wanted = convolved(x, weight, bias)
    (found,) = images.bench.run(threads)
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("samples", [1, 3])
@pytest.mark.parametrize(("tile_rows", "split"), [(1, False), (1, True), (4, False)])
@pytest.mark.parametrize("kernel", ["sparse", "dense"])
def test_a_convolution_multiplies_its_input_with_factors(
    samples, threads, tile_rows, split, kernel
):
    x, weight, bias = random(samples, 7, 9, 11), random(6, 7), random(6)
    factors = random(samples, 7) + 2
    if kernel == "sparse":
        weight[np.abs(weight) < 1] = 0
    images = Images()
    source, stride = images.input(x, compact((7, 9, 11)), gap=5)
    given = images.bench.input(factors)
    target, target_stride, result = images.place(compact((6, 9, 11)), samples)
    stage = _native.Stage(
        weights=_native.ConvWeights(
            weights=weight, groups=1, block_taps=3, ranges=3, dense=kernel == "dense"
        ),
        offsets=np.arange(7, dtype=np.int32) * source.channel_stride,
        group_stride=0, bias=bias, low=0.0, high=np.inf, activation=NONE,
    )  # fmt: skip
    images.program.add_conv(
        samples=samples, source_sample_stride=stride, target_sample_stride=target_stride,
        source=source, target=target, height=9, width=11, first=0, flat=False,
        tile_rows=tile_rows, tile_vectors=2, split_channels=split, stages=[stage],
        factors=given,
    )  # fmt: skip
    images.bench.output(result)
    wanted = np.einsum("nchw,oc,nc->nohw", x, weight, factors) + bias[:, None, None]
    (found,) = images.bench.run(threads)
    np.testing.assert_allclose(found, np.maximum(wanted, 0), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("samples", [1, 4])
def test_pooling_of_several_samples_pads_each(samples, threads):
    x = random(samples, 3, 6, 8)
    images = Images()
    source, stride = images.input(x, compact((3, 6, 8)))
    target, target_stride, result = images.place(padded((3, 3, 4), (1, 2)), samples)
    whole = result._replace(
        offset=target.offset, shape=(samples, target_stride), strides=(target_stride, 1)
    )
    images.program.add_fill(target=whole, value=9)
    images.program.add_pool(
        samples=samples, source_sample_stride=stride, target_sample_stride=target_stride,
        source=source, target=target,
        pool=_native.Pool(max=True, rows=halves(6), columns=halves(8)),
    )  # fmt: skip
    images.bench.output(result)
    images.bench.output(whole)
    found, everything = images.bench.run(threads)
    np.testing.assert_array_equal(found, pooled(x))
    inside = found.reshape(samples, -1)
    np.testing.assert_allclose(np.abs(everything).sum(1), np.abs(inside).sum(1), rtol=1e-5)


def test_some_channels_of_each_sample_are_made_of_others():
    """As a dense block does: the source and the target are channels of one value."""
    x = random(3, 2, 4, 4)
    images = Images()
    both, stride, tensor = images.place(compact((4, 4, 4)), 3)
    source = both._replace(channels=2)
    target = source._replace(offset=both.offset + 2 * both.channel_stride)
    images.program.add_input(target=tensor._replace(shape=(3, 2, 4, 4)), dtype="float32")
    images.bench.inputs.append(x)
    images.program.add_space_to_depth(
        samples=3, source_sample_stride=stride, target_sample_stride=stride,
        source=source, target=target, stride=(1, 1), rows=[1], columns=[0],
    )  # fmt: skip
    images.bench.output(tensor)
    (found,) = images.bench.run()
    np.testing.assert_array_equal(found[:, :2], x)
    np.testing.assert_array_equal(found[:, 2:, :3], x[:, :, 1:])
    assert (found[:, 2:, 3] == 0).all()


@pytest.mark.parametrize("form", ["dense", "bitmask", "deltas"])
@pytest.mark.parametrize("vectors", [1, 2, 7])
def test_a_linear_layer_of_several_vectors(form, vectors):
    x, weight, bias = random(vectors, 2, 70), random(33, 70), random(33)
    weight[np.abs(weight) < {"dense": 0, "bitmask": 0.8, "deltas": 2}[form]] = 0
    kept = weight != 0
    given = {"dense": weight}
    if form != "dense":
        mask = np.packbits(kept.reshape(-1), bitorder="little")
        given = {"mask": mask, "values": weight[kept], "rows": 33, "columns": 70}
    weights = _native.LinearWeights(**given)
    strips = _native.isa() == "avx512" and form != "dense"
    assert weights.form == ("strips" if strips else form)
    bench = Workbench()
    whole = bench.input(x)  # the second of two vectors of each
    source = whole._replace(offset=whole.offset + 70, shape=(vectors, 70), strides=(140, 1))
    target = bench.place((vectors, 33))
    bench.program.add_linear(
        source=source, target=target, weights=weights, bias=bias, activation=RELU
    )
    bench.output(target)
    wanted = np.maximum(x[:, 1] @ weight.T + bias, 0)
    np.testing.assert_allclose(bench.run()[0], wanted, rtol=1e-4, atol=1e-5)
