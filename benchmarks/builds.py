"""This build against another one of our own, on the cases of the benchmark `inference`.

    python -m benchmarks builds --before CHECKOUT [--quick] [--only "batch 1"]

CHECKOUT is another working tree of this repository, built in place (`make native`). Each build runs
in a process of its own, on the same files and inputs, with two threads and what SKINNY_ISA says;
they take turns in bursts. The other build packs the files, since today's reads all that it writes.
"""

import argparse
import json
import os
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from benchmarks.common import THREADS, Burst, best_of_bursts, check_equal, describe_machine, row
from benchmarks.inference import CASES, IMAGES, TRAINED
from skinny import native

HERE = Path(__file__).parents[1]
WORKER = Path(__file__).parent / "peers" / "build_worker.py"


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--before", type=Path, help="another checkout, built in place")
    parser.add_argument("--quick", action="store_true", help="fewer rounds")
    parser.add_argument("--only", default="", help="the cases whose name has this in it")
    options = parser.parse_args([] if arguments is None else arguments)
    if options.before is None:
        print("needs --before CHECKOUT, another working tree, built in place")
        return
    rounds = 4 if options.quick else 15
    module = native.extension()
    print(describe_machine("numpy"))
    print(f"now: {_commit(HERE)}; before: {_commit(options.before)}")
    print(f"kernels: {'NumPy' if module is None else module.isa()}")
    print(f"best of {rounds} interleaved bursts, milliseconds; ratios of the best\n")
    print(row("case", "before", "now", "ratio"))
    with tempfile.TemporaryDirectory() as folder:
        for number, case in enumerate(CASES):
            title = f"{case.model} {case.sparsity:.0%} batch {case.batch}"
            if options.only in title:
                path = _pack(options.before, number, folder)
                shape = (case.batch, *IMAGES[case.model])
                _run(title, path, shape, case.calls, rounds, options.before)
        for batch in (64, 1):
            title = f"{TRAINED.stem} batch {batch}"
            if options.only in title:
                _run(title, TRAINED, (batch, 3, 32, 32), 20, rounds, options.before)


def _pack(checkout: Path, number: int, folder: str) -> Path:
    """A case of this benchmark, packed by a build."""
    source = (
        "import pathlib; from benchmarks.inference import CASES, pack_case; "
        f"print(pack_case(CASES[{number}], pathlib.Path({folder!r})))"
    )
    packed = subprocess.run(
        [*_python(checkout), "-c", source],
        env=_environment(checkout),
        check=True,
        text=True,
        stdout=subprocess.PIPE,
    )
    return Path(packed.stdout.strip())


def _python(checkout: Path) -> list[str]:
    """Without `site` for another checkout: this one, where it is installed in place, would be found
    before PYTHONPATH."""
    return [sys.executable] if checkout == HERE else [sys.executable, "-S"]


def _environment(checkout: Path) -> dict[str, str]:
    """One in which Skinny is a checkout's, and the benchmarks are these."""
    paths = (f"{checkout.resolve()}/src", str(HERE), sysconfig.get_path("purelib"))
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}


def _run(
    title: str, path: Path, shape: tuple[int, ...], calls: int, rounds: int, before: Path
) -> None:
    x = np.random.default_rng(0).standard_normal(shape, np.float32)
    with _worker(before, path, x) as (then, expected), _worker(HERE, path, x) as (now, found):
        check_equal("this build", found, expected)
        best = best_of_bursts({"before": then, "now": now}, rounds, calls)
    times = f"{best['before'] / best['now']:.2f}"
    print(row(title, f"{best['before']:.3f}", f"{best['now']:.3f}", times), flush=True)


@contextmanager
def _worker(checkout: Path, path: Path, x: np.ndarray) -> Iterator[tuple[Burst, np.ndarray]]:
    """A build's bursts, in a process of their own, and its output."""
    with tempfile.TemporaryDirectory() as folder:
        batch, output = Path(folder) / "x.npy", Path(folder) / "y.npy"
        np.save(batch, x)
        with subprocess.Popen(
            [*_python(checkout), WORKER, path, batch, output, str(THREADS)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=_environment(checkout),
        ) as process:
            assert process.stdin is not None
            assert process.stdout is not None
            ready = process.stdout.readline()
            if not ready or not Path(json.loads(ready)).is_relative_to(checkout.resolve()):
                raise RuntimeError(f"the build in {checkout} does not run {path.name}")
            yield lambda calls: _ask(process, calls), np.load(output)
            process.stdin.close()


def _ask(worker: subprocess.Popen[str], calls: int) -> list[float]:
    assert worker.stdin is not None
    assert worker.stdout is not None
    print(calls, file=worker.stdin, flush=True)
    seconds: list[float] = json.loads(worker.stdout.readline())
    return seconds


def _commit(checkout: Path) -> str:
    found = subprocess.run(
        ["git", "-C", checkout, "describe", "--always", "--dirty"], capture_output=True, text=True
    )
    return found.stdout.strip() or str(checkout)


if __name__ == "__main__":
    main(sys.argv[1:])
