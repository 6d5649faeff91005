"""Writes docs/networks.md: what of each network of the zoo runs natively, and how fast.

python -m tests.zoo.write coverage     which operations run by references
python -m tests.zoo.write speed        how fast some of them are
"""

import argparse
import os
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.common import THREADS, burst, bursts, describe_machine
from tests.zoo.network import Network, build
from tests.zoo.zoo import ZOO

import skinny
from skinny.files import atomic_write
from skinny.peers import prepare
from skinny.runtime.general import GeneralNetwork

DOCUMENT = Path(__file__).parents[2] / "docs" / "networks.md"
ROUNDS, SECONDS = 6, 0.3  # of measuring: bursts of each network, and of each burst
HEAD = """# Networks

`python -m tests.zoo.write coverage` and `... speed` write this page, but for its last section. The
networks are those of `tests/zoo`: plain modules, and some of Hugging Face `transformers`, built
from configurations. The tests pack and run a small version of each with random weights, many of
them zero, compare it with torch to 1e-4, write it as ONNX, run that by ONNX Runtime, and import it
back.

## What runs natively

Operations that have no kernel yet, or none for these shapes, run by their NumPy references, which
is correct and slow; everything else runs on compiled kernels.

| network | inputs | free sizes | by references |
| --- | --- | --- | --- |
"""
SPEED = """
## Speed

Milliseconds for one sample, best of {rounds} interleaved bursts, at the sizes people use or nearly
(`full` in `tests/zoo/zoo.py` and `hugging.py`), 90 % of the large matrices zero at random;
ONNX Runtime computes the zeros, too. A ratio above 1 means that Skinny is faster. {machine}; load
average {load:.0f}.

| network | weights | inputs | Skinny | ONNX Runtime | ratio |
| --- | ---: | --- | ---: | ---: | ---: |
"""
MEASURED = (
    "mobilenet_v2", "mobilenet_v3", "efficientnet", "densenet", "squeezenet", "audio", "mlp",
    "tabular", "lstm", "vit",
)  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("section", choices=("coverage", "speed"))
    section = parser.parse_args().section
    warnings.filterwarnings("ignore", "these operations have no kernel")
    before = DOCUMENT.read_text("utf-8") if DOCUMENT.exists() else ""
    coverage, mark, speed = before.partition("\n## Speed\n")
    speed, last, beside = speed.partition("\n## Published sizes\n")
    if section == "speed":
        page = coverage + measured() + last + beside
    else:
        page = HEAD + "".join(map(covered, ZOO.values())) + mark + speed + last + beside
    with atomic_write(DOCUMENT) as out:
        out.write(page.encode())


def covered(network: Network) -> str:
    with tempfile.TemporaryDirectory() as folder:
        net, inputs = packed(network, Path(folder) / "model.skinny", full=False)
        found = references(net, inputs)
    free = dict.fromkeys(name for axes in network.dynamic.values() for name in axes.values())
    cells = [network.name, shapes(inputs), ", ".join(free), ", ".join(sorted(found)) or "none"]
    print(row := f"| {' | '.join(cells)} |", flush=True)
    return f"{row}\n"


def references(net: Any, inputs: dict[str, np.ndarray]) -> set[str]:
    """The operations that run by their references."""
    if not isinstance(net, GeneralNetwork):  # format 1 has kernels for all it can express
        return set()
    rows = net.profile(**inputs, repeats=1).rows
    return {row.step.op for row in rows if row.step.kernel == "NumPy reference"}


def measured() -> str:
    rows = ""
    for name in MEASURED:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "model.skinny"
            net, inputs = packed(ZOO[name], path, full=True)
            call = lambda net=net, inputs=inputs: net(**inputs)  # noqa: E731
            start = time.perf_counter()
            call()
            call()
            calls = min(300, max(3, int(2 * SECONDS / (time.perf_counter() - start))))
            peer = prepare("onnxruntime", path, inputs, THREADS)
            contenders = {"skinny": burst(call), "onnxruntime": burst(peer)}
            seconds = bursts(contenders, ROUNDS, calls)
            with skinny.packing.open(path) as file:
                weights = sum(int(np.prod(file.entry(name).shape)) for name in file.names)
        ours, theirs = (1000 * min(times) for times in seconds.values())
        cells = [name, f"{weights / 1e6:.2f} M", shapes(inputs), f"{ours:.3g}", f"{theirs:.3g}",
                 f"{theirs / ours:.2f}"]  # fmt: skip
        rows = f"{rows}| {' | '.join(cells)} |\n"
        print(rows.splitlines()[-1], flush=True)
    machine = describe_machine("onnxruntime", "torch", "transformers", "numpy")
    return SPEED.format(rounds=ROUNDS, machine=machine, load=os.getloadavg()[0]) + rows


def packed(network: Network, path: Path, *, full: bool) -> tuple[Any, dict[str, np.ndarray]]:
    """The packed network, loaded, and one sample."""
    example = network.inputs(1, network.size[full])
    skinny.pack(build(network, full=full), path, example=example)
    return skinny.load(path, threads=THREADS), {name: x.numpy() for name, x in example.items()}


def shapes(inputs: dict[str, np.ndarray]) -> str:
    return ", ".join("x".join(map(str, x.shape[1:])) for x in inputs.values())


if __name__ == "__main__":
    main()
