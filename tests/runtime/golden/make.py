"""Makes the golden network of format 2: python -m tests.runtime.golden.make

It is made once for a format: it is what files of that format look like, and what they compute.
"""

from pathlib import Path

import numpy as np

import skinny
from skinny import packing

HERE = Path(__file__).parent
GRAPH = {
    "inputs": [
        {"name": "words", "shape": ["batch", "length"], "dtype": "int64"},
        {"name": "scale", "shape": ["batch", 1], "dtype": "float32"},
    ],
    "nodes": [
        {"op": "embedding", "inputs": ["words"], "output": "v0", "weight": "embed"},
        {"op": "size", "inputs": ["words"], "output": "v1", "axis": 1},
        {"op": "reshape", "inputs": ["v0"], "output": "v2", "shape": [None, "v1", 2, 3]},
        {"op": "constant", "inputs": [], "output": "v3", "tensor": "constant:shift"},
        {"op": "add", "inputs": ["v2", "v3"], "output": "v4"},
        {"op": "split", "inputs": ["v4"], "output": ["v5", "v6"], "axis": 2, "lengths": [1, 1]},
        {"op": "mul", "inputs": ["v5", 0.5], "output": "v7"},
        {"op": "maximum", "inputs": ["v7", "v6"], "output": "v8"},
        {"op": "mean", "inputs": ["v8"], "output": "v9", "axes": [1, 2]},
        {"op": "linear", "inputs": ["v9"], "output": "v10", "weight": "head"},
        {"op": "mul", "inputs": ["v10", "scale"], "output": "v11"},
    ],
    "outputs": ["v11", "v9"],
    "returns": {"scores": 0, "pooled": [1]},
}


def tensors() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    embed = rng.standard_normal((20, 6)) * (rng.random((20, 6)) < 0.3)
    return {
        "embed": embed.astype(np.float32),
        "head": rng.standard_normal((4, 3)).astype(np.float32),
        "constant:shift": np.arange(3, dtype=np.float32),
    }


def inputs() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(1)
    return {
        "words": rng.integers(0, 20, (3, 7)),
        "scale": rng.random((3, 1)).astype(np.float32),
    }


def main() -> None:
    packing.write(HERE / "v2.skinny", tensors(), graph=GRAPH, format=2, labels=list("abcd"))
    found = skinny.load(HERE / "v2.skinny")(**inputs())
    np.savez(HERE / "v2.npz", scores=found["scores"], pooled=found["pooled"][0])


if __name__ == "__main__":
    main()
