"""Makes the golden files of the current format: python -m tests.packing.golden.make

Golden files are never made again for a format that has been released: they are what old files look
like. A new format gets files of its own beside them.
"""

from pathlib import Path

import numpy as np
from safetensors.numpy import save_file
from tests.packing import samples

from skinny import packing

HERE = Path(__file__).parent
LEGACY_SHAPE = (6, 3, 1, 5)


def main() -> None:
    for values in ("exact", "fp16", "bf16", "int8"):
        tensors = samples.tensors()
        if values != "exact":
            tensors.pop("brain")  # random bits: NaNs among them, which only exact values keep
        packing.write(
            HERE / f"v1-{values}.skinny",
            tensors,
            graph=samples.GRAPH,
            preprocessing=samples.PREPROCESSING,
            labels=samples.LABELS,
            config_hash="1a2b3c4d",
            sparsity=samples.SPARSITY,
            values=values,
            signed_zeros=True,
        )
    with packing.open(HERE / "v1-exact.skinny") as file:
        np.savez_compressed(HERE / "v1.npz", **{name: file.read(name) for name in file.names})
    save_legacy(HERE / "sparse-bitmask.safetensors")


def save_legacy(path: Path) -> None:
    """A tensor in the layout compressed-tensors wrote, made as its code does, in NumPy."""
    dense = legacy_tensor()
    kept = dense != 0
    counts = kept.sum(axis=-1)
    save_file(
        {
            "layer.weight.shape": np.array(dense.shape, np.int64),
            "layer.weight.compressed": dense[kept],
            "layer.weight.bitmask": np.packbits(kept, axis=-1, bitorder="little"),
            "layer.weight.row_offsets": np.cumsum(counts, axis=0) - counts,
            "layer.bias": np.arange(6, dtype=np.float32),
        },
        path,
    )


def legacy_tensor():
    rng = np.random.default_rng(3)
    return np.where(rng.random(LEGACY_SHAPE) < 0.2, rng.random(LEGACY_SHAPE), 0).astype(np.float32)


if __name__ == "__main__":
    main()
