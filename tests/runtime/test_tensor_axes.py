"""Norms, softmax, reductions and gathered rows of a tensor program against NumPy. No torch here:
`make sanitize` runs this file too, and test_isa.py with every instruction set."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from runtime_tensors import Layout, Workbench, layouts, row_major

from skinny._native import ReduceKind

COLUMNS = row_major(3)  # the inner axis is contiguous
ROWS = Layout((0, 2, 1), (0, 0, 0))  # the axis is
NEITHER = Layout((2, 1, 0), (0, 0, 3))
SIDES = st.sampled_from([1, 1, 2, 3, 7, 8, 9, 15, 16, 17, 33, 40])


@st.composite
def shapes(draw) -> tuple[int, int, int]:
    """[outer, axis, inner]"""
    axis = draw(st.sampled_from([1, 2, 3, 7, 8, 31, 32, 33, 64, 300]))
    inner = draw(SIDES)
    return (draw(SIDES) if axis * inner < 600 else 2), axis, inner


def softmax(x, log=False):
    shifted = x.astype(np.float64) - x.max(1, keepdims=True)
    total = np.exp(shifted).sum(1, keepdims=True)
    with np.errstate(over="ignore"):
        return (shifted - np.log(total) if log else np.exp(shifted) / total).astype(np.float32)


def norm(x, weight, bias, eps, subtract_mean):
    x = x.astype(np.float64)
    if subtract_mean:
        x = x - x.mean(1, keepdims=True)
    y = x / np.sqrt((x**2).mean(1, keepdims=True) + eps)
    y = y if weight is None else y * weight[:, None]
    return y if bias is None else y + bias[:, None]


REDUCE = {"sum": np.sum, "mean": np.mean, "max": np.max, "min": np.min}


def run_softmax(x, *layouts_, log=False, threads=1):
    bench = Workbench(1 << 18)
    source = bench.input(x, layouts_[0])
    target = bench.place(x.shape, layouts_[1]) if len(layouts_) > 1 else source
    bench.program.add_softmax(source=source, target=target, log=log)
    bench.output(target)
    return bench.run(threads)[0]


def run_norm(x, *layouts_, weight=None, bias=None, eps=1e-5, subtract_mean=True, threads=1):
    bench = Workbench(1 << 18)
    source = bench.input(x, layouts_[0])
    target = bench.place(x.shape, layouts_[1]) if len(layouts_) > 1 else source
    options = {"weight": weight, "bias": bias, "eps": eps, "subtract_mean": subtract_mean}
    bench.program.add_norm(source=source, target=target, **options)
    bench.output(target)
    return bench.run(threads)[0]


def run_reduce(kind, x, *layouts_, threads=1):
    bench = Workbench(1 << 18)
    source = bench.input(x, layouts_[0])
    target = bench.place((x.shape[0], x.shape[2]), layouts_[1] if len(layouts_) > 1 else None)
    bench.program.add_reduce(kind=ReduceKind[kind], source=source, target=target)
    bench.output(target)
    return bench.run(threads)[0]


@settings(max_examples=100, deadline=None)
@given(data=st.data())
def test_softmax_along_any_axis_equals_numpy(data):
    shape, log = data.draw(shapes()), data.draw(st.booleans())
    x = np.random.default_rng(0).normal(0, 4, shape).astype(np.float32)
    both = [data.draw(layouts(3)) for _ in range(data.draw(st.integers(1, 2)))]
    result = run_softmax(x, *both, log=log, threads=data.draw(st.integers(1, 3)))
    np.testing.assert_allclose(result, softmax(x, log), rtol=5e-6, atol=5e-6 if log else 1e-30)


@settings(max_examples=100, deadline=None)
@given(data=st.data())
def test_a_norm_along_any_axis_equals_numpy(data):
    shape = data.draw(shapes())
    rng = np.random.default_rng(0)
    x = rng.normal(1, 4, shape).astype(np.float32)
    options = {
        name: rng.normal(0, 1, shape[1]).astype(np.float32) if data.draw(st.booleans()) else None
        for name in ("weight", "bias")
    }
    options |= {"eps": data.draw(st.sampled_from([1e-5, 1e-12, 0.5]))}
    options |= {"subtract_mean": shape[1] > 1 and data.draw(st.booleans())}
    both = [data.draw(layouts(3)) for _ in range(data.draw(st.integers(1, 2)))]
    result = run_norm(x, *both, **options, threads=data.draw(st.integers(1, 3)))
    np.testing.assert_allclose(result, norm(x, **options), rtol=1e-4, atol=5e-6)


@settings(max_examples=100, deadline=None)
@given(data=st.data())
def test_a_reduction_along_any_axis_equals_numpy(data):
    shape, kind = data.draw(shapes()), data.draw(st.sampled_from(list(REDUCE)))
    x = np.random.default_rng(0).normal(1, 4, shape).astype(np.float32)
    both = [data.draw(layouts(3)), data.draw(layouts(2))]
    result = run_reduce(kind, x, *both, threads=data.draw(st.integers(1, 3)))
    wanted = REDUCE[kind](x.astype(np.float64), axis=1)
    np.testing.assert_allclose(result, wanted, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("layout", [COLUMNS, ROWS, NEITHER])
def test_a_norm_of_values_far_from_zero_keeps_its_digits(layout):
    """The spread is a thousandth of a percent of the mean: the difference of squares cancels."""
    rng = np.random.default_rng(0)
    x = (1000 + rng.normal(0, 0.01, (2, 700, 20))).astype(np.float32)
    result = run_norm(x, layout, eps=0.0)
    np.testing.assert_allclose(result, norm(x, None, None, 0.0, True), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("layout", [COLUMNS, ROWS])
@pytest.mark.parametrize("kind", ["sum", "mean"])
def test_a_long_sum_does_not_lose_its_last_digits(kind, layout):
    x = np.random.default_rng(0).uniform(0.5, 1, (1, 100_000, 2)).astype(np.float32)
    result = run_reduce(kind, x, layout)
    np.testing.assert_allclose(result, REDUCE[kind](x.astype(np.float64), axis=1), rtol=1e-6)


SPECIAL = [[np.nan, 1, 2], [1, 2, np.nan], [np.inf, 0, 1], [-np.inf, 0, 1], [-np.inf] * 3,
           [np.inf, -np.inf, 0], [1e38, -1e38, 3e38], [0, -0.0, 0], [-200, 0, -100]]  # fmt: skip


@pytest.mark.parametrize("layout", [COLUMNS, ROWS, NEITHER])
@pytest.mark.parametrize("padding", [0, 6, 40])
def test_special_values_give_what_numpy_gives(layout, padding):
    rows = np.array([[*row, *[0.5] * padding] for row in SPECIAL], np.float32)
    x = np.stack([rows.T, rows.T[::-1]])  # [2, axis, rows]
    with np.errstate(all="ignore"):
        for log in (False, True):
            np.testing.assert_allclose(
                run_softmax(x, layout, log=log), softmax(x, log), rtol=5e-6, atol=1e-37
            )
        for kind, function in REDUCE.items():
            wanted = function(x.astype(np.float64), axis=1).astype(np.float32)
            result = run_reduce(kind, x, layout)
            if kind in ("max", "min"):
                np.testing.assert_array_equal(result, wanted)
            finite = np.isfinite(x).all(1)
            np.testing.assert_array_equal(np.isnan(result[~finite]), np.isnan(wanted[~finite]))
        for mean in (False, True):
            wanted = norm(x, None, None, 1e-5, mean)
            result = run_norm(x, layout, subtract_mean=mean)
            small = (np.abs(x) < 1e15).all(1, keepdims=True)
            shown = np.broadcast_to(small, x.shape)
            np.testing.assert_allclose(result[shown], wanted[shown], rtol=1e-5, atol=1e-6)
            lost = np.broadcast_to(np.isnan(x).any(1, keepdims=True), x.shape)
            assert np.isnan(result[lost]).all()


def test_softmax_of_one_long_row_uses_every_lane_and_reads_no_further():
    for size in (1, 7, 8, 9, 100, 1000, 50_257):
        x = np.random.default_rng(0).normal(0, 3, (1, size, 1)).astype(np.float32)
        np.testing.assert_allclose(run_softmax(x, ROWS), softmax(x), rtol=5e-6)


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_rows_are_gathered_from_and_to_any_strides(data):
    rows, columns = data.draw(st.integers(1, 20)), data.draw(SIDES)
    shape = tuple(data.draw(st.lists(SIDES, max_size=2)))
    rng = np.random.default_rng(0)
    table = rng.random((rows, columns), dtype=np.float32)
    index = rng.integers(0, rows, shape)
    bench = Workbench(1 << 18)
    stored = data.draw(st.booleans())
    source = bench.constant(table) if stored else bench.input(table, data.draw(layouts(2)))
    at = bench.input(np.asarray(index), data.draw(layouts(len(shape))))
    target = bench.place((*shape, columns), data.draw(layouts(len(shape) + 1)))
    bench.program.add_gather(table=source, index=at, target=target)
    bench.output(target)
    np.testing.assert_array_equal(bench.run(data.draw(st.integers(1, 3)))[0], table[index])


@pytest.mark.parametrize("wrong", [-1, 5, 2**31 - 1, -(2**31)])
def test_an_index_out_of_range_is_an_error(wrong):
    bench = Workbench()
    table = bench.constant(np.ones((5, 3), np.float32))
    at = bench.input(np.array([0, 4, wrong, 1]))
    bench.program.add_gather(table=table, index=at, target=bench.place((4, 3)))
    with pytest.raises(IndexError, match=rf"index {wrong}( or \w+)? is out of range for 5 rows"):
        bench.run()
