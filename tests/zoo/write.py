"""Writes docs/networks.md: what of each network of the zoo runs natively, and how fast.

python -m tests.zoo.write [NAME ...]     (with names, prints their rows and writes nothing)
"""

import argparse
import gc
import os
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from benchmarks.common import THREADS, describe_machine, interleave
from tests.zoo.network import Network, build
from tests.zoo.zoo import ZOO

import skinny
from skinny.files import atomic_write
from skinny.peers import prepare
from skinny.runtime.general import GeneralNetwork

DOCUMENT = Path(__file__).parents[2] / "docs" / "networks.md"
SECONDS = 4.0  # of measuring, for each network
HEAD = """# Networks

`python -m tests.zoo.write` writes this page. The networks are those of `tests/zoo`, where small
versions of them are packed, run, compared with torch to 1e-4, written as ONNX, run by ONNX Runtime
and imported back from ONNX; those of Hugging Face `transformers` are built from configurations.
Here they have the sizes people use, or nearly, and random weights, 90 % of the large matrices zero.

*By references* names the operations that have no kernel yet, or none for these shapes: NumPy
computes them, correctly and slowly. Everything else runs on compiled kernels. *Weights* counts all,
zeros included. Speed is of one sample, in milliseconds, best of {rounds} interleaved calls at
least; ONNX Runtime computes the zeros, too. A ratio above 1 means that Skinny is faster.

{machine}; load average while measuring {load}.

| network | weights | input | by references | Skinny | ONNX Runtime | ratio |
| --- | ---: | --- | --- | ---: | ---: | ---: |
"""


class Row(NamedTuple):
    network: str
    weights: int
    inputs: dict[str, np.ndarray]
    references: set[str]
    seconds: dict[str, list[float]]

    def __str__(self) -> str:
        shapes = ", ".join("x".join(map(str, x.shape[1:])) for x in self.inputs.values())
        best = {name: 1000 * min(times) for name, times in self.seconds.items()}
        ours, theirs = best["skinny"], best["onnxruntime"]
        cells = [
            self.network, f"{self.weights / 1e6:.2f} M", shapes,
            ", ".join(sorted(self.references)) or "none", f"{ours:.3g}", f"{theirs:.3g}",
            f"{theirs / ours:.2f}",
        ]  # fmt: skip
        return f"| {' | '.join(cells)} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(ZOO))
    names = parser.parse_args().names
    warnings.filterwarnings("ignore", "these operations have no kernel")
    rows = []
    for name in names or ZOO:
        rows.append(measured(ZOO[name]))
        print(rows[-1], flush=True)
        gc.collect()
    if not names:
        head = HEAD.format(
            machine=describe_machine("onnxruntime", "torch", "transformers", "numpy"),
            load=f"{os.getloadavg()[2]:.0f}",
            rounds=min(len(row.seconds["skinny"]) for row in rows),
        )
        with atomic_write(DOCUMENT) as out:
            out.write((head + "\n".join(map(str, rows)) + "\n").encode())


def measured(network: Network) -> Row:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.skinny"
        example = network.inputs(1, network.size[1])
        skinny.pack(build(network, full=True), path, example=example)
        net = skinny.load(path, threads=THREADS)
        inputs = {name: x.numpy() for name, x in example.items()}
        contenders = {
            "skinny": lambda: net(**inputs),
            "onnxruntime": prepare("onnxruntime", path, inputs, THREADS),
        }
        start = time.perf_counter()
        found = references(net, inputs)  # runs the network twice
        rounds = int(SECONDS / (time.perf_counter() - start))
        seconds = interleave(contenders, min(50, max(3, rounds)))
        with skinny.packing.open(path) as file:
            weights = sum(int(np.prod(file.entry(name).shape)) for name in file.names)
    return Row(network.name, weights, inputs, found, seconds)


def references(net: Any, inputs: dict[str, np.ndarray]) -> set[str]:
    """The operations that run by their references."""
    if not isinstance(net, GeneralNetwork):  # format 1 has kernels for all it can express
        return set()
    rows = net.profile(**inputs, repeats=1).rows
    return {row.step.op for row in rows if row.step.kernel == "NumPy reference"}


if __name__ == "__main__":
    main()
