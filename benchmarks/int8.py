"""Networks in int8, sparse, against OpenVINO (int8 by NNCF, bf16) and ONNX Runtime (static int8).

    python -m benchmarks.int8 [--quick] [--only "nin"]

Random weights with random masks, single weights and groups of four neighbouring input channels
(1x4); everyone is calibrated with the same 8 random batches. The engines compute the dense network
whatever the mask is; theirs is the one of single weights. Our fp32 network is the same, without
compute="int8". Contenders take turns in bursts; best call of each, milliseconds.
"""

import argparse
import importlib
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from tests.zoo import images
from torch import nn

from benchmarks.common import THREADS, Burst, best_of_bursts, burst, describe_machine, row
from benchmarks.zoo import _minilm, _tokens
from skinny import models
from skinny.export import pack
from skinny.iht import layers
from skinny.iht.threshold import random_threshold
from skinny.peers import to_fixed_onnx
from skinny.runtime import load

CALIBRATION = 8  # batches


class Case(NamedTuple):
    name: str
    build: Callable[[], nn.Module]
    example: Callable[[int], dict[str, torch.Tensor]]
    sparsity: float
    batch: int
    calls: int
    wanted: tuple[float | None, float | None]  # 1x4 and single weights, by the fastest engine


def _images(side: int) -> Callable[[int], dict[str, torch.Tensor]]:
    return lambda batch: {"x": torch.randn(batch, 3, side, side)}


def _own(name: str, classes: int, side: int) -> Callable[[], nn.Module]:
    size = (side, side)
    return lambda: models.build(name, classes=classes, channels=3, image_size=size)


_NIN, _ALEXNET = _own("nin-cifar", 10, 32), _own("alexnet", 1000, 227)
_RESNET = images.resnet
CASES = [
    Case("nin 90 %", _NIN, _images(32), 0.9, 64, 8, (4.0, 2.0)),
    Case("nin 90 %", _NIN, _images(32), 0.9, 1, 60, (2.5, 1.5)),
    Case("nin 50 %", _NIN, _images(32), 0.5, 64, 4, (1.25, 1.0)),
    Case("alexnet 90 %", _ALEXNET, _images(227), 0.9, 1, 12, (3.5, 3.0)),
    Case("alexnet 75 %", _ALEXNET, _images(227), 0.75, 1, 12, (2.5, 2.2)),
    Case("resnet50 90 %", _RESNET, _images(224), 0.9, 1, 10, (2.5, 1.5)),
    Case("resnet50 80 %", _RESNET, _images(224), 0.8, 1, 10, (1.6, None)),
    Case("minilm 90 %", _minilm, lambda batch: _tokens(), 0.9, 1, 20, (2.0, 1.3)),
]
ENGINES = ("openvino int8", "openvino bf16", "ort int8")


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="fewer rounds")
    parser.add_argument("--only", default="", help="the cases whose name has this in it")
    parser.add_argument("--ours", action="store_true", help="without the other engines")
    options = parser.parse_args(arguments)
    print(describe_machine("onnxruntime", "openvino", "nncf", "torch", "numpy"))
    rounds = 3 if options.quick else 10
    print(f"best of {rounds} interleaved bursts, milliseconds\n")
    print(row("case", "1x4", "single", "fp32", *ENGINES, "x 1x4", "wanted", "x single", "wanted"))
    for case in CASES:
        title = f"{case.name} batch {case.batch}"
        if options.only in title:
            with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
                warnings.simplefilter("ignore")
                _run(title, case, Path(folder), rounds, options.ours)


