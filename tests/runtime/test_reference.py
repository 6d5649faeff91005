"""The NumPy reference against PyTorch."""

import itertools
import math

import numpy as np
import pytest
import torch
from runtime_builder import Builder
from runtime_cases import CASES

from skinny.graph.ops.activations import gelu
from skinny.packing import GraphError
from skinny.peers.torch_graph import run as run_torch
from skinny.runtime import reference


@pytest.mark.parametrize("name", CASES)
def test_every_operation_equals_pytorchs(name):
    builder = CASES[name]()
    x = builder.batch(2)
    (result,) = reference.run(builder.graph(), builder.tensors.__getitem__, x)
    weights = {key: torch.from_numpy(array) for key, array in builder.tensors.items()}
    (wanted,) = run_torch(builder.graph(), weights, torch.from_numpy(x))
    assert result.dtype == np.float32
    scale = max(float(wanted.abs().max()), 1e-6)
    np.testing.assert_allclose(result, wanted.numpy(), rtol=1e-4, atol=1e-5 * scale)


def square(side):
    return (side, side)


def max_pools():
    for kernel, stride, dilation, ceil in itertools.product(
        (1, 2, 3, 4), (1, 2, 3), (1, 2, 3), (False, True)
    ):
        for padding in range(kernel // 2 + 1):
            if 7 + 2 * padding >= dilation * (kernel - 1) + 1:
                yield "max_pool", kernel, stride, padding, {"dilation": square(dilation)}, ceil


def avg_pools():
    for kernel, stride, counted, divisor, ceil in itertools.product(
        (1, 2, 3, 4), (1, 2, 3), (False, True), (None, 5), (False, True)
    ):
        for padding in range(kernel // 2 + 1):
            options = {"count_include_pad": counted, "divisor": divisor}
            yield "avg_pool", kernel, stride, padding, options, ceil


@pytest.mark.parametrize("geometries", [max_pools, avg_pools])
def test_every_pooling_geometry_equals_pytorchs(geometries):
    for op, kernel, stride, padding, options, ceil in geometries():
        builder = Builder(2, 7, 9)
        getattr(builder, op)(
            square(kernel), square(stride), padding=square(padding), ceil=ceil, **options
        )
        x = builder.batch(2)
        (wanted,) = run_torch(builder.graph(), {}, torch.from_numpy(x))
        if torch.isinf(wanted).any():  # the largest of no entries
            with pytest.raises(GraphError, match="sees nothing"):
                reference.run(builder.graph(), builder.tensors.__getitem__, x)
            continue
        (result,) = reference.run(builder.graph(), builder.tensors.__getitem__, x)
        np.testing.assert_allclose(
            result, wanted.numpy(), rtol=1e-5, atol=1e-6, err_msg=str(builder.nodes)
        )


def test_gelu_is_accurate_where_it_is_nearly_zero():
    """erf(x) is nearly -1 there, and 1 + erf(x) must not be rounded."""
    x = np.linspace(-5, -2, 50, dtype=np.float32)
    want = [0.5 * v * math.erfc(-v / math.sqrt(2)) for v in x.tolist()]
    node = {"op": "gelu", "approximate": "none", "inputs": ["x"], "output": "y"}
    for found in (reference.run_node(node, {}.__getitem__, [x]), gelu(x, "none")):
        np.testing.assert_allclose(found, want, rtol=1e-5)
