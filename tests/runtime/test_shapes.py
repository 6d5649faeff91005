"""Graphs that pass the file's checks and still make no sense: named errors, before any kernel."""

import pytest
from runtime_builder import Builder
from runtime_cases import CASES

from skinny import packing
from skinny.packing import GraphError
from skinny.runtime import load, reference
from skinny.runtime.shapes import infer, output_side


def shape_of(builder):
    return lambda name: builder.tensors[name].shape


@pytest.mark.parametrize("name", CASES)
def test_inferred_shapes_are_those_of_the_results(name):
    builder = CASES[name]()
    shapes = infer(builder.graph(), shape_of(builder))
    for output in (node["output"] for node in builder.nodes):
        (result,) = reference.run(
            builder.graph(output), builder.tensors.__getitem__, builder.batch(2)
        )
        assert result.shape == (2, *shapes[output])


def conv_of_wrong_channels(b):
    b.conv(5, 3, (3, 3))


def conv_of_a_vector(b):
    b.add("flatten", start=1, end=-1)
    b.conv(4, 3)


def kernel_larger_than_image(b):
    b.conv(4, 3, (9, 9))


def pool_larger_than_image(b):
    b.max_pool((9, 9), (1, 1))


def pool_of_mostly_padding(b):
    b.max_pool((2, 2), (1, 1), padding=(2, 2))


def linear_of_wrong_features(b):
    b.add("flatten", start=1, end=-1)
    b.linear(7, 3)


def flatten_the_batch(b):
    b.add("flatten", start=0, end=-1)


def reshape_to_another_size(b):
    b.add("reshape", shape=[None, 3, 7])


def reshape_with_a_rest_that_does_not_divide(b):
    b.add("reshape", shape=[None, -1, 7])


def reshape_the_batch(b):
    b.add("reshape", shape=[4, -1])


def add_misfits(b):
    b.add("add", b.max_pool(), "x")


def add_different_ranks(b):
    b.add("add", b.add("flatten", start=1, end=-1), "x")


def concat_misfits(b):
    b.add("concat", b.max_pool(), "x", axis=1)


def concat_batches(b):
    b.add("concat", "x", "x", axis=0)


def softmax_over_the_batch(b):
    b.add("softmax", axis=0)


def softmax_over_no_axis(b):
    b.add("softmax", axis=6)


def batch_norm_of_wrong_channels(b):
    b.batch_norm(7)


def absurd_padding(b):
    b.conv(4, 3, (1, 1), padding=(4096, 4096))
    b.conv(3, 4096, (1, 1), padding=(4096, 4096), sparsity=1.0)


def absurd_concat(b):
    last = "x"
    for _ in range(4):
        last = b.add("concat", *[last] * 256, axis=1)


HOSTILE = [
    conv_of_wrong_channels,
    conv_of_a_vector,
    kernel_larger_than_image,
    pool_larger_than_image,
    pool_of_mostly_padding,
    linear_of_wrong_features,
    flatten_the_batch,
    reshape_to_another_size,
    reshape_with_a_rest_that_does_not_divide,
    reshape_the_batch,
    add_misfits,
    add_different_ranks,
    concat_misfits,
    concat_batches,
    softmax_over_the_batch,
    softmax_over_no_axis,
    batch_norm_of_wrong_channels,
    absurd_padding,
    absurd_concat,
]


@pytest.mark.parametrize("spoil", HOSTILE, ids=lambda spoil: spoil.__name__)
def test_a_graph_that_does_not_fit_is_refused_when_loaded(spoil, tmp_path):
    builder = Builder(4, 6, 6)
    spoil(builder)
    packing.write(tmp_path / "net.skinny", builder.tensors, graph=builder.graph())
    with pytest.raises(GraphError, match=r"node \d+ \(|of impossible size"):
        load(tmp_path / "net.skinny")


def test_a_pooling_window_that_sees_nothing_is_refused(tmp_path):
    builder = Builder(1, 3, 3)
    builder.max_pool((2, 2), (1, 1), padding=(1, 1), dilation=(4, 4))
    packing.write(tmp_path / "net.skinny", builder.tensors, graph=builder.graph())
    for low_memory in (False, True):
        with pytest.raises(GraphError, match="sees nothing"):
            load(tmp_path / "net.skinny", low_memory=low_memory)


def test_weights_without_a_graph_cannot_run(tmp_path):
    builder = CASES["only_linear"]()
    packing.write(tmp_path / "net.skinny", builder.tensors)
    with pytest.raises(GraphError, match="without a graph"):
        load(tmp_path / "net.skinny")


def test_two_inputs_cannot_run(tmp_path):
    builder = CASES["only_linear"]()
    builder.inputs.append({"name": "other", "shape": [None, 3], "dtype": "float32"})
    packing.write(tmp_path / "net.skinny", builder.tensors, graph=builder.graph())
    with pytest.raises(GraphError, match="2 inputs"):
        load(tmp_path / "net.skinny")


@pytest.mark.parametrize(
    ("side", "extent", "stride", "padding", "ceil", "outputs"),
    [
        (32, 3, 2, 0, True, 16),
        (32, 3, 2, 0, False, 15),
        (7, 2, 2, 0, True, 4),
        (5, 1, 3, 0, True, 2),
        (4, 2, 2, 1, True, 3),
        (2, 2, 4, 1, True, 1),
    ],
)
def test_windows_are_counted_as_pytorch_counts_them(side, extent, stride, padding, ceil, outputs):
    assert output_side(side, extent, stride, padding, ceil) == outputs
