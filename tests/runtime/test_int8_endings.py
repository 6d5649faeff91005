"""What becomes of the sums of layers in int8, in generated code and in kernels: cells and floats of
vectors that are whole or not, of any limits, and of numbers that are no integers."""

import numpy as np
import pytest
from tests.runtime.int8_graphs import Net

from skinny import native

pytestmark = pytest.mark.skipif(native.extension() is None, reason="needs the kernels")

# Rows of a vector and of several; two rows in a vector; pieces of rows; less than a vector.
SIZES = [(16, 16), (5, 32), (4, 8), (7, 8), (7, 7), (14, 14), (13, 21), (3, 4), (1, 1), (40, 16)]
LIMITS = [
    ("relu", {}),
    ("relu6", {}),
    ("clamp", {"min": -0.3, "max": 0.4}),
    ("clamp", {"min": 0.1}),
    (None, {}),
]


@pytest.mark.parametrize("seed", range(30))
def test_layers_after_layers_give_the_bits_of_the_reference(seed):
    draw = np.random.default_rng(seed)
    height, width = SIZES[seed % len(SIZES)]
    channels = int(draw.integers(1, 9))
    net, x = Net(int(draw.integers(1, 4)), channels, height, width), "x"
    zero = 128
    for outputs in draw.choice([4, 7, 24, 26, 28, 52, 96], 3):
        kernel = int(draw.choice([1, 3, 5]))
        density = float(draw.choice([0.05, 0.5, 1.0]))
        shape = (int(outputs), channels, kernel, kernel)
        extreme = bool(draw.random() < 0.2)
        x = net.conv(x, shape, padding=kernel // 2, zero=zero, density=density, extreme=extreme)
        kind, given = LIMITS[int(draw.integers(len(LIMITS)))]
        zero = int(draw.choice([0, 0, 1, 117, 255]))
        if kind:
            x = net.node(kind, x, **given)
        channels = int(outputs)
    net.check(x, threads=1 + seed % 2)


NUMBERS = [np.nan, np.inf, -np.inf, 3e38, -3e38, 1e-40, -0.0, 2.0**31, -(2.0**31), 1e20]


@pytest.mark.parametrize("zero", [0, 100, 255])
@pytest.mark.parametrize("name", ["bias0", "factor0"])
@pytest.mark.parametrize("width", [16, 7])
def test_numbers_that_are_no_integers_become_what_the_reference_makes_of_them(width, name, zero):
    net = Net(1, 5, 6, width)
    first = net.conv("x", (28, 5, 3, 3), padding=1, zero=128, factor=True)
    numbers = [n for n in NUMBERS if name == "bias0" or np.isfinite(n)]  # as factors must be
    net.tensors[name][: len(numbers)] = numbers
    hidden = first if zero else net.node("relu", first)
    second = net.conv(hidden, (28, 28, 1, 1), zero=zero)
    with np.errstate(all="ignore"):
        net.check(second)
        net.check(net.node("relu", first))
        net.check(first)


def test_rows_and_blocks_without_weights():
    net = Net(1, 8, 4, 16)
    x = net.conv("x", (76, 8, 3, 3), padding=1, zero=50)
    weight = net.tensors["w0"]
    weight[24:48] = 0  # all of a block
    weight[:20] = 0
    weight[48:72, :, 0] = 0  # its first taps
    weight[48:72, 4:, 2] = 0  # and its last
    net.check(net.conv(net.node("relu", x), (3, 76, 1, 1)), threads=2)


@pytest.mark.parametrize("size", [(32, 16), (8, 8), (7, 9)])
@pytest.mark.parametrize("density", [0.1, 1.0])
def test_code_that_is_longer_than_a_piece(density, size):
    net = Net(1, 260, *size)
    x = net.node("relu", net.conv("x", (52, 260, 3, 3), padding=1, zero=90, density=density))
    net.check(net.conv(x, (26, 52, 5, 5), padding=2, density=density), threads=2)
