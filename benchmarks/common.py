"""What every benchmark needs: say what it ran on, and time contenders in turn."""

import os
import platform
import time
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from statistics import median

import numpy as np

from skinny.runtime.layout import compact

THREADS = 2
REST = 0.03  # seconds between contenders: some engines' threads spin for a while after a run
Burst = Callable[[int], list[float]]  # as many calls as asked for, and the seconds of each


def describe_machine(*packages: str, threads: int = THREADS) -> str:
    """Processor, cores and versions, in one line."""
    processor = platform.processor() or platform.machine()
    if Path("/proc/cpuinfo").exists():
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        facts = dict(map(str.strip, line.split(":", 1)) for line in lines if ":" in line)
        flags = next((line for line in lines if line.startswith("flags")), "")
        simd = [name for name in ("avx2", "avx512f") if f" {name}" in flags]
        if "hide_avx512" in os.environ.get("LD_PRELOAD", ""):
            simd.append("what it has beyond these is hidden from all contenders")
        elif "ONEDNN_MAX_CPU_ISA" in os.environ:
            simd.append(
                "AVX-512 switched off in Skinny, torch, OpenVINO and DeepSparse, if they heed "
                "their switches; ONNX Runtime has none"
            )
        named = [facts.get("model name", processor)]
        kinds = {"family": "cpu family", "model": "model"}  # of x86; others are named whole
        named += [f"{kind} {facts[key]}" for kind, key in kinds.items() if key in facts]
        processor = f"{', '.join(named)} ({', '.join(simd) or 'no AVX2'})"
    found = []
    for package in packages:
        try:
            found.append(f"{package} {version(package)}")
        except PackageNotFoundError:
            found.append(f"{package} not installed")
    return (
        f"{processor}, {os.cpu_count()} cores, threads used: {threads}, "
        f"Python {platform.python_version()}, {', '.join(found)}"
    )


def describe_barrier() -> str:
    """What a barrier between the steps of a network takes: virtual processors may be moved to cores
    without a cache in common, and back, and one image on two threads is then slower."""
    from skinny._native import Activation, ActivationKind, Engine, Mode

    steps, size = 400, 16
    engine, first = Engine(), compact((size,))
    engine.begin(mode=Mode.single, positions=2 * size, source=first, target=first)
    views = [first, first._replace(offset=size)]
    for i in range(steps):
        source, target = views[i % 2], views[1 - i % 2]
        none = Activation(ActivationKind.none)
        engine.add_activate(mode=Mode.single, source=source, target=target, activation=none)
    engine.begin(mode=Mode.tail, positions=size, source=first, target=first)
    x, y = np.ones(size, np.float32), np.empty((1, size), np.float32)
    seconds = []
    for _ in range(400):
        began = time.perf_counter()
        engine.run_floats(x=x, y=y, threads=THREADS, timed=False)
        seconds.append(time.perf_counter() - began)
    # Not the best one: a call before the other thread is awake waits for nobody.
    return f"a barrier of {THREADS} threads takes {1e9 * median(seconds) / steps:.0f} ns"


def interleave(contenders: dict[str, Callable[[], object]], rounds: int) -> dict[str, list[float]]:
    """Seconds per call, one list per contender; every round calls each of them once, in turn.

    A slow moment of the machine then hits all of them. One unmeasured round comes first. The order
    alternates, so that nobody always runs in another's wake.
    """
    seconds: dict[str, list[float]] = {name: [] for name in contenders}
    for number in range(rounds + 1):
        names = list(contenders) if number % 2 else list(reversed(contenders))
        for name in names:
            began = time.perf_counter()
            contenders[name]()
            if number:
                seconds[name].append(time.perf_counter() - began)
    return seconds


def report(title: str, seconds: dict[str, list[float]], against: str) -> str:
    """A table of best and median milliseconds, and ratios to one contender (best to best)."""
    base = min(seconds[against])
    width = max(map(len, seconds))
    rounds = len(seconds[against])
    lines = [f"{title} (best and median of {rounds} interleaved rounds)"]
    for name, times in seconds.items():
        lines.append(
            f"  {name.ljust(width)}  best {1000 * min(times):9.2f} ms  "
            f"median {1000 * median(times):9.2f} ms  {min(times) / base:6.3f}x of {against}"
        )
    return "\n".join(lines)


def burst(run: Callable[[], object]) -> Burst:
    def call(calls: int) -> list[float]:
        seconds = []
        for _ in range(calls):
            began = time.perf_counter()
            run()
            seconds.append(time.perf_counter() - began)
        return seconds

    return call


def bursts(contenders: dict[str, Burst], rounds: int, calls: int) -> dict[str, list[float]]:
    """Seconds of every call of each contender, in turns; the first of each burst is a warm-up."""
    seconds: dict[str, list[float]] = {name: [] for name in contenders}
    for number in range(rounds):
        names = list(contenders)
        for name in names if number % 2 else reversed(names):
            time.sleep(REST)
            seconds[name] += contenders[name](calls + 1)[1:]
    return seconds


def best_of_bursts(contenders: dict[str, Burst], rounds: int, calls: int) -> dict[str, float]:
    """Milliseconds of each contender's best call."""
    return {name: 1e3 * min(times) for name, times in bursts(contenders, rounds, calls).items()}


def check_equal(name: str, result: np.ndarray, expected: np.ndarray) -> None:
    """Everyone computes the same, or there is nothing to compare."""
    error = np.abs(result.reshape(expected.shape) - expected).max() / np.abs(expected).max()
    if not error < 1e-3:
        raise RuntimeError(f"{name} computes something else: relative error {error:.1e}")


def row(title: str, *cells: str, width: int = 12) -> str:
    return title.ljust(30) + "".join(cell.rjust(width) for cell in cells)
