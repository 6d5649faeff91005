"""Networks in int8, sparse, against OpenVINO (int8 by NNCF, bf16) and ONNX Runtime (static int8).

    python -m benchmarks int8 [--quick] [--only "nin"]
    python -m benchmarks int8 --only "nin" --folder build/int8 --prepare  # makes what it measures
    python -m benchmarks int8 --memory  # what our networks take alone

Random weights with random masks, single weights and groups of four neighbouring input channels
(1x4); everyone is calibrated with the same 8 random batches. The engines compute the dense network
whatever the mask is; theirs is the one of single weights. Our fp32 network is the same, without
compute="int8". Contenders take turns in bursts; best call of each, milliseconds. With --ours the
ratios are those to our fp32 network:

    SKINNY_ISA=avx2 python -m benchmarks int8 --ours
"""

import argparse
import importlib
import subprocess
import sys
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
from skinny import models, native
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
OURS = ("1x4", "single", "fp32")
ENGINES = ("openvino int8", "openvino bf16", "ort int8")


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="fewer rounds")
    parser.add_argument("--only", default="", help="the cases whose name has this in it")
    parser.add_argument("--ours", action="store_true", help="without the other engines")
    parser.add_argument("--memory", action="store_true", help="memory of ours, and no times")
    parser.add_argument("--folder", type=Path, help="keeps the networks, for other runs to measure")
    parser.add_argument("--prepare", action="store_true", help="makes them, and measures nothing")
    options = parser.parse_args([] if arguments is None else arguments)
    print(describe_machine("onnxruntime", "openvino", "nncf", "torch", "numpy"))
    module = native.extension()
    print(f"our kernels: {'NumPy' if module is None else module.isa()}")
    rounds = 3 if options.quick else 10
    if options.memory:
        print("megabytes a process has more of; int8 by fp32\n")
        print(row("case", *OURS, "1x4", "single"))
    else:
        print(
            f"best of {rounds} interleaved bursts, milliseconds; memory of int8 by that of fp32\n"
        )
        last = ("x 1x4", "wanted", "x single", "wanted", "memory", "fp32 MB")
        print(row("case", *OURS, *ENGINES, *last))
    with tempfile.TemporaryDirectory() as temporary, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for case in CASES:
            title = f"{case.name} batch {case.batch}"
            if options.only not in title:
                continue
            folder = (options.folder or Path(temporary)) / title.replace(" ", "-")
            folder.mkdir(parents=True, exist_ok=True)
            _prepare(case, folder, options.ours or options.memory)
            if options.memory:
                taken = _taken(folder, _inputs(case))
                shares = [f"{taken[n] / taken['fp32']:.2f}" for n in OURS[:2]]
                print(row(title, *(f"{taken[n] / 1e6:.1f}" for n in OURS), *shares), flush=True)
            elif not options.prepare:
                _run(title, case, folder, rounds, options.ours)


def _inputs(case: Case) -> dict[str, np.ndarray]:
    torch.manual_seed(1)
    return {name: x.numpy() for name, x in case.example(case.batch).items()}


def _prepare(case: Case, folder: Path, ours: bool) -> None:
    """The files that are measured, unless the folder has them."""
    torch.manual_seed(0)
    batches = [case.example(min(case.batch, 4)) for _ in range(CALIBRATION)]
    given = [tuple(batch.values()) for batch in batches]  # by position
    for name, group in (("single", 1), ("1x4", 4)):
        model = _pruned(case, group)
        _once(
            folder / f"{name}.skinny",
            lambda path, m=model: pack(
                m, path, example=given[0], compute="int8", calibration=given
            ),
        )
        if group == 1:
            plain = folder / "fp32.skinny"
            _once(plain, lambda path, m=model: pack(m, path, example=given[0]))
    if ours:
        return
    inputs = _inputs(case)
    wide = [{n: _wide(x.numpy(), case.batch) for n, x in batch.items()} for batch in batches]
    named = dict(zip(load(plain).inputs, inputs.values(), strict=True))
    model_path = folder / "model.onnx"
    _once(model_path, lambda path: to_fixed_onnx(plain, path, named))
    _once(folder / "openvino.xml", lambda path: _quantize_openvino(model_path, wide, path))
    _once(folder / "ort.onnx", lambda path: _quantize_ort(model_path, wide, path))


def _once(path: Path, make: Callable[[Path], object]) -> None:
    if not path.exists():
        make(path)


