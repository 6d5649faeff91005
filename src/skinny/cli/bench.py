"""`skinny bench`: a packed model against other engines."""

import json
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import numpy as np
import tyro

from skinny import native
from skinny.cli.command_line import parse
from skinny.errors import SkinnyError
from skinny.peers import Call, installed, prepare
from skinny.printable import printable
from skinny.runtime import load


@dataclass(frozen=True)
class Bench:
    """Time a packed model on random images, against those of torch, onnxruntime and openvino that
    are installed. The contenders take turns, so that a slow moment hits all of them.

    Example: skinny bench digits.skinny --batch 64
    """

    model: tyro.conf.Positional[Path]
    """The packed model."""
    batch: int = 1
    """Images in a batch."""
    threads: int | None = None
    """Threads for everyone; all cores by default."""
    rounds: int = 20
    """How often each contender runs."""
    profile: bool = False
    """Also print the time of each layer."""
    json: bool = False
    """Print JSON."""


def main(argv: list[str]) -> int:
    return run(parse(Bench, argv, "skinny bench"))


def run(arguments: Bench) -> int:
    if arguments.batch < 1 or arguments.rounds < 1:
        raise SkinnyError(
            f"cannot time {arguments.rounds} rounds of {arguments.batch} images; "
            "both must be positive"
        )
    net = load(arguments.model, threads=arguments.threads)
    shape = (arguments.batch, *net.input_shape)
    x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    inputs = {next(iter(net.inputs)): x}
    contenders: dict[str, Call] = {"skinny": lambda: net(x, preprocessed=True)}
    missing: dict[str, str] = {}
    for name in installed():
        try:
            contenders[name] = prepare(name, arguments.model, inputs, net.threads)
        except (SkinnyError, ModuleNotFoundError) as problem:
            missing[name] = str(problem)
    seconds = _take_turns(contenders, arguments.rounds)
    best = {name: 1e3 * min(times) for name, times in seconds.items()}
    middle = {name: 1e3 * median(times) for name, times in seconds.items()}
    if arguments.json:
        print(
            json.dumps(
                {
                    "model": str(arguments.model),
                    "batch": arguments.batch,
                    "threads": net.threads,
                    "best_ms": best,
                    "median_ms": middle,
                    "missing": missing,
                }
            )
        )
        return 0
    module = native.extension()
    isa = "NumPy" if module is None else module.isa()
    print(f"batch {arguments.batch}, {net.threads} threads, {isa} kernels")
    width = max(map(len, contenders))
    for name in contenders:
        ratio = (
            "" if name == "skinny" else f"  skinny is {best[name] / best['skinny']:.2f}x as fast"
        )
        print(
            f"{name.ljust(width)}  best {best[name]:9.3f} ms  median {middle[name]:9.3f} ms{ratio}"
        )
    for name, reason in missing.items():
        print(f"{name} was left out: {printable(reason)}")
    if arguments.profile:
        for line in str(net.profile(batch=arguments.batch)).splitlines():
            print(printable(line))
    return 0


def _take_turns(contenders: dict[str, Call], rounds: int) -> dict[str, list[float]]:
    seconds: dict[str, list[float]] = {name: [] for name in contenders}
    for number in range(rounds):
        names = list(contenders)
        for name in names if number % 2 else reversed(names):
            contenders[name]()  # wakes its threads, and lets those of the one before go to sleep
            began = time.perf_counter()
            contenders[name]()
            seconds[name].append(time.perf_counter() - began)
    return seconds
