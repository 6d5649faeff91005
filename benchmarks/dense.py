"""Dense layers on our runtime and on oneDNN (by PyTorch, channels last, and OpenVINO): first
convolutions, depthwise ones, and blocks of 1x1, depthwise and 1x1 as MobileNetV2 has them.

    python -m benchmarks dense [--only depthwise]

Sparse networks keep such layers dense. Everyone gets the same number of threads; contenders take
turns in bursts. A call of one layer is mostly what goes in and out: we copy both unless a depthwise
or first layer reads and writes them where they lie, OpenVINO copies its result, and torch neither
(its input is channels last already, and it is not asked for another order). `steps` is the time of
our steps alone, which is what a layer takes inside a network. In a block, whose input and output
are a sixth of what lies between its layers, calls compare like with like.
"""

import argparse
import tempfile
from pathlib import Path

import numpy as np
import torch
from torch import nn

from benchmarks.common import (
    THREADS,
    best_of_bursts,
    burst,
    check_equal,
    describe_barrier,
    describe_machine,
    row,
)
from skinny.export import pack
from skinny.peers import installed, prepare
from skinny.runtime import load

ROUNDS = 5
FIRST = [  # output channels, kernel, stride, padding, side of the image
    (32, 3, 2, 1, 224), (192, 5, 1, 2, 32), (64, 7, 2, 3, 224), (96, 11, 4, 0, 227),
]  # fmt: skip
DEPTHWISE = [  # channels, side of the image, kernel, stride
    (32, 112, 3, 1), (96, 112, 3, 2), (144, 56, 3, 1), (144, 56, 3, 2), (192, 28, 3, 1),
    (192, 28, 3, 2), (384, 14, 3, 1), (576, 14, 3, 2), (960, 7, 3, 1), (144, 56, 5, 2),
    (240, 28, 5, 1), (96, 56, 7, 1),
]  # fmt: skip
BLOCKS = [  # channels, expanded, side of the image, stride
    (24, 144, 56, 1), (24, 144, 56, 2), (32, 192, 28, 1), (64, 384, 14, 1), (96, 576, 14, 2),
]  # fmt: skip
Case = tuple[nn.Module, tuple[int, int, int]]


def cases() -> dict[str, Case]:
    found: dict[str, Case] = {}
    for outputs, kernel, stride, padding, side in FIRST:
        layer = nn.Sequential(nn.Conv2d(3, outputs, kernel, stride, padding), nn.ReLU())
        found[f"first {kernel}x{kernel} / {stride}, {outputs}, {side}x{side}"] = (
            layer,
            (3, side, side),
        )
    for channels, side, kernel, stride in DEPTHWISE:
        layer = nn.Sequential(_depthwise(channels, kernel, stride), nn.ReLU())
        name = f"depthwise {kernel}x{kernel} / {stride}, {channels}, {side}x{side}"
        found[name] = (layer, (channels, side, side))
    for channels, expanded, side, stride in BLOCKS:
        block = nn.Sequential(
            nn.Conv2d(channels, expanded, 1), nn.ReLU6(),
            _depthwise(expanded, 3, stride), nn.ReLU6(),
            nn.Conv2d(expanded, channels, 1),
        )  # fmt: skip
        name = f"block / {stride}, {channels} {expanded}, {side}x{side}"
        found[name] = (block, (channels, side, side))
    return found


def _depthwise(channels: int, kernel: int, stride: int) -> nn.Conv2d:
    return nn.Conv2d(channels, channels, kernel, stride, kernel // 2, groups=channels)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--only", default="", help="the cases whose name has this in it")
    options = parser.parse_args([] if arguments is None else arguments)
    print(describe_machine("torch", "openvino"))
    print(f"best of {ROUNDS} interleaved bursts, milliseconds; {describe_barrier()}\n")
    peers = [name for name in installed() if name in ("torch", "openvino")]
    print(row("layer", "batch", "skinny", *peers, "x best", "steps"))
    torch.manual_seed(0)
    with tempfile.TemporaryDirectory() as folder:
        for title, (layer, shape) in cases().items():
            for batch in (1, 16):
                if options.only in title:
                    _run(title, layer, (batch, *shape), peers, Path(folder) / "layer.skinny")


def _run(
    title: str, layer: nn.Module, shape: tuple[int, ...], peers: list[str], path: Path
) -> None:
    x = np.random.default_rng(0).standard_normal(shape, np.float32)
    pack(layer.eval(), path, example=torch.zeros(1, *shape[1:]))
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
