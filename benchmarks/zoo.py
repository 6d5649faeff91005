"""Networks people use, 90 % sparse, one sample: `python -m benchmarks inference --suite zoo`; and
the small ones of them beside busy processes: `--suite busy`.

The architectures at their published sizes (tests/zoo; transformers for ConvNeXt, ViT and MiniLM),
random weights, random masks: one weight in ten stays in every layer but depthwise convolutions,
which stay dense, and embeddings. Everyone computes the same ONNX graph in float32.
"""

import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import numpy as np
import torch
from tests.zoo import images
from torch import nn

from benchmarks.common import THREADS, Burst, burst, bursts, check_equal, describe_machine, row
from skinny import native
from skinny.export import pack
from skinny.iht import layers
from skinny.iht.threshold import random_threshold
from skinny.peers import installed, prepare
from skinny.runtime import load

SPARSITY = 0.9
ENGINES = ("onnxruntime", "openvino")
BURST_SECONDS = 0.3


class Case(NamedTuple):
    name: str
    build: Callable[[], nn.Module]
    example: Callable[[], dict[str, torch.Tensor]]
    wanted: float  # times as fast as the faster of the engines


def _image(side: int) -> Callable[[], dict[str, torch.Tensor]]:
    return lambda: {"x": torch.randn(1, 3, side, side)}


def _row(features: int) -> Callable[[], dict[str, torch.Tensor]]:
    return lambda: {"x": torch.randn(1, features)}


def _tokens() -> dict[str, torch.Tensor]:
    return {
        "input_ids": torch.randint(0, 30522, (1, 128)),
        "attention_mask": torch.ones(1, 128, dtype=torch.int64),
    }


def _perceptron(*sizes: int) -> nn.Module:
    made: list[nn.Module] = []
    for inputs, outputs in pairwise(sizes):
        made += [nn.Linear(inputs, outputs), nn.ReLU()]
    return nn.Sequential(*made[:-1])


class _Output(nn.Module):
    """One output of a model that returns several."""

    def __init__(self, model: nn.Module, output: str) -> None:
        super().__init__()
        self.model, self.output = model, output

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = self.model(x)[self.output]
        return found


def _convnext() -> nn.Module:
    from transformers import ConvNextConfig, ConvNextForImageClassification

    return _Output(ConvNextForImageClassification(ConvNextConfig(num_labels=1000)), "logits")


def _vit() -> nn.Module:
    from transformers import ViTConfig, ViTForImageClassification

    config = ViTConfig(
        hidden_size=384, num_attention_heads=6, intermediate_size=1536, num_labels=1000
    )
    return _Output(ViTForImageClassification(config), "logits")


