"""Milliseconds of one image: the packed networks of a folder, and the dense one in OpenVINO.

    python results/pretrained_time.py --folder FOLDER

Writes times.json into the folder. Wants a quiet machine, and the extras train, dev and bench.
"""

import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
import tyro

import skinny

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parents[1] / "examples"))
import prune_pretrained as example
from benchmarks.common import THREADS, describe_machine
from pretrained_train import write_record


def main(folder: Path = Path("build/pruned"), rounds: int = 30) -> None:
    """The contenders in turns: medians over the rounds."""
    x = np.random.default_rng(0).standard_normal((1, 3, example.SIZE, example.SIZE), np.float32)
    runs = in_openvino(x)
    for file in sorted(folder.glob("*.skinny")):
        if not file.with_suffix(".json").exists():
            continue  # its training was ended before it was judged
        net = skinny.load(file, threads=THREADS)
        runs[f"Skinny, {file.stem}"] = lambda net=net: net(x, preprocessed=True)
    taken: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(rounds):
        for name, run in runs.items():
            for _ in range(2):  # the first call finds the caches as others left them
                began = time.perf_counter()
                run()
            taken[name].append(time.perf_counter() - began)
    medians = {name: 1000 * float(np.median(seconds)) for name, seconds in taken.items()}
    machine = describe_machine("skinny-nn", "openvino")
    found = {"machine": machine, "rounds": rounds, "milliseconds": medians}
    write_record(folder / "times.json", found)


def in_openvino(x: np.ndarray) -> dict[str, Callable[[], object]]:
    """The dense network, with random weights."""
    import openvino

    dense = example.mobilenet_v2(classes=len(example.CLASSES)).eval()
    runs: dict[str, Callable[[], object]] = {}
    for kind, precision in {"fp32": "f32", "bf16": "bf16"}.items():
        model = openvino.convert_model(dense, example_input=torch.zeros(x.shape))
        options = {"INFERENCE_PRECISION_HINT": precision, "INFERENCE_NUM_THREADS": THREADS}
        compiled = openvino.compile_model(model, "CPU", options)
        runs[f"OpenVINO, dense, {kind}"] = lambda compiled=compiled: compiled(x)
    return runs


if __name__ == "__main__":
    tyro.cli(main, description=__doc__)
