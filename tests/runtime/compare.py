"""A network of kernels against the NumPy reference, without torch."""

import numpy as np
from runtime_builder import Builder

from skinny import native, packing
from skinny.runtime import load, reference


def check(builder: Builder, folder, *images: int, threads: int = 2) -> None:
    """One network for batches of all these sizes, the first images of one batch."""
    path = folder / "net.skinny"
    packing.write(path, builder.tensors, graph=builder.graph())
    x = builder.batch(max(images))
    wanted = reference.run(builder.graph(), builder.tensors.__getitem__, x)[0]
    net = load(path, threads=threads)
    for size in images:
        scale = max(np.abs(wanted[:size]).max(), 1e-6)
        np.testing.assert_allclose(net(x[:size]), wanted[:size], rtol=1e-4, atol=1e-5 * scale)


def batch_sizes() -> list[int]:
    """Image by image, interleaved, and both, with and without lanes that stay empty."""
    lanes = native.extension().Engine.lanes()
    return [1, 3, lanes, lanes + 1, 3 * lanes - 1]
