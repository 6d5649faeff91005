"""NIN and AlexNet, sparse, on our runtime and on ONNX Runtime, OpenVINO, PyTorch and DeepSparse.

    python -m benchmarks inference [--suite zoo] [--quick] [--only "batch 1"]
    python -m benchmarks inference --interpreted

Random weights with uniform random masks, the same for everyone, and one network pruned by training
(the narrow NIN of docs/results.md at 90 %, or another that `--trained` names). Everyone
gets the same number of threads; contenders take turns in bursts. DeepSparse 1.8.0 runs in an
environment of its own, .venv-deepsparse, which `make bench` tries to make. `make bench-avx2` runs
this benchmark with AVX-512 hidden from everyone. `--interpreted` compares generated kernels with
the interpreting ones alone, on one thread and by its CPU time, for machines that are not quiet. The
suites `zoo` and `busy` are in
benchmarks/zoo.py.
"""

import argparse
import json
import os
import subprocess
import tempfile
import time
from pathlib import Path
from typing import NamedTuple
from unittest import mock

import numpy as np
import torch
from tests.zoo import images

from benchmarks import zoo
from benchmarks.common import (
    THREADS,
    Burst,
    best_of_bursts,
    burst,
    check_equal,
    describe_barrier,
    describe_machine,
    row,
)
from skinny import models, native
from skinny.export import pack
from skinny.iht import layers
from skinny.iht.threshold import random_threshold
from skinny.peers import PEERS, installed, prepare, to_fixed_onnx
from skinny.runtime import load

DEEPSPARSE = Path(".venv-deepsparse/bin/python")
TRAINED = Path(__file__).parents[1] / "results" / "cifar10-sdnn-10x.skinny"


class Case(NamedTuple):
    model: str
    sparsity: float
    batch: int
    calls: int  # of a burst
    dense_target: float  # times as fast as the fastest of the dense engines
    deepsparse_target: float | None


CASES = [
    Case("nin-cifar", 0.90, 64, 4, 8.0, 1.8),
    Case("nin-cifar", 0.95, 64, 4, 13.0, 2.5),
    Case("nin-cifar", 0.50, 64, 4, 1.8, 1.05),
    Case("nin-cifar", 0.90, 1, 60, 5.5, 1.6),
    Case("alexnet", 0.90, 1, 12, 4.0, 3.0),
    Case("alexnet", 0.75, 1, 12, 2.2, 2.0),
    Case("resnet50", 0.90, 1, 8, 5.5, None),
    Case("resnet50", 0.90, 16, 2, 6.0, None),
]
TRAINED_TARGETS = {64: (7.0, 2.5), 1: (3.0, 1.5)}
# The targets are those with AVX-512.
_HEADER = row(
    "case", "skinny", *PEERS, "deepsparse", "x dense", "wanted", "x sparse", "wanted", "of peak",
    "code kB", "made in ms", width=11,
)  # fmt: skip
IMAGES = {"nin-cifar": (3, 32, 32), "alexnet": (3, 227, 227), "resnet50": (3, 224, 224)}


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--suite", choices=("paper", "zoo", "busy"), default="paper")
    parser.add_argument("--quick", action="store_true", help="fewer rounds")
    parser.add_argument("--only", default="", help="the cases whose name has this in it")
    parser.add_argument(
        "--interpreted", action="store_true", help="against ourselves without generated code"
    )
    parser.add_argument("--trained", type=Path, default=TRAINED, help="a packed, trained model")
    options = parser.parse_args([] if arguments is None else arguments)
    rounds = 4 if options.quick else 15
    if options.suite != "paper":
        (zoo.run if options.suite == "zoo" else zoo.run_busy)(rounds, options.only)
        return
    print(describe_machine("onnxruntime", "openvino", "torch", "numpy"))
    module = native.extension()
    print(f"our kernels: {'NumPy' if module is None else module.isa()}")
    if module is not None:
        print(describe_barrier())
        print(f"FMA peak of a core, measured: {module.fma_peak():.0f} GFLOP/s")
    print(f"best of {rounds} interleaved bursts, milliseconds; ratios of the best")
    print()
    run = _run_interpreted if options.interpreted else _run
    if options.interpreted:
        print(row("case", "generated", "interpreted", "x", "code kB"))
    else:
        print(_HEADER)
    with tempfile.TemporaryDirectory() as folder:
        for case in CASES:
            title = f"{case.model} {case.sparsity:.0%} batch {case.batch}"
            if options.only in title:
                run(title, pack_case(case, Path(folder)), case, rounds)
        for batch in (64, 1):
            title = f"{options.trained.stem} batch {batch}"
            if options.only in title:
                run(title, options.trained, Case("", 0, batch, 20, *TRAINED_TARGETS[batch]), rounds)


def pack_case(case: Case, folder: Path) -> Path:
    """A model with random weights, of which a random share is kept."""
    path = folder / f"{case.model}-{case.sparsity}.skinny"
    if path.exists():
        return path
    torch.manual_seed(0)
    generator = torch.Generator().manual_seed(1)
    shape = IMAGES[case.model]
    if case.model == "resnet50":
        example = {"x": torch.randn(1, *shape)}
        pack(zoo.sparse(images.resnet(), example), path, example=example["x"])
        return path
    model = models.build(
        case.model, classes=10 if "nin" in case.model else 1000, channels=3, image_size=shape[1:]
    )
    with torch.no_grad():
        for weight in layers.prunable(model).values():
            keep = max(1, round((1 - case.sparsity) * weight.numel()))
            weight.copy_(random_threshold(weight, keep, generator=generator))
    preprocessing = {"mean": [0.5] * 3, "std": [0.25] * 3}  # for who gives it pictures
    pack(model.eval(), path, example=torch.zeros(1, *shape), preprocessing=preprocessing)
    return path


