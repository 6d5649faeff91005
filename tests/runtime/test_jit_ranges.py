"""Generated kernels of layers whose ranges of output channels are joined."""

import numpy as np
import pytest
from runtime_builder import Builder

from skinny import packing
from skinny.runtime import load, reference


@pytest.mark.parametrize("size", [7, 14, 30], ids="{0}x{0}".format)
@pytest.mark.parametrize("groups", [1, 2])
def test_ranges_of_channels_are_joined_for_any_number_of_threads(tmp_path, size, groups):
    """Layers of several blocks and groups of channels, for few vectors and for many."""
    builder = Builder(64, size, size)
    builder.conv(64, 330, (3, 3), padding=(1, 1), groups=groups, sparsity=0.9)
    builder.add("relu")
    builder.conv(330, 97, (1, 1), sparsity=0.9)
    path = tmp_path / "wide.skinny"
    packing.write(path, builder.tensors, graph=builder.graph())
    for images in (1, 16):
        x = builder.batch(images)
        wanted = reference.run(builder.graph(), builder.tensors.__getitem__, x)[0]
        for threads in (1, 2, 3):
            net = load(path, threads=threads)
            np.testing.assert_allclose(net(x), wanted, rtol=1e-4, atol=1e-3)
