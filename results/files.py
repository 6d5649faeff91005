"""What the packed files of runs take, how they err, and how long they run.

    python results/files.py pack OUT.jsonl RUN...
    python results/files.py time OUT.jsonl RUN...
    python results/files.py peers OUT.jsonl RUN...
    python results/files.py openvino OUT.jsonl RUN...

`pack` packs each run with its weights as they are and, if nine tenths of them were removed, rounded
(even steps of 8 bits, codebooks of 2 to 4, and within the size of Deep Compression's files); runs
that trained a codebook with that and, of LeNet-5 at 280x and more, within 2.8 kB. It tests each
file on the images that the run is judged by. `time` runs the exact files of the networks of seed 0
with one thread, one image at a time, in Skinny and in the engines that are installed, which get the
same network as dense layers (`skinny bench`). `peers` codes the weights of networks with a tenth of
their weights or less, seeds 0 to 2, by other programs (in .venv-codecs, see
benchmarks/peers/codecs_worker.py). `openvino` tests dense networks in OpenVINO, as they are and in
int8 by NNCF, which is calibrated on the training images that our own int8 takes its ranges from. A
line for each file; runs that OUT.jsonl has already are left out.
"""

import importlib
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from files_table import ENGINES

from skinny import data
from skinny.data import Batches
from skinny.peers import to_fixed_onnx
from skinny.training import RunFolder, load_run
from skinny.training.config import Config, identity
from skinny.training.evaluation import evaluate
from skinny.training.loading import TrainedRun
from skinny.training.packed import accuracies, calibration_batches, pack_trained

sys.path.insert(0, str(Path(__file__).parents[1]))  # for the repository's own parts
from benchmarks.common import describe_machine

HERE = Path(__file__).parent
CODECS = HERE.parent / ".venv-codecs/bin/python"
VALUES = ("exact", "int8", "codebook4", "codebook3", "codebook2")
SEEDS = 3  # whose weights are coded by other programs
FEW = 0.9  # the sparsity from which on rounding is tried
DEEP_COMPRESSION = {"lenet-300-100": 27_000, "lenet-5": 44_000}  # bytes, at no loss
SMALLEST = {"lenet-5": 2_800}  # bytes: as entropy-penalised networks (2020), at 1.0 % errors
FEWEST = 1 - 1 / 280  # the sparsity from which on such a file can be had


def main(argv: list[str]) -> None:
    commands: dict[str, Callable[[Path], Iterator[dict[str, Any]]]] = {
        "pack": packed,
        "time": timed,
        "peers": coded_by_others,
        "openvino": in_openvino,
    }
    if len(argv) < 3 or argv[0] not in commands:
        raise SystemExit(__doc__)
    out = Path(argv[1])
    lines = out.read_text("utf-8").splitlines() if out.exists() else []
    known = {json.loads(line)["run"] for line in lines}
    for run in map(Path, argv[2:]):
        config = RunFolder(run).config()
        if RunFolder(run).result() is None or identity(config) in known:
            continue
        for found in commands[argv[0]](run):
            lines.append(json.dumps({"run": identity(config)} | found))
            print(run.name, lines[-1], flush=True)
        out.write_text("".join(f"{line}\n" for line in lines), "utf-8")


def packed(run: Path) -> Iterator[dict[str, Any]]:
    trained = load_run(run)
    config = trained.config
    for name, how in ways(config).items():
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "model.skinny"
            pack_trained(
                trained.model,
                file,
                config=config,
                dataset=trained.dataset,
                weights=trained.result["weights"],
                note=print,
                **how,
            )
            _, found = accuracies(trained, file)
            error = 100 * sum(found.errors) / sum(found.images)
            yield {"values": name, "bytes": file.stat().st_size, "error": round(error, 4)}


def ways(config: Config) -> dict[str, dict[str, Any]]:
    """{name: how a run's weights are stored}; "exact" is as they were trained."""
    found: dict[str, dict[str, Any]]
    if config.quantize is not None:
        if not config.quantize.startswith("codebook"):
            return {}  # the run's own file has its integers, and its record their size
        found = {"exact": {"values": config.quantize}}
        if config.model in SMALLEST and config.sparsity >= FEWEST:
            found["smallest"] = {"size": SMALLEST[config.model]}
        return found
    few = config.method != "dense" and config.sparsity > FEW
    found = {values: {"values": values} for values in (VALUES if few else VALUES[:1])}
    if few and config.model in DEEP_COMPRESSION:
        found["size"] = {"size": DEEP_COMPRESSION[config.model]}
    return found


def coded_by_others(run: Path) -> Iterator[dict[str, Any]]:
    config = RunFolder(run).config()
    if config.sparsity < FEW or config.seed >= SEEDS or config.quantize is not None:
        return
    trained = load_run(run)
    state = trained.model.state_dict()
    with tempfile.TemporaryDirectory() as folder:
        weights = Path(folder) / "weights.npz"
        np.savez(weights, **{name: tensor.numpy() for name, tensor in state.items()})
        command = [CODECS, HERE.parent / "benchmarks/peers/codecs_worker.py", weights, folder]
        told = subprocess.run(command, check=True, capture_output=True, text=True)
        for line in told.stdout.splitlines():
            if line.startswith("{"):  # nncodec talks, too
                found = json.loads(line)
                with np.load(found.pop("decoded")) as decoded:
                    own = {name: torch.from_numpy(decoded[name]) for name in state}
                trained.model.load_state_dict(own)
                yield found | {"error": round(100 * error_of(trained), 4)}


def error_of(trained: TrainedRun) -> float:
    batches = test_batches(trained, 256)
    found = evaluate(trained.model, batches, len(trained.dataset.classes))
    return sum(found.errors) / sum(found.images)


def test_batches(trained: TrainedRun, size: int) -> Batches:
    whiten = trained.config.whiten
    return data.test_batches(trained.dataset, batch_size=size, whiten=whiten)


def in_openvino(run: Path) -> Iterator[dict[str, Any]]:
    if RunFolder(run).config().method != "dense":
        return
    openvino, nncf = importlib.import_module("openvino"), importlib.import_module("nncf")
    trained = load_run(run)
    seen = [x.numpy() for x in calibration_batches(trained.config, trained.dataset)]
    with tempfile.TemporaryDirectory() as folder:
        onnx = Path(folder) / "model.onnx"
        to_fixed_onnx(run / "model.skinny", onnx, {"images": seen[0]})
        plain = openvino.Core().read_model(onnx)
    for values, model in {
        "openvino fp32": plain,
        "openvino int8": nncf.quantize(plain, nncf.Dataset(seen), subset_size=len(seen)),
    }.items():
        compiled = openvino.Core().compile_model(model, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
        wrong = images = 0
        for x, labels in test_batches(trained, len(seen[0])).epoch(0):
            scores = compiled(np.resize(x.numpy(), seen[0].shape))[0][: len(x)]
            wrong += int((scores.argmax(1) != labels.numpy()).sum())
            images += len(x)
        yield {"values": values, "error": round(100 * wrong / images, 4)}


def timed(run: Path) -> Iterator[dict[str, Any]]:
    if RunFolder(run).config().seed == 0:
        bench = [sys.executable, "-m", "skinny", "bench", str(run / "model.skinny")]
        bench += ["--threads", "1", "--rounds", "100", "--json"]
        told = subprocess.run(bench, check=True, capture_output=True, text=True)
        machine = describe_machine(*ENGINES, "numpy", threads=1)
        yield {"milliseconds": json.loads(told.stdout)["median_ms"], "machine": machine}


if __name__ == "__main__":
    main(sys.argv[1:])
