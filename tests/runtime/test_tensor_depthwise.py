"""Depthwise convolutions of a tensor program against NumPy. No torch here: `make sanitize` runs
this file too, and test_isa.py with every instruction set."""

from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from runtime_tensors import run_image_step

from skinny import _native
from skinny._native import ActivationKind
from skinny.runtime.layout import View

NONE = _native.Activation(kind=ActivationKind.none, a=0, b=0)


class Shape(NamedTuple):
    stride: tuple[int, int] = (1, 1)
    padding: tuple[int, int] = (0, 0)
    dilation: tuple[int, int] = (1, 1)


def reference(x, weights, bias, shape: Shape, size):
    """x: [samples, channels, rows, columns]; rows and columns outside are zero."""
    outputs, kernel = weights.shape[0], weights.shape[1:]
    out = np.tile(bias[None, :, None, None], (len(x), 1, *size)).astype(np.float32)
    (sy, sx), (py, px), (dy, dx) = shape
    after = [s * n + d * k for s, n, d, k in zip(shape[0], size, shape[2], kernel, strict=True)]
    wide = np.pad(x, ((0, 0), (0, 0), (py, after[0]), (px, after[1])))
    wide = np.repeat(wide, outputs // x.shape[1], axis=1)
    for ky, kx in np.ndindex(*kernel):
        part = wide[:, :, ky * dy :, kx * dx :][:, :, ::sy, ::sx][:, :, : size[0], : size[1]]
        out += weights[:, ky, kx][None, :, None, None] * part
    return out


def depthwise(x, weights, bias, shape: Shape, size, *, limits=(-np.inf, np.inf), activation=NONE,
              gap=0, threads=2):  # fmt: skip
    def add(program, **views):
        program.add_depthwise(
            **views, weights=weights, **shape._asdict(), bias=bias, low=limits[0], high=limits[1],
            activation=activation,
        )  # fmt: skip

    return run_image_step(add, x, len(weights), size, gap=gap, threads=threads)


def example(samples, channels, height, width, outputs, kernel, seed=0, sparsity=0.0):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((samples, channels, height, width)).astype(np.float32)
    weights = rng.standard_normal((outputs, *kernel)).astype(np.float32)
    weights[rng.random(weights.shape) < sparsity] = 0
    return x, weights, rng.standard_normal(outputs).astype(np.float32)


def check(x, weights, bias, shape, size, **options):
    result = depthwise(x, weights, bias, shape, size, **options)
    wanted = reference(x, weights, bias, shape, size)
    np.testing.assert_allclose(result, wanted, rtol=1e-4, atol=1e-4)


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_any_depthwise_convolution_equals_numpys(data):
    def pair(low, high):
        return data.draw(st.tuples(st.integers(low, high), st.integers(low, high)))

    channels, samples = data.draw(st.integers(1, 4)), data.draw(st.integers(1, 2))
    outputs = channels * data.draw(st.sampled_from([1, 1, 2]))
    shape = Shape(pair(1, 4), pair(0, 5), pair(1, 3))
    height, width = data.draw(st.integers(1, 20)), data.draw(st.integers(1, 70))
    # Any size of the result: what lies outside of the image is zero.
    size = data.draw(st.integers(1, 20)), data.draw(st.integers(1, 70))
    x, weights, bias = example(
        samples, channels, height, width, outputs, pair(1, 5), data.draw(st.integers(0, 9)),
        data.draw(st.sampled_from([0.0, 0.5, 0.9, 1.0])),
    )  # fmt: skip
    check(x, weights, bias, shape, size, gap=data.draw(st.sampled_from([0, 2])),
          threads=data.draw(st.integers(1, 3)))  # fmt: skip


@pytest.mark.parametrize("side", [7, 14, 28, 56, 112])
@pytest.mark.parametrize("kernel", [3, 5, 7])
@pytest.mark.parametrize("stride", [1, 2])
def test_the_usual_convolutions_equal_numpys(side, kernel, stride):
    x, weights, bias = example(1, 3, side, side, 3, (kernel, kernel))
    half = kernel // 2
    size = ((side + 2 * half - kernel) // stride + 1,) * 2
    check(x, weights, bias, Shape((stride, stride), (half, half)), size)


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_dense_square_kernels_equal_numpys(data):
    """Those of 3 and 5 have kernels of their own, unless most of their weights are zero."""
    kernel, stride = data.draw(st.sampled_from([3, 5, 7])), data.draw(st.sampled_from([1, 2]))
    padding = data.draw(st.tuples(*[st.integers(0, kernel)] * 2))
    height, width = data.draw(st.integers(1, 40)), data.draw(st.integers(1, 70))
    sides = zip((height, width), padding, strict=True)
    size = [max(1, (side + 2 * pad - kernel) // stride + 1) for side, pad in sides]
    channels = data.draw(st.integers(1, 4))
    outputs = channels * data.draw(st.sampled_from([1, 1, 3]))
    x, weights, bias = example(
        data.draw(st.integers(1, 2)), channels, height, width, outputs, (kernel, kernel),
        data.draw(st.integers(0, 9)), data.draw(st.sampled_from([0.0, 0.3])),
    )  # fmt: skip
    check(x, weights, bias, Shape((stride, stride), padding), tuple(size),
          gap=data.draw(st.sampled_from([0, 2])), threads=data.draw(st.integers(1, 3)))  # fmt: skip


@settings(max_examples=100, deadline=None)
@given(data=st.data())
def test_images_of_few_columns_equal_numpys(data):
    """With AVX-512, rows of output that fill at most half a vector are computed two in a vector."""
    kernel, stride = data.draw(st.sampled_from([(3, 1), (3, 2), (5, 1), (5, 2), (7, 1)]))
    height, width = data.draw(st.integers(1, 40)), data.draw(st.integers(1, 17))
    size = tuple((side - 1) // stride + 1 for side in (height, width))
    channels = data.draw(st.integers(1, 4))
    x, weights, bias = example(
        data.draw(st.integers(1, 2)), channels, height, width, 2 * channels, (kernel, kernel),
        data.draw(st.integers(0, 9)),
    )  # fmt: skip
    check(x, weights, bias, Shape((stride, stride), (kernel // 2,) * 2), size,
          gap=data.draw(st.sampled_from([0, 2])), threads=data.draw(st.integers(1, 3)))  # fmt: skip


@pytest.mark.parametrize(("height", "width"), [(9, 13), (7, 7)])
def test_what_lies_beside_a_row_does_not_enter_it(height, width):
    """Infinities in the neighbouring rows and channels, which are read beside a row and masked."""
    x, weights, bias = example(1, 3, height, width, 3, (3, 3))
    x[0, 0], x[0, 2] = np.inf, np.nan
    shape, size = Shape(padding=(1, 1)), (height, width)
    result = depthwise(x, weights, bias, shape, size)
    wanted = reference(x[:, 1:2], weights[1:2], bias[1:2], shape, size)
    np.testing.assert_allclose(result[:, 1:2], wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("stride", [1, 2, 3])
def test_signals_of_one_dimension_equal_numpys(stride):
    x, weights, bias = example(2, 3, 1, 3000, 6, (1, 9))
    size = (1, (3000 + 8 - 9) // stride + 1)
    check(x, weights, bias, Shape((1, stride), (0, 4)), size)


def test_results_are_clamped_or_activated():
    x, weights, bias = example(1, 3, 9, 11, 3, (3, 3))
    shape, size = Shape(padding=(1, 1)), (9, 11)
    wanted = reference(x, weights, bias, shape, size)
    result = depthwise(x, weights, bias, shape, size, limits=(0.0, 1.5))
    np.testing.assert_allclose(result, wanted.clip(0, 1.5), rtol=1e-4, atol=1e-5)
    silu = _native.Activation(kind=ActivationKind.silu, a=0, b=0)
    result = depthwise(x, weights, bias, shape, size, activation=silu, gap=2)
    np.testing.assert_allclose(result, wanted / (1 + np.exp(-wanted)), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("gap", [0, 2])
def test_silu_is_precise_from_small_values_to_large_ones(gap):
    x = np.linspace(-30, 30, 3 * 20 * 41, dtype=np.float32).reshape(1, 3, 20, 41)
    silu = _native.Activation(kind=ActivationKind.silu, a=0, b=0)
    one = np.zeros((3, 3, 3), np.float32)
    one[:, 1, 1] = 1
    result = depthwise(x, one, np.zeros(3, np.float32), Shape(padding=(1, 1)), (20, 41),
                       activation=silu, gap=gap)  # fmt: skip
    exact = x.astype(np.float64)
    np.testing.assert_allclose(result, exact / (1 + np.exp(-exact)), rtol=3e-6)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"stride": (0, 1)}, "1 at least"),
        ({"dilation": (1, 0)}, "1 at least"),
        ({"stride": (1, 2**31 - 1)}, "too long|too large"),
        ({"dilation": (2**31 - 1, 1)}, "too long|too large"),
        ({"padding": (2**40, 1)}, "a padding is too large"),
        ({"bias": np.zeros(3, np.float32)}, "a kernel and a bias for each output channel"),
        ({"weights": np.zeros((3, 3, 3), np.float32)}, "a kernel for each output channel"),
        ({"weights": np.zeros((2, 0, 3), np.float32)}, "1 at least"),
        ({"source": View(0, 3, 4, 4, 16, 4, 0)}, "a kernel and a bias for each output channel"),
        ({"source": View(0, 2, 400, 400, 160000, 400, 0)}, "must lie in the arena"),
        ({"source": View(90, 2, 4, 4, 16, 4, 0)}, "must not write what it reads"),
    ],
)
def test_what_does_not_fit_is_refused(change, message):
    arguments = {
        "samples": 1,
        "source_sample_stride": 0,
        "target_sample_stride": 0,
        "source": View(0, 2, 4, 4, 16, 4, 0),
        "target": View(100, 2, 4, 4, 16, 4, 0),
        "weights": np.ones((2, 3, 3), np.float32),
        "stride": (1, 1),
        "padding": (1, 1),
        "dilation": (1, 1),
        "bias": np.zeros(2, np.float32),
        "low": 0.0,
        "high": 1.0,
        "activation": NONE,
    }
    with pytest.raises(ValueError, match=message):
        _native.TensorProgram(cells=200).add_depthwise(**{**arguments, **change})
