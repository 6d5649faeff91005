"""Dense layers one by one, on our runtime and on oneDNN (by PyTorch, channels last, and OpenVINO):
the first convolution of ResNet-50 and the depthwise ones of MobileNetV2, each with its ReLU.

    python -m benchmarks dense

Sparse networks keep such layers dense. Everyone gets the same number of threads; contenders take
turns in bursts. Our time is that of a call, with what it copies in and out, which torch here does
not; `steps` is the time of our steps alone.
"""

import tempfile
from pathlib import Path

import numpy as np
import torch
from torch import nn

from benchmarks.common import THREADS, best_of_bursts, burst, check_equal, describe_machine, row
from skinny.export import pack
from skinny.peers import installed, prepare
from skinny.runtime import load

ROUNDS = 6
DEPTHWISE = [  # channels, side of the image, stride
    (32, 112, 1), (96, 112, 2), (144, 56, 1), (144, 56, 2), (192, 28, 1), (192, 28, 2),
    (384, 14, 1), (576, 14, 1), (576, 14, 2), (960, 7, 1),
]  # fmt: skip


def cases() -> dict[str, tuple[nn.Module, tuple[int, int, int]]]:
    found: dict[str, tuple[nn.Module, tuple[int, int, int]]] = {
        "7x7 / 2, 3 to 64, 224x224": (nn.Conv2d(3, 64, 7, 2, 3), (3, 224, 224))
    }
    for channels, side, stride in DEPTHWISE:
        layer = nn.Conv2d(channels, channels, 3, stride, 1, groups=channels)
        found[f"depthwise / {stride}, {channels}, {side}x{side}"] = (layer, (channels, side, side))
    return found


def main() -> None:
    print(describe_machine("torch", "openvino"))
    print(f"best of {ROUNDS} interleaved bursts, milliseconds\n")
    peers = [name for name in installed() if name in ("torch", "openvino")]
    print(row("layer", "batch", "skinny", *peers, "x best", "steps"))
    torch.manual_seed(0)
    with tempfile.TemporaryDirectory() as folder:
        for title, (layer, shape) in cases().items():
            for batch in (1, 16):
                _run(title, layer, (batch, *shape), peers, Path(folder) / "layer.skinny")


def _run(
    title: str, layer: nn.Module, shape: tuple[int, ...], peers: list[str], path: Path
) -> None:
    x = np.random.default_rng(0).standard_normal(shape, np.float32)
    pack(nn.Sequential(layer, nn.ReLU()).eval(), path, example=torch.zeros(1, *shape[1:]))
    net = load(path, threads=THREADS)
    expected = net(x)
    contenders = {"skinny": burst(lambda: net(x))}
    for name in peers:
        run = prepare(name, path, {next(iter(net.inputs)): x}, THREADS)
        check_equal(name, np.asarray(run()), expected)
        contenders[name] = burst(run)
    best = best_of_bursts(contenders, ROUNDS, 30 if shape[0] == 1 else 6)
    fastest = min(best[name] for name in peers)
    cells = [f"{best[name]:.3f}" for name in best]
    cells.append(f"{fastest / best['skinny']:.2f}")
    cells.append(f"{net.profile(shape[0], 10).milliseconds:.3f}")
    print(row(title, str(shape[0]), *cells), flush=True)
