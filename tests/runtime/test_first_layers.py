"""Which convolutions are direct, on the image where it lies, and what they may read."""

import numpy as np
import pytest
from tests.runtime.native_graphs import check, graph_of, random

from skinny import _native


@pytest.mark.parametrize(
    ("outputs", "kernel", "stride", "sparsity", "direct"),
    [
        (32, 3, 2, 0.0, True),
        (32, 11, 4, 0.0, True),
        (32, 5, 1, 0.0, True),
        (17, 3, 2, 0.0, False),  # most lanes of the second vector would be empty
        (32, 3, 2, 0.9, False),
    ],
)
def test_dense_first_layers_read_images_as_they_lie(outputs, kernel, stride, sparsity, direct):
    """But for sparse ones, and those that do not fill vectors."""
    given = {"x": random(0, 2, 3, 50, 41)}
    weight = random(1, outputs, 3, kernel, kernel)
    weight[np.random.default_rng(2).random(weight.shape) < sparsity] = 0
    window = {"stride": (stride, stride), "dilation": (1, 1), "groups": 1, "padding": (1, 0)}
    graph = graph_of(
        given,
        ["y"],
        ("pad", ("x",), ("a",), {"before": (0, 0, 0, 0), "after": (0, 0, 1, 1)}),
        ("conv", ("a",), ("b",), {"weight": "w", "bias": "b", **window}),
        ("relu", ("b",), ("y",), {}),
    )
    made = check(graph, given, {"w": weight, "b": random(3, outputs)})
    kernels = [info.kernel for segment in made._natives.values() for info in segment.steps]
    if _native.Engine.lanes() == 16:
        assert (kernels[-1] == "direct") == direct
    assert ("space-to-depth" in kernels) <= (kernels[-1] != "direct")


@pytest.mark.parametrize("samples", [1, 2])
@pytest.mark.parametrize("low_memory", [False, True])
def test_a_direct_convolution_reads_values_that_were_written_with_padding(samples, low_memory):
    given = {"x": random(0, samples, 3, 33, 31)}
    window = {"stride": (1, 1), "dilation": (1, 1), "groups": 1}
    graph = graph_of(
        given,
        ["y"],
        ("conv", ("x",), ("a",), {"weight": "v", "padding": (1, 1), **window}),
        ("conv", ("a",), ("y",), {"weight": "w", "padding": (2, 2), **window}),
    )
    tensors = {"v": random(1, 4, 3, 3, 3), "w": random(2, 32, 4, 5, 5)}
    check(graph, given, tensors, low_memory=low_memory)


@pytest.mark.parametrize("side", [9, 14, 33])
@pytest.mark.parametrize("samples", [1, 2])
@pytest.mark.parametrize(("outputs", "groups"), [(32, 1), (4, 1), (3, 3)])
@pytest.mark.parametrize("stride", [1, 2])
def test_convolutions_of_a_crop_equal_the_reference(side, samples, outputs, groups, stride):
    """Its last channel, with the gap after it, would end after the value it is cut out of."""
    given = {"x": random(0, samples, 3, side, side)}
    window = {"stride": (stride, stride), "dilation": (1, 1), "groups": groups, "padding": (1, 1)}
    cut = {"start": 1, "end": side, "step": 1}
    graph = graph_of(
        given,
        ["y"],
        ("slice", ("x",), ("a",), {"axis": 2, **cut}),
        ("slice", ("a",), ("b",), {"axis": 3, **cut}),
        ("conv", ("b",), ("y",), {"weight": "w", **window}),
    )
    check(graph, given, {"w": random(1, outputs, 3 // groups, 3, 3)})
