"""The kernels against the NumPy reference. No torch here: `make sanitize` runs this file under
AddressSanitizer and UBSan, test_isa.py with every instruction set."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from runtime_builder import Builder
from runtime_cases import CASES
from runtime_compare import batch_sizes, check

from skinny import _native, packing
from skinny.runtime import load


@pytest.mark.parametrize("name", CASES)
def test_one_image_and_several_equal_the_reference(name, folder):
    check(CASES[name](), folder, 1, 21)


# Rows of 21 pixels and padding are computed as one long row, those of 14 and 32 one by one.
@pytest.mark.parametrize("side", [7, 14, 21, 32])
@pytest.mark.parametrize("stride", [1, 2])
def test_residual_blocks_equal_the_reference(side, stride, folder):
    builder = Builder(8, side * stride, side * stride)
    first = builder.conv(8, 24)
    for _ in range(2):
        builder.conv(24, 16)
        builder.add("relu")
        builder.conv(16, 16, (3, 3), padding=(1, 1), stride=(stride, stride))
        builder.add("relu")
        block = builder.conv(16, 24)
        if stride > 1:
            builder.nodes[-1]["output"] = block = f"{block}-block"
            shortcut = builder.conv(24, 24, stride=(stride, stride))
            builder.nodes[-1]["inputs"] = [first]
            first, stride = shortcut, 1
        builder.add("add", first, block)
        first = builder.add("relu")
    builder.max_pool()
    check(builder, folder, 1, 17)


# What is computed between the rows, of the bias and the activation alone, must not be left there.
@pytest.mark.parametrize("height", [1, 7, 28])
@pytest.mark.parametrize("width", [7, 28, 56])
@pytest.mark.parametrize("activation", ["", "relu", "sigmoid"])
@pytest.mark.parametrize("sparsity", [0.0, 0.8])
def test_zeros_lie_between_the_rows_of_a_long_one(height, width, activation, sparsity, folder):
    builder = Builder(4, height, width)
    first = builder.conv(4, 24, (3, 3), padding=(1, 1))
    builder.conv(24, 40, sparsity=sparsity)
    if activation:
        builder.add(activation)
    last = builder.conv(40, 24, (3, 3), padding=(1, 1))
    builder.add("add", first, last)
    for threads in (1, 2):
        check(builder, folder, 1, threads=threads)


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_any_convolution_equals_the_reference(folder, data):
    def pair(low, high):
        return data.draw(st.tuples(st.integers(low, high), st.integers(low, high)))

    groups = data.draw(st.sampled_from([1, 1, 1, 2, 3]))
    inputs, outputs = (groups * data.draw(st.integers(1, 20)) for _ in range(2))
    kernel, stride, dilation, padding = pair(1, 5), pair(1, 4), pair(1, 3), pair(0, 3)
    height, width = (
        data.draw(st.integers(max(1, d * (k - 1) + 1 - 2 * p), 40))
        for k, d, p in zip(kernel, dilation, padding, strict=True)
    )
    builder = Builder(inputs, height, width, seed=data.draw(st.integers(0, 99)))
    builder.conv(
        inputs,
        outputs,
        kernel,
        stride=stride,
        padding=padding,
        dilation=dilation,
        groups=groups,
        sparsity=data.draw(st.sampled_from([0.0, 0.3, 0.8, 0.97])),
        bias=data.draw(st.booleans()),
    )
    if data.draw(st.booleans()):
        builder.add(data.draw(st.sampled_from(["relu", "silu"])))
        builder.conv(outputs, 7, sparsity=0.6)
    size, threads = data.draw(st.sampled_from([1, 2, 9, 16])), data.draw(st.integers(1, 3))
    check(builder, folder, size, threads=threads)


@pytest.mark.parametrize("activation", ["relu", "silu", "tanh"])
def test_a_batch_norm_with_its_activation_and_a_concatenation(folder, activation):
    """As a dense block has them: nothing to fold the norm into, and two inputs to copy."""
    builder = Builder(5, 9, 7)
    first = builder.conv(5, 6, (3, 3), padding=(1, 1))
    builder.add("concat", "x", first, axis=1)
    builder.batch_norm(11)
    builder.add(activation)
    builder.conv(11, 4)
    for images in (1, 21):
        check(builder, folder, images)


def test_the_inputs_of_a_concatenation_are_written_where_they_belong(folder):
    """But for one that comes twice."""
    builder = CASES["dense_block"]()
    packing.write(folder / "block.skinny", builder.tensors, graph=builder.graph())
    rows = load(folder / "block.skinny", threads=1).profile(1, 1).rows
    assert sum(row.kernel == "copy" for row in rows) == 2


@pytest.mark.parametrize(
    ("side", "sets"), [(27, {"avx512"}), (16, {"avx2", "avx512"}), (33, {"avx2", "avx512"})]
)
def test_few_tiles_run_on_generated_code_where_that_pays(folder, side, sets):
    """Rows of 27 are 12 tiles, too few with AVX2; those of 16 are 4, where taps share vectors."""
    builder = Builder(8, side, side)
    builder.conv(8, 16, (3, 3), padding=(1, 1), sparsity=0.85)
    check(builder, folder, 1)
    rows = load(folder / "net.skinny", threads=1).profile(1, 1).rows
    assert any(row.code_bytes for row in rows) == (_native.isa() in sets)


@settings(max_examples=40, deadline=None)
@given(
    inputs=st.integers(1, 300),
    outputs=st.integers(1, 40),
    sparsity=st.sampled_from([0.0, 0.4, 0.8, 0.95, 0.999, 1.0]),
    images=st.sampled_from([1, 2, 4, 5, 40, 150]),
)
def test_any_linear_layer_equals_the_reference(folder, inputs, outputs, sparsity, images):
    builder = Builder(inputs)
    builder.linear(inputs, outputs, sparsity=sparsity)
    check(builder, folder, images)


def test_weights_far_apart_in_a_row_are_found(folder):
    builder = Builder(3000)
    builder.linear(3000, 3, sparsity=1.0)
    weight = builder.tensors["t0.weight"]
    weight[0, [0, 255, 256, 511, 1100, 2999]] = [1, 2, 3, 4, 5, 6]
    weight[2, 2999] = 7
    check(builder, folder, 1, 33)


@pytest.mark.parametrize("density", [0.02, 0.1, 0.24, 0.26, 0.6])
def test_linear_weights_take_no_more_than_an_index_or_a_bitmask_values_and_strips(density):
    rng = np.random.default_rng(0)
    rows, columns = 64, 1024
    kept = rng.random(rows * columns) < density
    mask, values = np.packbits(kept, bitorder="little"), np.ones(kept.sum(), np.float32)
    weights = _native.LinearWeights(mask=mask, values=values, rows=rows, columns=columns)
    strips = _native.isa() == "avx512" and density < 1 / 2
    assert weights.form == ("strips" if strips else "deltas" if density < 1 / 4 else "bitmask")
    row_starts = 8 * (rows + 1)
    most = max(mask.nbytes, kept.sum()) + values.nbytes + row_starts
    assert weights.bytes <= most + strips * (30 * kept.sum() + 8 * rows // 16 * columns // 32 + 64)


@pytest.mark.parametrize(
    ("density", "form"), [(0.1, "deltas"), (0.24, "deltas"), (0.26, "bitmask")]
)
def test_a_large_linear_layer_equals_the_reference(folder, density, form):
    """For one image it has no strips; its weights lie in huge pages, where there are some."""
    builder = Builder(5000)
    builder.linear(5000, 1501, sparsity=1 - density)
    check(builder, folder, 1, 9, threads=2)
    (row,) = load(folder / "net.skinny", threads=2).profile(1, 1).rows
    assert row.kernel == form


@pytest.mark.parametrize(("rows", "density"), [(60_000, 0.1), (64, 0.002), (1, 0.1)])
def test_matrices_too_large_or_too_empty_have_no_strips(rows, density):
    kept = np.random.default_rng(0).random(rows * 128) < density
    mask, values = np.packbits(kept, bitorder="little"), np.ones(kept.sum(), np.float32)
    weights = _native.LinearWeights(mask=mask, values=values, rows=rows, columns=128)
    assert weights.form == "deltas"


@pytest.mark.parametrize("sparsity", [0.5, 0.7, 0.9])
def test_infinite_inputs_meet_the_weights_of_their_column_alone(folder, sparsity):
    """A row that lacks the column's weight may be NaN, as in a dense product; one that has it is
    infinite, whatever fills the slots of other rows."""
    builder = Builder(96)
    builder.linear(96, 40, sparsity=sparsity, bias=False)
    weight = np.abs(builder.tensors["t0.weight"])
    builder.tensors["t0.weight"] = weight
    path = folder / "net.skinny"
    packing.write(path, builder.tensors, graph=builder.graph())
    net = load(path)
    for column in (0, 31, 32, 95):
        x = np.ones((1, 96), np.float32)
        x[0, column] = np.inf
        (y,) = net(x)
        has = weight[:, column] != 0
        assert np.isposinf(y[has]).all()
        finite = ~np.isnan(y) & ~has
        np.testing.assert_allclose(y[finite], weight.sum(1)[finite], rtol=1e-5)


@pytest.mark.parametrize("density", [0.02, 0.05, 0.1, 0.13, 0.25, 0.5, 0.75])
def test_convolution_weights_take_no_more_than_bitmask_and_values(density):
    outputs, channels, kernel, block, ranges = 192, 96, 25, 10, 2
    rng = np.random.default_rng(0)
    kept = rng.random((outputs, channels * kernel)) < density
    weights = _native.ConvWeights(
        weights=kept.astype(np.float32),
        groups=1,
        block_taps=block * kernel,
        ranges=ranges,
        dense=False,
    )
    blocks = -(-channels // block)
    mask = outputs * blocks * -(-block * kernel // 8)  # a row of a block begins a byte
    row_starts = 4 * outputs * blocks
    slack = 7 * blocks * ranges
    assert weights.bytes <= mask + 4 * kept.sum() + row_starts + slack


@pytest.mark.parametrize(
    ("channels", "outputs", "kernel"),
    [(1, 1100, 3), (3, 600, 3), (7, 300, 3), (28, 90, 3), (256, 90, 1)],
)
def test_masks_of_any_length_are_walked_to_their_end(folder, channels, outputs, kernel):
    """More rows than are expanded at a time, of up to 256 taps."""
    builder = Builder(channels, 9, 11)
    builder.conv(channels, outputs, (kernel, kernel), sparsity=0.5)
    weight = builder.tensors["t0.weight"]
    weight[0] = 0
    weight[1] = 1
    weight[2] = 0
    weight[2, -1, -1, -1] = 2
    check(builder, folder, 1, 21)


@pytest.mark.parametrize("size", [(7, 7), (14, 14), (1, 197), (8, 16)])
@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("sparsity", [0.5, 0.9])
def test_layers_of_single_pixels_equal_the_reference_wherever_channels_begin(
    folder, size, groups, sparsity
):
    """More outputs and inputs than are computed at a time."""
    builder = Builder(240, *size)
    builder.conv(240, 540, groups=groups, sparsity=sparsity)
    builder.add("silu")
    builder.conv(540, 20, sparsity=sparsity)
    check(builder, folder, 1, 9)


def test_the_blocks_of_a_convolution_must_be_alike():
    offsets = np.array([0, 1, 5, 7], np.int32)
    weights = _native.ConvWeights(
        weights=np.ones((3, 4), np.float32), groups=1, block_taps=2, ranges=1, dense=False
    )
    with pytest.raises(ValueError, match="blocks of a convolution must be alike"):
        _native.Stage(
            weights=weights,
            offsets=offsets,
            group_stride=0,
            bias=np.zeros(3, np.float32),
            low=-np.inf,
            high=np.inf,
            activation=_native.Activation(_native.ActivationKind.none),
        )


def test_a_kernel_of_more_taps_than_two_bytes_can_index(folder):
    builder = Builder(1, 292, 253)
    builder.conv(1, 2, (290, 250), sparsity=1.0)
    weight = builder.tensors["t0.weight"].reshape(2, -1)
    weight[0, ::9001], weight[1, -1] = 1, 2
    check(builder, folder, 1, 16)


@pytest.mark.parametrize("sparsity", [0.0, 0.5, 0.95])
def test_a_linear_layer_over_many_rows_equals_the_reference(folder, sparsity):
    builder = Builder(3, 7, 70)
    builder.linear(70, 33, sparsity=sparsity)
    builder.add("relu")
    for threads in (1, 2, 3, 13):
        check(builder, folder, *batch_sizes(), threads=threads)


def test_a_batch_larger_than_a_run_is_divided(folder):
    builder = Builder(2, 3, 3)
    builder.conv(2, 3, (3, 3), padding=(1, 1))
    check(builder, folder, 613)


def test_more_threads_than_there_is_work(folder):
    check(CASES["nin"](), folder, 1, 3, 16, threads=13)


def test_blocks_without_weights_and_rows_without_weights_in_some(folder):
    """conv2 of NIN is cut into blocks of input channels; the ones in the middle may be empty."""
    builder = Builder(40, 9, 9)
    builder.conv(40, 6, (5, 5), padding=(2, 2), sparsity=0.5)
    weight = builder.tensors["t0.weight"]
    weight[:, 12:30] = 0
    weight[3, :20] = 0
    weight[4] = 0
    check(builder, folder, 1, 16)


def test_a_layer_of_many_taps_and_few_weights(folder):
    """More taps than two bytes can number."""
    builder = Builder(7300, 3, 3)
    builder.conv(7300, 2, (3, 3), padding=(1, 1), sparsity=1.0)
    weight = builder.tensors["t0.weight"].reshape(2, -1)
    weight[0, ::9001], weight[1, -1] = 1, 2
    check(builder, folder, 1, 16)


@pytest.mark.parametrize("images", [1, 16])
def test_an_infinite_scale_reaches_only_weights(folder, images):
    builder = Builder(2, 1, 1)
    builder.conv(2, 2, sparsity=1.0, bias=False)
    builder.tensors["t0.weight"][0, 0] = 1
    builder.batch_norm(2)
    norm = builder.nodes[-1]
    builder.tensors[norm["var"]][:] = 0
    builder.tensors[norm["mean"]][:] = 0
    builder.tensors[norm["weight"]][:] = 1
    norm["eps"] = 1e-90
    path = folder / "net.skinny"
    packing.write(path, builder.tensors, graph=builder.graph())
    assert np.isposinf(load(path)(np.ones((images, 2, 1, 1), np.float32))[:, 0]).all()


@pytest.mark.parametrize("images", [1, 16])
def test_infinities_stay_where_they_belong(folder, images):
    """A weight that is zero takes no part: an infinite input reaches only its own outputs."""
    builder = Builder(2, 1, 1)
    builder.conv(2, 2, sparsity=1.0, bias=False)
    builder.tensors["t0.weight"][0, 0] = 1
    path = folder / "net.skinny"
    packing.write(path, builder.tensors, graph=builder.graph())
    x = np.full((images, 2, 1, 1), np.inf, np.float32)
    y = load(path)(x)
    assert (y[:, 0] == np.inf).all()
    assert (y[:, 1] == 0).all()


def test_silu_of_large_numbers_stays_near_zero_below(folder):
    builder = Builder(1, 1, 6)
    builder.add("silu")
    path = folder / "net.skinny"
    packing.write(path, builder.tensors, graph=builder.graph())
    x = np.array([-3e38, -1e38, -1e9, -100, 1e38, np.nan], np.float32).reshape(1, 1, 1, 6)
    got = load(path)(x).reshape(-1)
    np.testing.assert_allclose(got, [0, 0, 0, 0, np.float32(1e38), np.nan], atol=1e-30)


@pytest.mark.parametrize("images", [1, 16])
def test_a_relu_passes_nan_on(folder, images):
    builder = Builder(1, 1, 1)
    builder.conv(1, 1, sparsity=0.0)
    builder.add("relu")
    path = folder / "net.skinny"
    packing.write(path, builder.tensors, graph=builder.graph())
    assert np.isnan(load(path)(np.full((images, 1, 1, 1), np.nan, np.float32))).all()
