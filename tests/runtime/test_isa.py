"""Every instruction set this machine has computes the same, the plain one included."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from skinny import native

HERE = Path(__file__).parent
FILES = [
    *(HERE / f"test_{name}.py" for name in ("kernels", "pooling", "in_place")),
    *sorted(HERE.glob("test_tensor_*.py")),
]


def others() -> list[str]:
    """All that the machine has but the one which these files run with by themselves."""
    module = native.extension()
    return [] if module is None else [isa for isa in module.isas() if isa != module.isa()]


@pytest.mark.parametrize("isa", others())
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