def _minilm() -> nn.Module:
    from transformers import BertConfig, BertModel

    config = BertConfig(
        hidden_size=384, num_hidden_layers=6, num_attention_heads=12, intermediate_size=1536
    )

    class MiniLM(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = BertModel(config, add_pooling_layer=False)

        def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
            found: torch.Tensor = self.model(input_ids, attention_mask).last_hidden_state
            return found

    return MiniLM()


CASES = [
    Case("MobileNetV2 224", images.mobilenet_v2, _image(224), 2.0),
    Case("EfficientNet-B0 224", images.efficientnet, _image(224), 1.7),
    Case("ConvNeXt-T 224", _convnext, _image(224), 3.0),
    Case("ViT-S/16 224", _vit, _image(224), 3.0),
    Case("MiniLM 128 tokens", _minilm, _tokens, 3.0),
    Case("DenseNet k=12 32", images.densenet, _image(32), 1.5),
    Case("SqueezeNet 1.1 224", images.squeezenet, _image(224), 1.5),
    Case("Inception blocks 128", images.inception, _image(128), 1.5),
    Case("MLP 784-1024-1024-10", lambda: _perceptron(784, 1024, 1024, 10), _row(784), 1.5),
    Case("LeNet-300-100", lambda: _perceptron(784, 300, 100, 10), _row(784), 1.2),
    Case("tabular MLP 32-64-64-1", lambda: _perceptron(32, 64, 64, 1), _row(32), 1.0),
]

SMALL = {
    "DenseNet k=12 32",
    "MLP 784-1024-1024-10",
    "LeNet-300-100",
    "tabular MLP 32-64-64-1",
}


def run(rounds: int, only: str) -> None:
    engines = [name for name in ENGINES if name in installed()]
    _introduce()
    print(f"best and median of {rounds} interleaved bursts, milliseconds; ratios to the faster\n")
    print(row("network", "skinny", "median", *engines, "x best", "x median", "wanted"))
    for case in CASES:
        if only not in case.name:
            continue
        contenders, notes = prepared(case, engines)
        seconds = bursts(contenders, rounds, calls_of_a_burst(contenders["skinny"]))
        best = {name: 1e3 * min(times) for name, times in seconds.items()}
        middle = {name: 1e3 * median(times) for name, times in seconds.items()}
        print(row(case.name, *_cells(best, middle, engines), f"{case.wanted:.1f}"), flush=True)
        for note in notes:
            print(f"    {note}")


def run_busy(rounds: int, only: str) -> None:
    """Small networks alone, and beside two processes that never wait."""
    engines = [name for name in ENGINES if name in installed()]
    _introduce()
    print(f"median / 99th percentile of {rounds} interleaved bursts, milliseconds\n")
    print(row("network", "beside", *("skinny", *engines), width=18))
    for case in CASES:
        if case.name not in SMALL or only not in case.name:
            continue
        contenders, _ = prepared(case, engines)
        calls = calls_of_a_burst(contenders["skinny"])
        for others in (0, 2):
            with _busy(others):
                seconds = bursts(contenders, rounds, calls)
            cells = [
                f"{1e3 * median(times):.3f} / {1e3 * float(np.percentile(times, 99)):.3f}"
                for times in seconds.values()
            ]
            beside = f"{others} processes" if others else "nothing"
            print(row(case.name, beside, *cells, width=18), flush=True)


@contextmanager
def _busy(count: int) -> Iterator[None]:
    loops = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


def _introduce() -> None:
    print(describe_machine(*ENGINES, "torch", "transformers", "numpy"))
    module = native.extension()
    print(f"our kernels: {'NumPy' if module is None else module.isa()}")


def prepared(case: Case, engines: list[str]) -> tuple[dict[str, Burst], list[str]]:
    """Everyone ready to run, after a check that all compute the same; and what our network says of
    itself when it runs first."""
    torch.manual_seed(0)
    inputs = case.example()
    model = sparse(case.build(), inputs)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.skinny"
        pack(model, path, example=tuple(inputs.values()))
        net = load(path, threads=THREADS)
        given = (value.numpy() for value in inputs.values())
        arrays = dict(zip(net.inputs, given, strict=True))
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            expected = np.asarray(net(**arrays))
        contenders: dict[str, Burst] = {"skinny": burst(lambda: net(**arrays))}
        for name in engines:
            engine = prepare(name, path, arrays, THREADS)
            check_equal(name, np.asarray(engine()), expected)
            contenders[name] = burst(engine)
    return contenders, [str(warning.message) for warning in caught]


def calls_of_a_burst(run: Burst) -> int:
    return max(3, min(300, int(BURST_SECONDS / min(run(3)))))


def _cells(best: Mapping[str, float], middle: Mapping[str, float], engines: list[str]) -> list[str]:
    ratios = [
        f"{min(times[name] for name in engines) / times['skinny']:.2f}" for times in (best, middle)
    ]
    return [
        f"{best['skinny']:.3f}",
        f"{middle['skinny']:.3f}",
        *(f"{best[name]:.3f}" for name in engines),
        *ratios,
    ]


def sparse(model: nn.Module, inputs: Mapping[str, torch.Tensor]) -> nn.Module:
    """The model with random masks, weights scaled so that its signals keep their size."""
    generator = torch.Generator().manual_seed(1)
    depthwise = {
        module.weight
        for module in model.modules()
        if isinstance(module, nn.Conv2d) and module.groups == module.in_channels > 1
    }
    with torch.no_grad():
        for weight in layers.prunable(model).values():
            if weight not in depthwise:
                keep = max(1, round((1 - SPARSITY) * weight.numel()))
                kept = random_threshold(weight, keep, generator=generator)
                weight.copy_(kept / (1 - SPARSITY) ** 0.5)
        _set_batch_norms(model, inputs)
    return model.eval()


def _set_batch_norms(model: nn.Module, inputs: Mapping[str, torch.Tensor]) -> None:
    """Statistics of batch normalisation, as training would leave them."""
    norms: list[Any] = [m for m in model.modules() if isinstance(m, nn.BatchNorm2d)]
    if not norms:
        return
    for norm in norms:
        norm.momentum = None
    model.eval()
    for norm in norms:
        norm.train()
    model(*(torch.cat([value, torch.randn_like(value)]) for value in inputs.values()))
