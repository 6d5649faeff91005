"""Steps that read the caller's images and write the caller's results where these lie touch nothing
beside them: protected pages lie before and after both. test_isa.py runs this file with every
instruction set."""

import ctypes
import math
import mmap
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skinny.runtime.layout import compact

native = pytest.importorskip("skinny._native", reason="the native extension was not built")
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="protects pages as Linux does")

NONE = native.Activation(native.ActivationKind.none)
PAGE = mmap.PAGESIZE


def guarded(shape, at_end):
    """An array at the beginning or at the end of its pages, between two that are protected."""
    size = 4 * math.prod(shape)
    pages = -(-size // PAGE)
    memory = mmap.mmap(-1, (pages + 2) * PAGE)
    start = np.frombuffer(memory, np.uint8).ctypes.data
    for page in (0, pages + 1):
        address = ctypes.c_void_p(start + page * PAGE)
        assert ctypes.CDLL(None).mprotect(address, ctypes.c_size_t(PAGE), 0) == 0
    first = (pages + 1) * PAGE - size if at_end else PAGE
    return np.frombuffer(memory, np.float32, math.prod(shape), first).reshape(shape)


def engine(source, target, add):
    """One step, from the caller's images to the caller's results."""
    made = native.Engine()
    target = target._replace(offset=-(-source.positions // 16) * 16)
    flat = compact((target.positions,))
    made.begin(
        mode=native.Mode.single,
        positions=target.offset + target.positions,
        source=source,
        target=flat._replace(offset=target.offset),
        read_once=True,
    )
    add(made, target)
    made.begin(mode=native.Mode.tail, positions=flat.positions, source=flat, target=flat)
    return made


def run(made, x, results, threads, at_end):
    given_x, y = guarded(x.shape, at_end), guarded((len(x), results), at_end)
    given_x[:] = x
    made.run_floats(x=given_x.reshape(-1), y=y, threads=threads, timed=False)
    return y


@settings(max_examples=100, deadline=None)
@given(data=st.data())
@pytest.mark.parametrize("depthwise", [True, False])
def test_convolutions_touch_nothing_beside_the_images_and_the_results(depthwise, data):
    kernel, stride = data.draw(st.sampled_from([3, 5, 7])), data.draw(st.sampled_from([1, 2, 3]))
    padding = data.draw(st.integers(0, kernel))
    sides = st.one_of(st.integers(1, 20), st.sampled_from([28, 56, 57]))
    height, width, channels = data.draw(sides), data.draw(sides), data.draw(st.integers(1, 5))
    outputs = channels * data.draw(st.sampled_from([1, 2]))
    size = [max(1, (side + 2 * padding - kernel) // stride + 1) for side in (height, width)]
    rng = np.random.default_rng(data.draw(st.integers(0, 9)))
    images = data.draw(st.integers(1, 4))
    x = rng.standard_normal((images, channels, height, width)).astype(np.float32)
    weights = rng.standard_normal((outputs, channels, kernel, kernel)).astype(np.float32)
    bias = rng.standard_normal(outputs).astype(np.float32)
    source = compact(x.shape[1:])
    own = np.arange(outputs) // (outputs // channels)  # the input channel of a depthwise one
    if depthwise:
        weights[own[:, None] != np.arange(channels)] = 0

    def add(made, target):
        common = {
            "mode": native.Mode.single, "source": source, "target": target, "bias": bias,
            "stride": (stride, stride), "padding": (padding, padding), "low": -np.inf,
            "high": np.inf, "activation": NONE,
        }  # fmt: skip
        if depthwise:
            kernels = np.ascontiguousarray(weights[np.arange(outputs), own])
            made.add_depthwise(weights=kernels, dilation=(1, 1), **common)
        else:
            made.add_direct_conv(weights=native.DirectWeights(weights=weights), **common)

    made = engine(source, compact((outputs, *size)), add)
    y = run(made, x, outputs * math.prod(size), data.draw(st.integers(1, 3)),
            data.draw(st.booleans()))  # fmt: skip
    after = [stride * n + kernel for n in size]
    wide = np.pad(x, ((0, 0), (0, 0), (padding, after[0]), (padding, after[1])))
    wanted = np.tile(bias[None, :, None, None], (images, 1, *size))
    for ky, kx in np.ndindex(kernel, kernel):
        part = wide[:, :, ky::stride, kx::stride][:, :, : size[0], : size[1]]
        wanted += np.einsum("oc,scyx->soyx", weights[:, :, ky, kx], part)
    np.testing.assert_allclose(y.reshape(wanted.shape), wanted, rtol=1e-4, atol=1e-4)


@settings(max_examples=100, deadline=None)
@given(data=st.data())
def test_space_to_depth_touches_nothing_beside_the_images(data):
    stride, offset = data.draw(st.integers(1, 4)), data.draw(st.integers(-5, 5))
    shape = tuple(data.draw(st.integers(1, high)) for high in (3, 20, 70))
    size = tuple(data.draw(st.integers(1, high)) for high in (20, 70))
    images = data.draw(st.integers(1, 3))
    x = np.random.default_rng(0).standard_normal((images, *shape)).astype(np.float32)
    source = compact(shape)

    def add(made, target):
        made.add_space_to_depth(
            mode=native.Mode.single, source=source, target=target, stride=(stride, stride),
            rows=[offset], columns=[offset],
        )  # fmt: skip

    made = engine(source, compact((shape[0], *size)), add)
    y = run(made, x, shape[0] * math.prod(size), 2, data.draw(st.booleans()))
    wanted = np.zeros((images, shape[0], *size), np.float32)
    for row, column in np.ndindex(size):
        at = row * stride + offset, column * stride + offset
        if 0 <= at[0] < shape[1] and 0 <= at[1] < shape[2]:
            wanted[:, :, row, column] = x[:, :, at[0], at[1]]
    np.testing.assert_array_equal(y.reshape(wanted.shape), wanted)