def _run(title: str, case: Case, folder: Path, rounds: int, ours: bool) -> None:
    torch.manual_seed(0)
    batches = [case.example(min(case.batch, 4)) for _ in range(CALIBRATION)]
    given = [tuple(batch.values()) for batch in batches]  # by position
    inputs = {name: x.numpy() for name, x in case.example(case.batch).items()}
    contenders: dict[str, Burst] = {}
    for name, group in (("single", 1), ("1x4", 4)):
        model = _pruned(case, group)
        path = folder / f"{name}.skinny"
        pack(model, path, example=given[0], compute="int8", calibration=given)
        contenders[name] = burst(_caller(path, inputs))
        if group == 1:
            plain = folder / "fp32.skinny"
            pack(model, plain, example=given[0])
            contenders["fp32"] = burst(_caller(plain, inputs))
    if not ours:
        named = dict(zip(load(plain).inputs, inputs.values(), strict=True))
        to_fixed_onnx(plain, folder / "model.onnx", named)
        wide = [{n: _wide(x.numpy(), case.batch) for n, x in batch.items()} for batch in batches]
        contenders["openvino int8"] = burst(_openvino_int8(folder / "model.onnx", wide, inputs))
        contenders["openvino bf16"] = burst(_openvino_bf16(folder / "model.onnx", inputs))
        contenders["ort int8"] = burst(_ort_int8(folder, wide, inputs))
    best = best_of_bursts(contenders, rounds, case.calls)
    fastest = min([best[name] for name in ENGINES if name in best], default=None)
    cells = [f"{best[n]:.3f}" if n in best else "-" for n in ("1x4", "single", "fp32", *ENGINES)]
    for name, wanted in zip(("1x4", "single"), case.wanted, strict=True):
        cells.append("-" if fastest is None else f"{fastest / best[name]:.2f}")
        cells.append("-" if wanted is None else f"{wanted}")
    print(row(title, *cells), flush=True)


def _wide(x: np.ndarray, batch: int) -> np.ndarray:
    """A calibration batch of the size that the fixed ONNX file takes."""
    return x if len(x) == batch else np.concatenate([x] * -(-batch // len(x)))[:batch]


def _pruned(case: Case, group: int) -> nn.Module:
    torch.manual_seed(0)
    generator = torch.Generator().manual_seed(1)
    model = case.build().eval()
    with torch.no_grad():
        for weight in layers.prunable(model).values():
            inputs = weight.shape[1]
            size = group if inputs % group == 0 else 1
            groups = torch.ones(weight.shape[0], inputs // size, *weight.shape[2:])
            kept = max(1, round((1 - case.sparsity) * groups.numel()))
            mask = random_threshold(groups, kept, generator=generator)
            weight *= mask.repeat_interleave(size, dim=1)
    return model


def _caller(path: Path, inputs: dict[str, np.ndarray]) -> Callable[[], Any]:
    net = load(path, threads=THREADS)
    names = list(net.inputs)
    given = dict(zip(names, inputs.values(), strict=True))
    return lambda: net(**given) if len(given) > 1 else net(*given.values())


def _named(path: Path, batch: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """By the names of the ONNX file's inputs, which are in the same order."""
    onnx = importlib.import_module("onnx")
    names = [value.name for value in onnx.load(path).graph.input]
    return dict(zip(names, batch.values(), strict=True))


def _openvino_int8(path: Path, batches: list[Any], inputs: Any) -> Callable[[], Any]:
    openvino, nncf = importlib.import_module("openvino"), importlib.import_module("nncf")
    given = [_named(path, batch) for batch in batches]
    model = nncf.quantize(openvino.Core().read_model(path), nncf.Dataset(given))
    return _compiled(openvino, model, _named(path, inputs), {})


def _openvino_bf16(path: Path, inputs: Any) -> Callable[[], Any]:
    openvino = importlib.import_module("openvino")
    hint = {"INFERENCE_PRECISION_HINT": "bf16"}
    return _compiled(openvino, openvino.Core().read_model(path), _named(path, inputs), hint)


def _compiled(openvino: Any, model: Any, given: Any, hint: dict[str, str]) -> Callable[[], Any]:
    config = {"INFERENCE_NUM_THREADS": THREADS, "PERFORMANCE_HINT": "LATENCY", **hint}
    compiled = openvino.Core().compile_model(model, "CPU", config)
    return lambda: compiled(given)[0]


def _ort_int8(folder: Path, batches: list[Any], inputs: Any) -> Callable[[], Any]:
    onnxruntime = importlib.import_module("onnxruntime")
    quantization = importlib.import_module("onnxruntime.quantization")
    path, made = folder / "model.onnx", folder / "ort.onnx"
    left = iter([_named(path, batch) for batch in batches])

    class Reader(quantization.CalibrationDataReader):  # type: ignore[misc, name-defined]
        def get_next(self) -> Any:
            return next(left, None)

    quantization.quantize_static(path, made, Reader(), per_channel=True)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = THREADS
    session = onnxruntime.InferenceSession(made, options, providers=["CPUExecutionProvider"])
    given = _named(path, inputs)
    return lambda: session.run(None, given)[0]


if __name__ == "__main__":
    main()
