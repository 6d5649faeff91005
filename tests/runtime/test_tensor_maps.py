"""Elementwise code in a tensor program against NumPy. No torch here: `make sanitize` runs this file
too, and test_isa.py with every instruction set."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from runtime_tensors import Workbench, layouts, row_major

from skinny._native import Opcode

LARGEST, TINY = float(np.finfo(np.float32).max), float(np.finfo(np.float32).tiny)
SPECIAL = np.array(
    [0.0, -0.0, 1, -1, 2, -2, 0.5, -0.5, 1.5, 2.5, 3, -3, 1e-3, -1e-3, 1e-30, -1e-30, 1e-40, -1e-42,
     88, 89, -88, -104, 100, -100, 1e10, -1e10, 8388609, -4194303.5, LARGEST, -LARGEST, np.inf,
     -np.inf, np.nan],
    np.float32,
)  # fmt: skip


def sigmoid(x):
    grown = np.exp(-x)
    return 1 / (1 + np.where(grown > LARGEST, np.inf, grown))


def softplus(x):
    return np.logaddexp(0, x)


erf = np.vectorize(math.erf, otypes=[float])

UNARY = {
    "neg": np.negative,
    "abs": np.abs,
    "sqrt": np.sqrt,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "reciprocal": lambda x: 1 / x,
    "exp": np.exp,
    "expm1": np.expm1,
    "log": np.log,
    "log1p": np.log1p,
    "erf": erf,
    "floor": np.floor,
    "ceil": np.ceil,
    "round": np.round,
    "trunc": np.trunc,
    "sign": np.sign,
    "sigmoid": sigmoid,
    "tanh": np.tanh,
    "silu": lambda x: x * sigmoid(x),
    "logical_not": np.logical_not,
}
# Two units in the last place of one, or so, where results cancel.
SMOOTH = {
    "sin": np.sin,
    "cos": np.cos,
    "gelu": lambda x: 0.5 * x * (1 + erf(x / math.sqrt(2))),
    "gelu_tanh": lambda x: 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
    "hardswish": lambda x: x * np.clip(x + 3, 0, 6) / 6,
    "hardsigmoid": lambda x: np.clip(x + 3, 0, 6) / 6,
    "mish": lambda x: x * np.tanh(softplus(x)),
}
BINARY = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.divide,
    "pow": np.power,
    "minimum": np.minimum,
    "maximum": np.maximum,
    "leaky_relu": lambda x, slope: np.where(x < 0, x * slope, x),
    "elu": lambda x, alpha: np.where(x < 0, alpha * np.expm1(np.minimum(x, 0)), x),
    "prelu": lambda x, slope: np.where(x > 0, x, x * slope),
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
    "logical_and": np.logical_and,
    "logical_or": np.logical_or,
    "logical_xor": np.logical_xor,
}
TERNARY = {
    "clamp": lambda x, low, high: np.minimum(np.maximum(x, low), high),
    "where": np.where,
    "softplus": lambda x, beta, threshold: np.where(
        x * beta > threshold, x, softplus(x * beta) / beta
    ),
}


def apply(name, *values, threads=1):
    bench = Workbench()
    sources = [bench.input(each.reshape(-1)) for each in values]
    target = bench.place((values[0].size,))
    code = [(Opcode[name], len(values), 0, 1, 2)]
    bench.program.add_map(sources=sources, target=target, code=code, numbers=[])
    bench.output(target)
    return bench.run(threads)[0].reshape(values[0].shape)


def wanted(function, *values):
    """In doubles, rounded to floats."""
    with np.errstate(all="ignore"):
        return function(*(each.astype(np.float64) for each in values)).astype(np.float32)


def spread(count):
    """Floats of all sizes, and many near one."""
    rng = np.random.default_rng(0)
    sizes = np.exp2(rng.uniform(-40, 20, count)) * rng.choice([-1, 1], count)
    return np.concatenate([sizes, rng.normal(0, 3, count), SPECIAL]).astype(np.float32)


def check_ulps(result, expected, most):
    """Equal where not finite, else at most that many units in the last place apart."""
    finite = np.isfinite(expected) & np.isfinite(result)
    np.testing.assert_array_equal(result[~finite], expected[~finite])
    exact = expected[finite].astype(np.float64)
    unit = np.exp2(np.floor(np.log2(np.maximum(np.abs(exact), TINY))) - 23)
    error = np.abs(result[finite] - exact) / unit
    assert error.max(initial=0) <= most


def test_every_opcode_is_tested():
    tested = [*UNARY, *SMOOTH, *BINARY, *TERNARY, "from_int"]
    assert sorted(tested) == sorted(op.name for op in Opcode)


@pytest.mark.parametrize("name", UNARY)
def test_a_function_is_precise_for_every_float(name):
    x = spread(5000)
    check_ulps(apply(name, x), wanted(UNARY[name], x), 4)


@pytest.mark.parametrize("name", SMOOTH)
def test_a_function_with_cancellation_is_precise_to_a_few_units_of_its_largest_term(name):
    x = spread(5000)
    if name in ("sin", "cos"):
        x = x[np.isfinite(x)]
    result, expected = apply(name, x), wanted(SMOOTH[name], x)
    check = np.isfinite(expected) & (np.abs(x) < 1e6)
    error = np.abs(result[check] - expected[check]) / np.maximum(np.abs(x[check]), 1)
    assert error.max() < 5e-7
    infinite = ~np.isfinite(expected)
    np.testing.assert_array_equal(result[infinite], expected[infinite])
    assert np.isnan(apply(name, np.array([np.nan], np.float32))).all()


@pytest.mark.parametrize("name", BINARY)
def test_a_function_of_two_is_precise_for_every_pair_of_special_values(name):
    x, y = np.meshgrid(SPECIAL, SPECIAL)
    if name in ("elu", "leaky_relu", "prelu"):  # slopes are finite
        x, y = np.meshgrid(SPECIAL, np.array([0.0, 0.01, 1, 2.5], np.float32))
    check_ulps(apply(name, x, y), wanted(BINARY[name], x, y), 4)


@pytest.mark.parametrize("name", TERNARY)
def test_a_function_of_three_is_precise(name):
    x = spread(1000)
    # beta is a power of two: the rounding of beta x would grow in the exponential.
    pairs = {"softplus": [(1, 20), (0.5, 3), (2, 1)]}
    for low, high in pairs.get(name, [(-1, 2), (0.5, 20), (3, 1)]):
        values = (x, np.full_like(x, low), np.full_like(x, high))
        check_ulps(apply(name, *values), wanted(TERNARY[name], *values), 4)


def test_powers_are_precise():
    rng = np.random.default_rng(1)
    x = np.exp2(rng.uniform(-30, 30, 4000)).astype(np.float32)
    for exponent in (2, 3, 0.5, -0.5, -1, 0.1, 1.75, -3):
        y = np.full_like(x, exponent)
        check_ulps(apply("pow", x, y), wanted(np.power, x, y), 2)
        check_ulps(apply("pow", -x, y), wanted(np.power, -x, y), 2)


def test_large_angles_are_as_precise_as_small_ones():
    x = np.array([8191.9, 8192, 1e5, -1e6, 1e20, 3e38], np.float32)
    for name in ("sin", "cos"):
        np.testing.assert_allclose(apply(name, x), wanted(SMOOTH[name], x), rtol=0, atol=2e-7)


def test_integers_become_floats():
    values = np.array([0, 1, -1, 7, 2**24, -(2**31), 2**31 - 1])
    np.testing.assert_array_equal(apply("from_int", values), values.astype(np.float32))


@pytest.mark.parametrize("dtype", ["bool", "int64"])
def test_an_integer_is_a_truth_value(dtype):
    x = np.array([0, 1, 0, 1, 1, 0, 0, 0, 1], dtype)
    np.testing.assert_array_equal(apply("logical_not", x), 1 - x.astype(np.float32))


@st.composite
def operands(draw):
    """A shape, and for each of two sources the axes that it has, or has one entry of."""
    rank = draw(st.integers(0, 6))
    sides = st.sampled_from([1, 2, 3, 5, 7, 8, 9, 17, 100, 600])
    shape: list[int] = []
    for _ in range(rank):
        side = draw(sides)
        shape.append(side if math.prod(shape) * side <= 6000 else 1)
    sources = []
    for _ in range(2):
        missing = draw(st.integers(0, rank))
        kept = [side if draw(st.booleans()) else 1 for side in shape[missing:]]
        sources.append(tuple(kept))
    return tuple(shape), sources


@settings(max_examples=200, deadline=None)
@given(data=st.data())
def test_sources_of_any_strides_broadcast_to_the_target(data):
    """(x + y) * 2 - x, in a target of any strides."""
    shape, sources = data.draw(operands())
    rng = np.random.default_rng(0)
    x, y = (rng.integers(-99, 99, source).astype(np.float32) for source in sources)
    bench = Workbench(1 << 20)
    placed = [bench.input(each, data.draw(layouts(each.ndim))) for each in (x, y)]
    target = bench.place(shape, data.draw(layouts(len(shape))))
    code = [(Opcode.add, 3, 0, 1, 0), (Opcode.mul, 3, 3, 2, 0), (Opcode.sub, 3, 3, 0, 0)]
    bench.program.add_map(sources=placed, target=target, code=code, numbers=[2.0])
    bench.output(target)
    (result,) = bench.run(data.draw(st.integers(1, 3)))
    np.testing.assert_array_equal(result, np.broadcast_to((x + y) * 2 - x, shape))


@pytest.mark.parametrize("size", [*range(1, 40), 511, 512, 513, 1100])
def test_every_length_is_computed_to_its_end_and_not_beyond(size):
    bench = Workbench()
    around = bench.place((size + 40,))
    bench.program.add_fill(target=around, value=5)
    target = around._replace(offset=around.offset + 20, shape=(size,))
    code = [(Opcode.exp, 1, 0, 0, 0)]
    bench.program.add_map(sources=[], target=target, code=code, numbers=[0.0])
    bench.output(around)
    (result,) = bench.run()
    assert (result[20:-20] == 1).all()
    assert (result[:20] == 5).all()
    assert (result[-20:] == 5).all()


@pytest.mark.parametrize("shape", [(700,), (3, 7, 31)])
def test_a_map_works_in_place_and_on_constants(shape):
    rng = np.random.default_rng(0)
    x, y = (rng.random(shape, dtype=np.float32) for _ in range(2))
    bench = Workbench()
    target = bench.input(x, row_major(len(shape)))
    code = [(Opcode.mul, 2, 0, 0, 0), (Opcode.add, 2, 2, 1, 0)]
    for _ in range(2):
        sources = [target, bench.constant(y)]
        bench.program.add_map(sources=sources, target=target, code=code, numbers=[])
    bench.output(target)
    np.testing.assert_allclose(bench.run()[0], (x * x + y) ** 2 + y, rtol=1e-6)
