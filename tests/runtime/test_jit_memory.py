"""The memory of generated code: who has some, what it may do, and when it goes."""

import gc
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from runtime_builder import Builder

from skinny import packing
from skinny.runtime import load, reference
from skinny.runtime.network import Network

_native = pytest.importorskip("skinny._native", reason="the native extension was not built")


def network(tmp_path):
    """A convolution and a chained one, wide enough that code is worth it."""
    builder = Builder(16, 23, 29)
    builder.conv(16, 24, (3, 3), padding=(1, 1))
    builder.add("relu")
    builder.conv(24, 30)
    path = tmp_path / "net.skinny"
    packing.write(path, builder.tensors, graph=builder.graph())
    return builder, path


def test_low_memory_makes_no_code(tmp_path):
    builder, path = network(tmp_path)
    with packing.open(path) as file:
        net = Network(file, low_memory=True)
        gc.collect()
        code = _executable_mappings()
        net(builder.batch(1))
        assert _executable_mappings() == code


def _executable_mappings() -> set[tuple[str, str]]:
    """Address and permissions of memory that is executable and no file's."""
    maps = Path("/proc/self/maps")
    if not maps.exists():
        pytest.skip("needs /proc")
    fields = [line.split() for line in maps.read_text().splitlines()]
    return {(f[0], f[1]) for f in fields if "x" in f[1] and len(f) == 5}


def test_code_is_never_writable_and_goes_with_its_network(tmp_path):
    if _native.isa() not in ("avx2", "avx512"):
        pytest.skip(f"{_native.isa()} has no generated code")
    builder, path = network(tmp_path)
    gc.collect()
    before = _executable_mappings()
    net = load(path, threads=1)
    net(builder.batch(1))
    made = _executable_mappings() - before
    assert made
    assert all("w" not in permissions for _, permissions in made)
    del net
    gc.collect()
    assert _executable_mappings() == before


def test_the_code_of_many_layers_lies_together(tmp_path):
    if _native.isa() != "avx512":
        pytest.skip("needs code of several huge pages")
    builder = Builder(600, 5, 5)
    for _ in range(16):
        builder.conv(600, 600, sparsity=0.6)
        builder.add("relu")
    path = tmp_path / "large.skinny"
    packing.write(path, builder.tensors, graph=builder.graph())
    gc.collect()
    before = _executable_mappings()
    net = load(path, threads=2)
    sizes = [int(a, 16) - int(b, 16) for m, _ in _executable_mappings() - before
             for b, a in [m.split("-")]]  # fmt: skip
    assert 1 < len(sizes) < 8  # of huge and of small pages
    assert sum(sizes) > 16 << 20  # more than is written together
    x = builder.batch(1)
    wanted = reference.run(builder.graph(), builder.tensors.__getitem__, x)[0]
    np.testing.assert_allclose(net(x), wanted, rtol=1e-3, atol=1e-3)


REFUSING = """
import ctypes, sys
import numpy as np
from skinny.runtime import load
libc = ctypes.CDLL(None, use_errno=True)
if libc.prctl(65, 1, 0, 0, 0):  # PR_SET_MDWE, PR_MDWE_REFUSE_EXEC_GAIN
    print("cannot be refused")
    sys.exit()
net = load(sys.argv[1], threads=1)
x = np.load(sys.argv[2])
assert not any(row.code_bytes for row in net.profile(batch=1, repeats=1).rows)
np.save(sys.argv[3], net(x))
print("refused")
"""


def test_without_executable_memory_kernels_interpret(tmp_path):
    builder, path = network(tmp_path)
    x = builder.batch(2)
    np.save(tmp_path / "x.npy", x)
    run = subprocess.run(
        [sys.executable, "-c", REFUSING, path, tmp_path / "x.npy", tmp_path / "y.npy"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    if "cannot" in run.stdout:
        pytest.skip("this kernel has no PR_SET_MDWE")
    wanted = reference.run(builder.graph(), builder.tensors.__getitem__, x)[0]
    np.testing.assert_allclose(np.load(tmp_path / "y.npy"), wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_runs_its_parents_code(tmp_path):
    builder, path = network(tmp_path)
    script = (
        "import os, sys, numpy as np\n"
        "from skinny.runtime import load\n"
        "net, x = load(sys.argv[1], threads=1), np.load(sys.argv[2])\n"
        "y = net(x)\n"
        "child = os.fork()\n"
        "if child == 0: os._exit(0 if np.array_equal(net(x), y) else 1)\n"
        "sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))\n"
    )
    np.save(tmp_path / "x.npy", builder.batch(9))
    run = [sys.executable, "-c", script, path, tmp_path / "x.npy"]
    assert subprocess.run(run, check=False).returncode == 0
