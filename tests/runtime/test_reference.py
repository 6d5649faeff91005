"""The NumPy reference against PyTorch."""

import numpy as np
import pytest
import torch
from runtime_cases import CASES

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