def _run(title: str, case: Case, folder: Path, rounds: int, ours: bool) -> None:
    inputs = _inputs(case)
    nets = {name: load(folder / f"{name}.skinny", threads=THREADS) for name in OURS}
    calls: dict[str, Callable[[], Any]] = {n: _caller(net, inputs) for n, net in nets.items()}
    if not ours:
        plain, hint = folder / "model.onnx", {"INFERENCE_PRECISION_HINT": "bf16"}
        calls["openvino int8"] = _openvino(folder / "openvino.xml", _named(plain, inputs), {})
        calls["openvino bf16"] = _openvino(plain, _named(plain, inputs), hint)
        calls["ort int8"] = _ort(folder / "ort.onnx", _named(plain, inputs))
    contenders: dict[str, Burst] = {name: burst(call) for name, call in calls.items()}
    best = best_of_bursts(contenders, rounds, case.calls)
    fastest = min([best[name] for name in ENGINES if name in best], default=best["fp32"])
    cells = [f"{best[name]:.3f}" if name in best else "-" for name in (*OURS, *ENGINES)]
    for name, wanted in zip(("1x4", "single"), case.wanted, strict=True):
        cells.append(f"{fastest / best[name]:.2f}")
        cells.append("1.0" if ours else "-" if wanted is None else f"{wanted}")
    taken = _taken(folder, inputs)
    cells.append(" ".join(f"{taken[name] / taken['fp32']:.2f}" for name in ("1x4", "single")))
    cells.append(f"{taken['fp32'] / 1e6:.1f}")
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


def _caller(net: Any, inputs: dict[str, np.ndarray]) -> Callable[[], Any]:
    given = dict(zip(net.inputs, inputs.values(), strict=True))
    return lambda: net(**given) if len(given) > 1 else net(*given.values())


def _taken(folder: Path, inputs: dict[str, np.ndarray]) -> dict[str, int]:
    return {name: _memory(folder / f"{name}.skinny", inputs) for name in OURS}


def _memory(path: Path, inputs: dict[str, np.ndarray]) -> int:
    """Bytes of its own that a process has more of after loading a network and calling it."""
    with tempfile.TemporaryDirectory() as folder:
        np.savez(Path(folder) / "inputs.npz", **inputs)
        command = [sys.executable, "-c", _MEMORY, path, Path(folder) / "inputs.npz", str(THREADS)]
        return int(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


_MEMORY = """
import ctypes, importlib, pkgutil, sys, warnings
import numpy as np
import skinny
from skinny.runtime import load
warnings.simplefilter("ignore")
with np.load(sys.argv[2]) as file:
    inputs = [file[name] for name in file]
def own():
    ctypes.CDLL(None).malloc_trim(0)
    return int(open("/proc/self/status").read().split("RssAnon:")[1].split()[0]) * 1024
def run():
    net = load(sys.argv[1], threads=int(sys.argv[3]))
    for _ in range(2):
        net(**dict(zip(net.inputs, inputs))) if len(inputs) > 1 else net(*inputs)
    return net
for module in pkgutil.walk_packages(skinny.__path__, "skinny."):
    if module.name.startswith(("skinny.runtime", "skinny.graph", "skinny.packing")):
        importlib.import_module(module.name)
before = own()
net = run()
print(own() - before)
"""


def _named(path: Path, batch: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """By the names of the ONNX file's inputs, which are in the same order."""
    onnx = importlib.import_module("onnx")
    names = [value.name for value in onnx.load(path).graph.input]
    return dict(zip(names, batch.values(), strict=True))


def _quantize_openvino(path: Path, batches: list[Any], made: Path) -> None:
    openvino, nncf = importlib.import_module("openvino"), importlib.import_module("nncf")
    given = [_named(path, batch) for batch in batches]
    model = openvino.Core().read_model(path)
    options = {}
    if any(node.get_type_name() == "MVN" for node in model.get_ops()):  # layer norm
        # NNCF fails on embeddings of positions, which do not depend on the input
        embeddings = nncf.IgnoredScope(types=["Gather"], validate=False)
        options = {"model_type": nncf.ModelType.TRANSFORMER, "ignored_scope": embeddings}
    model = nncf.quantize(model, nncf.Dataset(given), **options)
    openvino.save_model(model, made, compress_to_fp16=False)


def _openvino(path: Path, given: Any, hint: dict[str, str]) -> Callable[[], Any]:
    openvino = importlib.import_module("openvino")
    config = {"INFERENCE_NUM_THREADS": THREADS, "PERFORMANCE_HINT": "LATENCY", **hint}
    core = openvino.Core()
    compiled = core.compile_model(core.read_model(path), "CPU", config)
    return lambda: compiled(given)[0]


def _quantize_ort(path: Path, batches: list[Any], made: Path) -> None:
    quantization = importlib.import_module("onnxruntime.quantization")
    left = iter([_named(path, batch) for batch in batches])

    class Reader(quantization.CalibrationDataReader):  # type: ignore[misc, name-defined]
        def get_next(self) -> Any:
            return next(left, None)

    quantization.quantize_static(path, made, Reader(), per_channel=True)


def _ort(path: Path, given: Any) -> Callable[[], Any]:
    onnxruntime = importlib.import_module("onnxruntime")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = THREADS
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    return lambda: session.run(None, given)[0]


if __name__ == "__main__":
    main(sys.argv[1:])
