"""Direct convolutions of a tensor program, with output channels as lanes, against NumPy. No torch
here: `make sanitize` runs this file too, and test_isa.py with every instruction set."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from runtime_tensors import run_image_step

from skinny import _native
from skinny._native import ActivationKind
from skinny.runtime.layout import View

NONE = _native.Activation(kind=ActivationKind.none, a=0, b=0)


def reference(x, weights, bias, stride, padding, size):
    """x: [samples, channels, rows, columns]; rows and columns outside are zero."""
    kernel = weights.shape[2:]
    after = [s * n + k for s, n, k in zip(stride, size, kernel, strict=True)]
    wide = np.pad(x, ((0, 0), (0, 0), *zip(padding, after, strict=True)))
    out = np.tile(bias[None, :, None, None], (len(x), 1, *size)).astype(np.float32)
    for ky, kx in np.ndindex(*kernel):
        part = wide[:, :, ky :: stride[0], kx :: stride[1]][:, :, : size[0], : size[1]]
        out += np.einsum("oc,scyx->soyx", weights[:, :, ky, kx], part)
    return out


def direct(x, weights, bias, stride, padding, size, *, limits=(-np.inf, np.inf), activation=NONE,
           **options):  # fmt: skip
    def add(program, **views):
        program.add_direct_conv(
            **views, weights=_native.DirectWeights(weights=weights), stride=stride, padding=padding,
            bias=bias, low=limits[0], high=limits[1], activation=activation,
        )  # fmt: skip

    return run_image_step(add, x, len(weights), size, **options)


def example(samples, channels, height, width, outputs, kernel, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((samples, channels, height, width)).astype(np.float32)
    weights = rng.standard_normal((outputs, channels, *kernel)).astype(np.float32)
    return x, weights, rng.standard_normal(outputs).astype(np.float32)


def check(x, weights, bias, stride, padding, size, **options):
    result = direct(x, weights, bias, stride, padding, size, **options)
    wanted = reference(x, weights, bias, stride, padding, size)
    np.testing.assert_allclose(result, wanted, rtol=1e-4, atol=1e-4)


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_any_convolution_equals_numpys(data):
    def pair(low, high):
        return data.draw(st.tuples(st.integers(low, high), st.integers(low, high)))

    channels, samples = data.draw(st.integers(1, 5)), data.draw(st.integers(1, 2))
    outputs = data.draw(st.sampled_from([1, 3, 4, 15, 16, 17, 32, 33, 40]))
    height, width = data.draw(st.integers(1, 20)), data.draw(st.integers(1, 70))
    # Any size of the result: what lies outside of the image is zero.
    size = data.draw(st.integers(1, 12)), data.draw(st.integers(1, 50))
    kernel, stride, padding = pair(1, 5), pair(1, 5), pair(0, 6)
    seed = data.draw(st.integers(0, 9))
    x, weights, bias = example(samples, channels, height, width, outputs, kernel, seed)
    check(x, weights, bias, stride, padding, size, gap=data.draw(st.sampled_from([0, 2])),
          threads=data.draw(st.integers(1, 3)))  # fmt: skip


@pytest.mark.parametrize(
    ("outputs", "kernel", "stride", "padding", "side"),
    [(96, 11, 4, 0, 227), (64, 7, 2, 3, 64), (32, 3, 2, 1, 64), (48, 16, 16, 0, 64)],
)
def test_the_usual_first_layers_equal_numpys(outputs, kernel, stride, padding, side):
    x, weights, bias = example(1, 3, side, side, outputs, (kernel, kernel))
    size = ((side + 2 * padding - kernel) // stride + 1,) * 2
    check(x, weights, bias, (stride, stride), (padding, padding), size)


def test_every_number_of_columns_equals_numpys():
    """Columns are computed as many at a time as there are registers for, in near-equal parts."""
    for columns in range(1, 45):
        x, weights, bias = example(1, 2, 3, 2 * columns + 1, 33, (2, 3), columns)
        check(x, weights, bias, (1, 2), (0, 0), (2, columns), threads=1)


def test_results_are_clamped_or_activated():
    x, weights, bias = example(1, 3, 9, 11, 20, (3, 3))
    where = ((2, 2), (1, 1), (5, 6))
    wanted = reference(x, weights, bias, *where)
    result = direct(x, weights, bias, *where, limits=(0.0, 1.5))
    np.testing.assert_allclose(result, wanted.clip(0, 1.5), rtol=1e-4, atol=1e-5)
    silu = _native.Activation(kind=ActivationKind.silu, a=0, b=0)
    result = direct(x, weights, bias, *where, activation=silu, gap=2)
    np.testing.assert_allclose(result, wanted / (1 + np.exp(-wanted)), rtol=1e-4, atol=1e-5)


def test_nan_and_infinity_reach_what_lies_over_them():
    """Also where a weight is zero, as in the reference and in PyTorch."""
    x, weights, bias = example(1, 3, 9, 11, 20, (3, 3))
    x[0, 1, 4, 5], x[0, 2, 0, 0], weights[3] = np.nan, np.inf, 0
    where = ((1, 1), (0, 0), (7, 9))
    with np.errstate(invalid="ignore"):
        wanted = reference(x, weights, bias, *where)
    np.testing.assert_allclose(direct(x, weights, bias, *where), wanted, rtol=1e-4, atol=1e-4)
    assert np.isnan(wanted[0, 3]).any()
    assert not np.isnan(wanted[0, 3]).all()


def weights(*shape):
    return _native.DirectWeights(weights=np.ones(shape, np.float32))


def test_weights_are_there_once_in_whole_vectors():
    lanes = _native.Engine.lanes()
    assert weights(lanes + 1, 3, 5, 7).bytes == 4 * 2 * lanes * 3 * 5 * 7
    with pytest.raises(ValueError, match="has weights"):
        weights(2, 2, 0, 3)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"stride": (0, 1)}, "1 at least"),
        ({"stride": (1, 2**31 - 1)}, "too long|too large"),
        ({"padding": (2**40, 1)}, "a padding is too large"),
        ({"bias": np.zeros(3, np.float32)}, "a bias for each output channel"),
        ({"weights": weights(3, 2, 3, 3)}, "a kernel for each pair"),
        ({"weights": weights(2, 3, 3, 3)}, "a kernel for each pair"),
        ({"source": View(0, 3, 4, 4, 16, 4, 0)}, "a kernel for each pair"),
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
        "weights": weights(2, 2, 3, 3),
        "stride": (1, 1),
        "padding": (1, 1),
        "bias": np.zeros(2, np.float32),
        "low": 0.0,
        "high": 1.0,
        "activation": NONE,
    }
    with pytest.raises(ValueError, match=message):
        _native.TensorProgram(cells=200).add_direct_conv(**{**arguments, **change})
