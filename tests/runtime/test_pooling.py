"""Pooling against the NumPy reference: every geometry, alone and in chains. No torch here, as in
test_kernels.py."""

import itertools
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from runtime_builder import Builder
from runtime_compare import batch_sizes, check

from skinny import packing
from skinny.runtime import load, reference
from skinny.runtime.layout import compact
from skinny.runtime.windows import Axis


@st.composite
def poolings(draw, height, width):
    """Adds a pooling of any geometry to a builder; its windows fit an image of this size."""

    def pair(low, high):
        return draw(st.tuples(st.integers(low, high), st.integers(low, high)))

    op = draw(st.sampled_from(["max_pool", "max_pool", "avg_pool", "adaptive_avg_pool"]))
    if op == "adaptive_avg_pool":
        size = [draw(st.integers(1, side + 2)) for side in (height, width)]
        return lambda builder: builder.add(op, size=size)
    kernel = pair(1, 4)
    options = {
        "stride": pair(1, 4),
        "padding": tuple(draw(st.integers(0, k // 2)) for k in kernel),
        "ceil": draw(st.booleans()),
    }
    if op == "max_pool":
        options["dilation"] = tuple(
            draw(st.integers(1, min(3, (side + 2 * p - 1) // (k - 1)) if k > 1 else 3))
            for k, p, side in zip(kernel, options["padding"], (height, width), strict=True)
        )
    else:
        options["count_include_pad"] = draw(st.booleans())
        options["divisor"] = draw(st.sampled_from([None, 5]))
    return lambda builder: getattr(builder, op)(kernel, **options)


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_any_pooling_equals_the_reference(folder, data):
    """Alone, at the end of a chain, and into the padding of the next convolution."""
    height, width = data.draw(st.integers(4, 12)), data.draw(st.integers(4, 40))
    pool = data.draw(poolings(height, width))
    builder = Builder(3, height, width, seed=data.draw(st.integers(0, 99)))
    before = data.draw(st.sampled_from(["nothing", "convolution", "chain"]))
    if before != "nothing":
        builder.conv(3, 4, (3, 3), padding=(1, 1))
        builder.add(data.draw(st.sampled_from(["relu", "tanh"])))
    if before == "chain":
        builder.conv(4, 5)
    pool(builder)
    if data.draw(st.booleans()):
        builder.conv({"nothing": 3, "convolution": 4, "chain": 5}[before], 2, padding=(1, 2))
    images = data.draw(st.sampled_from(batch_sizes()))
    check_or_refuse(builder, folder, images, data.draw(st.integers(1, 3)))


def check_or_refuse(builder: Builder, folder, images: int, threads: int) -> None:
    """As `check`; a pooling window that sees nothing is refused when the file is loaded."""
    try:
        reference.run(builder.graph(), builder.tensors.__getitem__, builder.batch(1))
    except packing.GraphError as problem:
        packing.write(folder / "net.skinny", builder.tensors, graph=builder.graph())
        with pytest.raises(packing.GraphError, match=re.escape(str(problem))):
            load(folder / "net.skinny")
    else:
        check(builder, folder, images, threads=threads)


def test_every_small_window_in_a_pooled_chain_equals_the_reference(folder):
    lanes = batch_sizes()[2]
    for kernel, stride, dilation, ceil in itertools.product((1, 2, 3), (1, 2, 3), (1, 2), (0, 1)):
        for padding in range(kernel // 2 + 1):
            builder = Builder(1, 7, 9)
            builder.conv(1, 2, (3, 3), padding=(1, 1), sparsity=0.0)
            builder.max_pool(
                *((side, side) for side in (kernel, stride, padding, dilation)), ceil=bool(ceil)
            )
            check_or_refuse(builder, folder, lanes, threads=2)


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_the_second_window_of_a_pooled_chain_may_begin_above_the_first(folder, threads):
    """Dilated by 2 after a padding of 1, the first window begins at row 1, the second at row 0."""
    builder = Builder(3, 16, 16)
    builder.conv(3, 4, (3, 3), padding=(1, 1))
    builder.max_pool((2, 2), (1, 1), padding=(1, 1), dilation=(2, 2))
    check(builder, folder, *batch_sizes(), threads=threads)


@pytest.mark.parametrize("side", [(5000, 3), (3, 5000), (65536, 1)])
def test_pooling_over_a_long_side_equals_the_reference(folder, side):
    builder = Builder(2, *side)
    builder.add("adaptive_avg_pool", size=[1, 1])
    check(builder, folder, *batch_sizes()[:3])


@pytest.mark.parametrize("images", [1, 16])
@pytest.mark.parametrize(("kernel", "stride"), [(2, 2), (3, 2), (2, 1), (3, 1), (5, 3), (1, 1)])
def test_the_maximum_of_a_window_with_nan_is_nan(folder, images, kernel, stride):
    builder = Builder(2, 23, 25)
    builder.max_pool((kernel, kernel), (stride, stride))
    path = folder / "net.skinny"
    packing.write(path, builder.tensors, graph=builder.graph())
    x = builder.batch(images)
    x[builder.rng.random(x.shape) < 0.05] = np.nan
    wanted = reference.run(builder.graph(), builder.tensors.__getitem__, x)[0]
    np.testing.assert_array_equal(load(path)(x), wanted)
    assert 0 < np.isnan(wanted).sum() < wanted.size


@pytest.mark.parametrize("width", [*range(5, 40), 63, 64, 65, 111, 112, 113])
@pytest.mark.parametrize("op", ["max_pool", "avg_pool"])
def test_windows_of_three_columns_two_apart_equal_the_reference(folder, width, op):
    """From the first column on, or in a padding of one. The last window may be cut short, or not;
    threads get whole channels and parts of them."""
    for ceil, padding, height in itertools.product((False, True), (0, 1), (3, 2, 5)):
        builder = Builder(2, 9, width)
        around = (1 if height == 3 else 0, padding)
        getattr(builder, op)(kernel=(height, 3), stride=(2, 2), padding=around, ceil=ceil)
        check(builder, folder, *batch_sizes()[:3], threads=1 + width % 3)


@pytest.mark.parametrize("width", [9, 17, 33, 70])
@pytest.mark.parametrize("padding", [0, 1])
def test_the_maximum_of_three_columns_with_nan_is_nan(folder, width, padding):
    builder = Builder(2, 23, width)
    builder.max_pool((3, 3), (2, 2), padding=(padding, padding))
    path = folder / "net.skinny"
    packing.write(path, builder.tensors, graph=builder.graph())
    for images in (1, 16):
        x = builder.batch(images)
        x[builder.rng.random(x.shape) < 0.05] = np.nan
        x[:, 0, :5] = -np.inf
        wanted = reference.run(builder.graph(), builder.tensors.__getitem__, x)[0]
        np.testing.assert_array_equal(load(path)(x), wanted)
        assert np.isneginf(wanted).any()


def test_windows_may_begin_anywhere():
    """No network has such windows; a step of the engine may."""
    native = pytest.importorskip("skinny._native", reason="the native extension was not built")
    begin = np.arange(4, 14, 2, dtype=np.int32)
    axes = {
        "rows": Axis(np.zeros(1, np.int32), np.ones(1, np.int32), np.ones(1, np.float32), 1),
        "columns": Axis(begin, begin + 3, np.ones(5, np.float32), 1),
    }
    engine, source, target = native.Engine(), compact((1, 1, 30)), compact((1, 1, 5))
    target = target._replace(offset=32)
    flat = compact((5,))
    engine.begin(
        mode=native.Mode.single, positions=64, source=source, target=flat._replace(offset=32)
    )
    engine.add_pool(
        mode=native.Mode.single, source=source, target=target, pool=native.Pool(max=True, **axes)
    )
    engine.begin(mode=native.Mode.tail, positions=5, source=flat, target=flat)
    y = np.empty((1, 5), np.float32)
    engine.run_floats(x=np.arange(30, dtype=np.float32), y=y, threads=1, timed=False)
    np.testing.assert_array_equal(y[0], begin + 2)
