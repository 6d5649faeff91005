"""Layers in int8: the kernels give the very bits of the reference, on every instruction set."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from tests.graph import running
from tests.runtime.int8_graphs import Net, rng
from tests.runtime.native_graphs import mixed

from skinny import native
from skinny._native import Int8Matrix, Int8Weights
from skinny.graph import Graph, Input, Node
from skinny.runtime.shared_weights import _from_quads, _quads

FILES = [__file__, str(Path(__file__).with_name("test_int8_endings.py"))]
pytestmark = pytest.mark.skipif(native.extension() is None, reason="needs the kernels")


CONVS = [
    ((1, 3, 9, 11), (5, 3, 3, 3), {"padding": 1, "zero": 117}),
    ((2, 8, 5, 17), (24, 8, 1, 1), {"zero": 255}),
    ((2, 13, 7, 7), (30, 13, 3, 3), {"padding": 1, "factor": True}),
    ((1, 6, 12, 40), (9, 6, 5, 5), {"padding": 2, "stride": 2, "zero": 3}),
    ((1, 3, 23, 23), (7, 3, 7, 7), {"padding": 3, "stride": 4, "zero": 99}),
    ((3, 8, 6, 6), (12, 4, 3, 3), {"groups": 2, "padding": 2, "dilation": 2}),
    ((1, 9, 4, 4), (6, 3, 2, 2), {"groups": 3, "bias": False}),
    ((1, 1, 1, 1), (1, 1, 1, 1), {"zero": 128}),
    ((1, 64, 3, 3), (49, 64, 3, 3), {"extreme": True, "density": 1.0}),
    ((2, 20, 9, 32), (50, 20, 3, 3), {"padding": 1, "density": 0.1, "zero": 128}),
    ((1, 12, 6, 48), (7, 12, 5, 5), {"padding": 2, "density": 0.3, "extreme": True}),
    ((1, 1040, 3, 20), (3, 1040, 1, 1), {"density": 0.05, "zero": 7}),
    ((1, 16, 60, 70), (5, 16, 3, 3), {"density": 0.2, "extreme": True}),
    ((1, 24, 8, 8), (100, 24, 3, 3), {"padding": 1, "density": 0.15}),
    ((2, 5, 33), (4, 5, 4), {"padding": 3, "zero": 9}),
    ((1, 260, 8, 8), (50, 260, 3, 3), {"padding": 1, "density": 0.9}),
    ((1, 16, 20, 20), (16, 16, 1, 1), {"density": 0.0}),
    ((2, 24, 6, 8), (30, 24, 3, 3), {"padding": 1, "zero": 3}),
    ((1, 12, 2, 8), (9, 12, 5, 5), {"padding": 2, "density": 0.9}),
    ((1, 10, 7, 8), (26, 10, 3, 3), {"padding": 1}),
    ((2, 9, 6, 4), (25, 9, 5, 5), {"padding": 2, "zero": 77}),
]


@pytest.mark.parametrize(("shape", "weight", "given"), CONVS)
def test_a_convolution_gives_the_bits_of_the_reference(shape, weight, given):
    net = Net(*shape)
    y = net.conv("x", weight, **given)
    net.check(net.node("relu", y), threads=2, scale=50 if given.get("extreme") else 3)


@pytest.mark.parametrize("rows", [1, 3, 15, 16, 40])
def test_a_linear_layer_gives_the_bits_of_the_reference(rows):
    net = Net(rows, 70)
    y = net.node("relu", net.layer("linear_int8", "x", (33, 70), zero=101))
    net.check(net.layer("linear_int8", y, (5, 33)), threads=2)


@pytest.mark.parametrize("density", [0, 0.02, 0.1, 0.6, 1])
@pytest.mark.parametrize("columns", [1, 63, 66, 384])
def test_few_rows_give_the_bits_of_the_reference_at_any_density(columns, density):
    net = Net(2, columns)
    net.check(net.layer("linear_int8", "x", (9, columns), zero=101, density=density))
    whole = rng.integers(-127, 128, (9, columns), np.int8) * (rng.random((9, columns)) < density)
    ones = np.ones(9, np.float32)
    made = Int8Matrix(weights=whole.astype(np.int8), zero=3, scale=ones, bias=ones)
    np.testing.assert_array_equal(made.integers(), whole)


def test_tokens_of_several_samples_stay_in_eight_bits_between_layers():
    net = Net(3, 20, 24)
    hidden = net.node("relu", net.layer("linear_int8", "x", (50, 24), zero=128))
    kernels = net.check(net.layer("linear_int8", hidden, (24, 50)))
    assert kernels.count("int8 to int8") == 1


def test_a_network_stays_in_eight_bits_through_pooling_padding_and_sums():
    net = Net(2, 3, 24, 24)
    x = net.node("relu6", net.conv("x", (16, 3, 3, 3), padding=1, zero=128))
    window = {"kernel": (3, 3), "stride": (2, 2), "padding": (1, 1), "dilation": (1, 1)}
    x = net.node("max_pool", x, ceil=False, **window)
    short = net.node("fake_quantize", x, scale=0.03, zero=0)
    y = net.node("relu", net.conv(x, (16, 16, 3, 3), padding=1))
    y = net.conv(y, (16, 16, 1, 1))
    y = net.node("relu", net.node("add", y, short))
    again = net.conv(y, (8, 16, 3, 3), padding=1, stride=2)
    kernels = net.check(net.node("clamp", again, min=-0.5), threads=2)
    assert kernels.count("int8 to int8") == 3
    assert kernels.count("int8 to fp32") == 1


@pytest.mark.parametrize("width", [4, 8])
@pytest.mark.parametrize("height", [2, 6, 7])
def test_two_rows_of_half_a_vector_are_computed_at_a_time(height, width):
    net = Net(2, 5, height, width)
    x = net.node("relu", net.conv("x", (26, 5, 3, 3), padding=1, zero=128))
    y = net.node("relu", net.conv(x, (26, 26, 3, 3), padding=1))
    y = net.node("add", net.conv(y, (26, 26, 3, 3), padding=1), x)
    y = net.node("relu", y)
    kernels = net.check(net.conv(y, (7, 26, 3, 3), padding=1), threads=2)
    assert kernels.count("int8 to int8") >= 2


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_threads_compute_the_samples_of_a_batch_side_by_side_up_to_the_linear_layers(threads):
    net = Net(5, 3, 9, 9)
    y = net.node("relu", net.conv("x", (8, 3, 3, 3), zero=100))
    y = net.node("lrn", y, size=3, alpha=0.1, beta=0.75, k=1.0)
    y = net.node("relu", net.conv(y, (6, 8, 3, 3), padding=1))
    y = net.node("reshape", y, shape=(5, 294))
    graph = Graph((Input("x", "float32", net.shape),), tuple(net.nodes), (y,))
    given = {"x": rng.standard_normal(net.shape).astype(np.float32)}
    both = mixed(graph, given, net.tensors, threads=threads)
    assert [part._samples for part in both._natives.values()] == [5]
    (got,) = both.run(given)
    for sample in range(5):
        one = {"x": given["x"][sample : sample + 1]}
        nodes = (*net.nodes[:-1], Node("reshape", ("v4",), (y,), {"shape": (1, 294)}))
        single = Graph((Input("x", "float32", (1, 3, 9, 9)),), nodes, (y,))
        np.testing.assert_array_equal(mixed(single, one, net.tensors).run(one)[0][0], got[sample])


POOLS = [
    ((1, 5, 40, 37), 3, 2, 1, 1, True),
    ((2, 4, 9, 35), 2, 2, 0, 1, False),
    ((1, 4, 20, 70), 3, 1, 1, 1, False),
    ((1, 6, 21, 50), 3, 2, 0, 2, True),
    ((1, 4, 30, 30), 5, 3, 2, 1, False),
    ((1, 4, 3, 3), 3, 1, 0, 1, False),
]


@pytest.mark.parametrize(("shape", "kernel", "stride", "padding", "dilation", "ceil"), POOLS)
def test_the_largest_byte_of_each_window(shape, kernel, stride, padding, dilation, ceil):
    net = Net(*shape)
    window = {"kernel": kernel, "stride": stride, "padding": padding, "dilation": dilation}
    rounded = net.node("fake_quantize", "x", scale=0.03, zero=117)
    pooled = net.node("max_pool", rounded, ceil=ceil, **{n: (v, v) for n, v in window.items()})
    net.check(net.conv(pooled, (4, shape[1], 1, 1), scale=0.03, zero=117))


def test_values_that_others_read_as_floats_are_floats_too():
    net = Net(1, 4, 10, 10)
    y = net.node("relu", net.conv("x", (8, 4, 3, 3), zero=50))
    z = net.conv(y, (8, 8, 1, 1), scale=0.05)
    other = net.conv(y, (8, 8, 1, 1), scale=0.02)
    net.check(net.node("add", z, other), y)


def test_floats_that_are_added_need_not_be_contiguous():
    net = Net(1, 8, 6, 6)
    turned = net.node("permute", "x", axes=(0, 1, 3, 2))
    net.check(net.node("add", turned, net.conv("x", (8, 8, 1, 1), zero=7)))


def test_a_value_rounded_to_eight_bits_is_what_the_reference_makes_of_it():
    for shape in ((2, 5), (2, 3, 7), (2, 6, 5, 9)):
        net = Net(*shape)
        net.check(net.node("fake_quantize", "x", scale=0.01, zero=100))


@pytest.mark.parametrize("variables", [
    *({"SKINNY_ISA": isa} for isa in (native.extension().isas() if native.extension() else ())),
    {"SKINNY_VNNI": "0"}, {"SKINNY_JIT": "0"},
    {"SKINNY_ISA": "avx2", "SKINNY_VNNI": "0"},
], ids=str)  # fmt: skip
def test_every_instruction_set_gives_the_bits_of_the_reference(variables):
    if variables.get("SKINNY_ISA", "baseline") not in native.extension().isas():
        pytest.skip("this processor has none of it")
    if "SKINNY_TEST_INT8" in os.environ:
        pytest.skip("this is the process that the test below has started")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *FILES],
        env={**os.environ, **variables, "SKINNY_TEST_INT8": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:]


def test_without_memory_for_code_the_bits_are_the_same():
    net = Net(2, 8, 9, 20)
    y = net.conv("x", (30, 8, 3, 3), padding=1, zero=100)
    graph = Graph((Input("x", "float32", net.shape),), tuple(net.nodes), (y,))
    given = {"x": rng.standard_normal(net.shape).astype(np.float32)}
    made = mixed(graph, given, net.tensors)
    (segment,) = made._natives.values()
    segment._program = None
    segment.prepare(max_code=0)
    assert sum(segment.code) == 0
    np.testing.assert_array_equal(made.run(given)[0], running.run(graph, given, net.tensors)[0])


def test_pairs_are_not_called_generated_code():
    net = Net(1, 8, 9, 20)
    y = net.conv("x", (30, 8, 3, 3), padding=1, zero=100, density=0.1)
    graph = Graph((Input("x", "float32", net.shape),), tuple(net.nodes), (y,))
    made = mixed(graph, {"x": np.zeros(net.shape, np.float32)}, net.tensors)
    (segment,) = made._natives.values()
    forms = {step.form for step, made in zip(segment.steps, segment.code, strict=True) if made}
    wanted = "pairs" if native.extension().isa() == "avx2" else "generated"
    assert forms <= {wanted}
    if wanted == "pairs" and os.environ.get("SKINNY_VNNI") == "0":
        assert forms == {wanted}


@pytest.mark.parametrize(("shape", "groups"), [((6, 5), 1), ((8, 3, 3, 2), 1), ((6, 5, 3), 3)])
def test_quads_give_their_weights_back(shape, groups):
    weight = rng.integers(-127, 128, shape, np.int8) * (rng.random(shape) < 0.6)
    quads = _quads(weight, groups)
    ones = np.ones(shape[0], np.float32)
    native_form = Int8Weights(quads=quads, zero=3, scale=ones, bias=ones)
    np.testing.assert_array_equal(_from_quads(native_form.integers(), shape, groups), weight)
