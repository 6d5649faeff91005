"""The kernels for AVX-VNNI give the bits of the reference, on processors without it as well: there
the kernel's one new instruction is emulated when the processor faults at it (avx_vnni.c)."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from skinny import native

HERE = Path(__file__).parent
SOME = "shape2- or shape3- or shape8- or tokens_of or through_pooling"  # a fault takes microseconds


@pytest.mark.skipif(
    native.extension() is None or "avx2" not in native.extension().isas(), reason="needs AVX2"
)
@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")
def test_layers_give_the_bits_of_the_reference(tmp_path):
    library = tmp_path / "avx_vnni.so"
    source = HERE / "avx_vnni.c"
    subprocess.run(["cc", "-O2", "-shared", "-fPIC", "-o", library, source], check=True)
    variables = {"SKINNY_ISA": "avx2", "SKINNY_VNNI": "1", "SKINNY_TEST_INT8": "1"}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "-p", "no:xdist",
         "-p", "no:faulthandler",
         HERE / "test_int8.py", "-k", SOME],
        env={**os.environ, **variables, "LD_PRELOAD": str(library)},
        capture_output=True,
        text=True,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    emulated = re.search(r"vpdpbusd: (\d+) emulated", done.stderr)
    assert emulated is not None
    there = "avx_vnni" in Path("/proc/cpuinfo").read_text()
    assert there or int(emulated[1]) > 1000