def _run(title: str, path: Path, case: Case, rounds: int) -> None:
    net = load(path, threads=THREADS)
    rng = np.random.default_rng(0)
    x = rng.standard_normal((case.batch, *net.input_shape)).astype(np.float32)
    expected = net(x, preprocessed=True)
    inputs = {next(iter(net.inputs)): x}
    contenders: dict[str, Burst] = {"skinny": burst(lambda: net(x, preprocessed=True))}
    for name in installed():
        run = prepare(name, path, inputs, THREADS)
        check_equal(name, np.asarray(run()), expected)
        contenders[name] = burst(run)
    with tempfile.TemporaryDirectory() as folder:
        worker = _start_deepsparse(path, inputs, Path(folder), expected)
        if worker is not None:
            contenders["deepsparse"] = lambda calls: _ask(worker, calls)
        best = best_of_bursts(contenders, rounds, case.calls)
        if worker is not None:
            worker.stdin.close()
            worker.wait()
    ours = best["skinny"]
    dense = min(best[name] for name in PEERS if name in best)
    cells = [f"{best[name]:.3f}" if name in best else "absent" for name in ("skinny", *PEERS)]
    sparse = best.get("deepsparse")
    cells.append("absent" if sparse is None else f"{sparse:.3f}")
    cells += [f"{dense / ours:.2f}", f"{case.dense_target:.1f}" if case.dense_target else "-"]
    cells.append("-" if sparse is None else f"{sparse / ours:.2f}")
    cells.append("-" if case.deepsparse_target is None else f"{case.deepsparse_target:.2f}")
    profile = net.profile(case.batch, 1)
    operations = sum(step.gflops * step.milliseconds for step in profile.rows)  # millions
    peak = THREADS * native.extension().fma_peak() if native.extension() else 0.0
    cells.append(f"{operations / ours / peak:.0%}" if peak else "-")
    cells.append(f"{sum(step.code_bytes for step in profile.rows) / 1e3:.0f}")
    cells.append(f"{profile.code_milliseconds:.0f}")
    print(row(title, *cells, width=11), flush=True)


def _run_interpreted(title: str, path: Path, case: Case, rounds: int) -> None:
    """One thread's CPU time with and without generated code (SKINNY_JIT), in turn."""
    nets = {}
    for name, wish in (("generated", "1"), ("interpreted", "0")):
        with mock.patch.dict(os.environ, SKINNY_JIT=wish):
            nets[name] = load(path, threads=1)
            x = np.random.default_rng(0).standard_normal(
                (case.batch, *nets[name].input_shape), np.float32
            )
            nets[name](x, preprocessed=True)  # code is made for a batch mode at its first call
    expected = nets["interpreted"](x, preprocessed=True)
    check_equal("generated code", nets["generated"](x, preprocessed=True), expected)
    best = dict.fromkeys(nets, float("inf"))
    for _ in range(rounds * case.calls):
        for name, net in nets.items():
            began = time.thread_time()
            net(x, preprocessed=True)
            best[name] = min(best[name], 1e3 * (time.thread_time() - began))
    code = sum(step.code_bytes for step in nets["generated"].profile(case.batch, 1).rows)
    print(
        row(
            title,
            f"{best['generated']:.3f}",
            f"{best['interpreted']:.3f}",
            f"{best['interpreted'] / best['generated']:.2f}",
            f"{code / 1e3:.0f}",
        ),
        flush=True,
    )


def _start_deepsparse(path: Path, inputs: dict, folder: Path, expected: np.ndarray):
    """DeepSparse in its own environment, or None where that is not there or does not work."""
    if not DEEPSPARSE.exists():
        return None
    model, batch = folder / "model.onnx", folder / "x.npy"
    to_fixed_onnx(path, model, inputs)
    _downgrade(model)
    np.save(batch, *inputs.values())
    script = Path(__file__).parent / "peers" / "deepsparse_worker.py"
    worker = subprocess.Popen(
        [DEEPSPARSE, script, model, batch, str(THREADS)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    for line in worker.stdout:
        if line.startswith('{"ready"'):
            first = np.array(json.loads(line)["ready"])
            check_equal("deepsparse", first, expected.reshape(-1)[: len(first)])
            return worker
    print(f"deepsparse failed: {worker.stderr.read().strip().splitlines()[-1:]}")
    return None


def _ask(worker: subprocess.Popen, calls: int) -> list[float]:
    print(calls, file=worker.stdin, flush=True)
    return json.loads(worker.stdout.readline())


def _downgrade(path: Path) -> None:
    """DeepSparse 1.8.0 reads operator set 13 at most; what our models use is the same in both."""
    import onnx

    model = onnx.load(path)
    model.ir_version = 7
    del model.opset_import[:]
    model.opset_import.append(onnx.helper.make_opsetid("", 13))
    onnx.save(model, path)


if __name__ == "__main__":
    import sys

    main(sys.argv[1:])
