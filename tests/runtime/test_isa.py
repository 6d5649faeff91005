"""Every instruction set this machine has computes the same, the plain one included."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from skinny import native

HERE = Path(__file__).parent
FILES = [HERE / "test_kernels.py", *sorted(HERE.glob("test_tensor_*.py"))]


def supported() -> list[str]:
    module = native.extension()
    best = "baseline" if module is None else module.isa()
    sets = ["baseline", "avx2", "avx512"]
    return sets[: sets.index(best) + 1]


@pytest.mark.parametrize("isa", supported())
def test_kernels_equal_the_reference_with(isa):
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist",
         f"--confcutdir={HERE}", *map(str, FILES)],
        env={**os.environ, "SKINNY_ISA": isa},
        capture_output=True,
        text=True,
        check=False,
    )  # fmt: skip
    assert run.returncode == 0, run.stdout[-3000:]
