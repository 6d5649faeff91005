"""Whole networks on the kernels, against PyTorch."""

import numpy as np
import pytest
import torch
from runtime_builder import Builder
from runtime_cases import CASES

from skinny import packing
from skinny.cli.torch_graph import run as run_torch
from skinny.runtime import load


def check(builder: Builder, path, images: int, *outputs: str) -> None:
    packing.write(path, builder.tensors, graph=builder.graph(*outputs))
    net = load(path, threads=2)
    x = builder.batch(images)
    results = net(x)
    weights = {name: torch.from_numpy(array) for name, array in builder.tensors.items()}
    expected = run_torch(builder.graph(*outputs), weights, torch.from_numpy(x))
    for result, wanted in zip(
        results if isinstance(results, list) else [results], expected, strict=True
    ):
        wanted = wanted.numpy()
        assert result.shape == wanted.shape
        scale = max(np.abs(wanted).max(), 1e-6)
        np.testing.assert_allclose(result, wanted, rtol=1e-4, atol=1e-5 * scale)


@pytest.mark.parametrize("images", [1, 3, 8, 64])
@pytest.mark.parametrize("name", CASES)
def test_results_equal_pytorchs(name, images, tmp_path):
    check(CASES[name](), tmp_path / "net.skinny", images)
