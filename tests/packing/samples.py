"""A small network's worth of tensors and records, for the tests and the golden files."""

import numpy as np

from skinny.packing import Bits, Tied

LABELS = ["Ä", "b", "猫"]
PREPROCESSING = {"mean": [0.5, 0.25, 0.125], "std": [1.0, 2.0, 0.5], "resize": 40, "crop": 32}
SPARSITY = {"method": "sdnn", "target": 0.9}
GRAPH = {
    "inputs": [{"name": "x", "shape": [None, 3, 8, 8], "dtype": "float32"}],
    "nodes": [
        {
            "op": "conv",
            "inputs": ["x"],
            "output": "v0",
            "weight": "conv.weight",
            "bias": None,
            "stride": [1, 1],
            "padding": [1, 1],
            "dilation": [1, 1],
            "groups": 1,
        },
        {
            "op": "batch_norm",
            "inputs": ["v0"],
            "output": "v1",
            "weight": "norm.weight",
            "bias": "norm.bias",
            "mean": "norm.running_mean",
            "var": "norm.running_var",
            "eps": 1e-5,
        },
        {"op": "relu", "inputs": ["v1"], "output": "v2"},
        {"op": "adaptive_avg_pool", "inputs": ["v2"], "output": "v3", "size": [1, 1]},
        {"op": "flatten", "inputs": ["v3"], "output": "v4", "start": 1, "end": -1},
        {
            "op": "linear",
            "inputs": ["v4"],
            "output": "v5",
            "weight": "fc.weight",
            "bias": "fc.bias",
        },
    ],
    "outputs": ["v5"],
}


def tensors():
    """name -> array; every form, several types, nasty values, a tied name."""
    rng = np.random.default_rng(7)
    conv = rng.standard_normal((24, 3, 3, 3)).astype(np.float32)
    conv[rng.random(conv.shape) >= 0.1] = 0
    fc = rng.standard_normal((3, 24)).astype(np.float32)
    half = rng.standard_normal((16, 60)).astype(np.float16) * (rng.random((16, 60)) < 0.6)
    coded = rng.standard_normal((30, 60)).astype(np.float32)
    coded[rng.random(coded.shape) >= 0.3] = 0
    multiplied = rng.standard_normal((40, 50)).astype(np.float32)
    multiplied *= rng.random((40, 50)) < 0.1  # leaves negative zeros
    nasty = np.zeros(400, np.float32)
    nasty[[0, 7, 8, 399]] = [-0.0, np.inf, -np.inf, 1e-45]
    nasty[20:22] = np.array([0x7FC12345, 0xFF800001], np.uint32).view(np.float32)
    return {
        "conv.weight": conv,
        "norm.weight": np.ones(24, np.float32),
        "norm.bias": np.zeros(24, np.float32),
        "norm.running_mean": rng.standard_normal(24).astype(np.float32),
        "norm.running_var": rng.random(24).astype(np.float32) + 0.5,
        "norm.num_batches_tracked": np.array(123, np.int64),
        "fc.weight": fc,
        "fc.bias": rng.standard_normal(3).astype(np.float32),
        "half": half.astype(np.float16),
        "brain": Bits(rng.integers(0, 2**16, (5, 7)).astype(np.uint16), "BF16"),
        "double": rng.standard_normal((4, 5)),
        "flags": rng.random(2000) < 0.02,
        "nasty": nasty,
        "multiplied": multiplied,
        "coded": coded,
        "nothing": np.zeros((0, 4), np.float32),
        "again": Tied("conv.weight"),
    }


def plain(name):
    """What reading `name` returns."""
    array = tensors()[name]
    if isinstance(array, Tied):
        return plain(array.name)
    return array.array if isinstance(array, Bits) else array
