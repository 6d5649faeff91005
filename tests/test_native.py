"""The compiled kernels: found or done without, chosen by instruction set and number of threads."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from skinny import native
from skinny.errors import SkinnyError

ROUND_TRIP = """
import sys, warnings
import numpy as np
{prepare}
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    from skinny import native, packing
    array = np.where(np.arange(3000) % 10, 0, 1.5).astype(np.float32)
    for _ in range(2):
        packing.write(sys.argv[1], {{"w": array}})
        with packing.open(sys.argv[1]) as file:
            assert np.array_equal(file.read("w"), array)
            assert file.entry("w").form == "entropy"
assert native.extension() is None
print(*[warning.message for warning in caught], sep="\\n")
"""


NETWORK = """
import sys, warnings
import numpy as np
{prepare}
warnings.simplefilter("ignore")
from skinny import packing
from skinny.runtime import load
weights = np.eye(3, dtype=np.float32)
nodes = [{{"op": "linear", "inputs": ["x"], "output": "y", "weight": "w", "bias": None}}]
inputs = [{{"name": "x", "shape": [None, 3], "dtype": "float32"}}]
graph = {{"inputs": inputs, "nodes": nodes, "outputs": ["y"]}}
packing.write(sys.argv[1], {{"w": weights}}, graph=graph)
print(load(sys.argv[1])(weights).trace())
"""

# Encodes more than fits into the memory that is left.
OUT_OF_MEMORY = """
import resource, sys
import numpy as np
from skinny import _native
data = np.random.default_rng(0).integers(0, 256, 1 << 25, dtype=np.uint8)
blocks = data.size >> 14
states, counts = np.zeros(blocks, np.uint64), np.zeros(blocks, np.uint16)
frequencies = np.array({frequencies}, np.uint32)
with open("/proc/self/statm") as statm:
    used = int(statm.read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + (24 << 20),) * 2)
try:
    _native.{encode}(data, frequencies, states, counts, 2)
except MemoryError:
    print("MemoryError")
"""


def run(tmp_path, prepare="", program=ROUND_TRIP, **environment):
    program = program.format(prepare=prepare)
    return subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "file")],
        env=os.environ | environment,
        capture_output=True,
        text=True,
    )


def test_without_the_extension_all_works_slowly_and_is_told_once(tmp_path):
    done = run(tmp_path, "sys.modules['skinny._native'] = None")
    assert done.returncode == 0, done.stderr
    (line,) = done.stdout.strip().splitlines()
    assert "will be slow" in line
    assert "C++ compiler" in line


def test_the_extension_can_be_left_out_on_purpose_and_in_silence(tmp_path):
    done = run(tmp_path, SKINNY_NATIVE="0")
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == ""


def test_a_network_runs_without_the_extension(tmp_path):
    done = run(tmp_path, "sys.modules['skinny._native'] = None", NETWORK)
    assert done.stdout.strip() == "3.0", done.stderr


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs /proc")
@pytest.mark.parametrize(
    ("encode", "frequencies"),
    [("symbols_encode", [64] * 256), ("entropy_encode", [[1821] * 8 + [1816]])],
)
def test_an_encoder_that_runs_out_of_memory_raises(encode, frequencies):
    pytest.importorskip("skinny._native", reason="the native extension was not built")
    program = OUT_OF_MEMORY.format(encode=encode, frequencies=frequencies)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout.strip() == "MemoryError", done.stderr


def test_kernels_are_compiled_for_the_instructions_that_are_checked_for():
    root = Path(__file__).parent.parent
    flags = re.findall(r" -m([a-z0-9]+)\b(?!-)", (root / "CMakeLists.txt").read_text())
    checks = re.findall(r'cpu_supports\("(\w+)"\)', (root / "native" / "isa.cpp").read_text())
    assert sorted(flags) == sorted(checks)


def test_an_instruction_set_that_is_none_is_told():
    pytest.importorskip("skinny._native", reason="the native extension was not built")
    done = subprocess.run(
        [sys.executable, "-c", "from skinny import native; native.extension()"],
        env=os.environ | {"SKINNY_ISA": "mmx"},
        capture_output=True,
        text=True,
    )
    assert SkinnyError.__name__ in done.stderr
    assert "may be baseline, neon, avx2 or avx512" in done.stderr


def test_instructions_that_the_processor_lacks_are_refused():
    module = pytest.importorskip("skinny._native", reason="the native extension was not built")
    for name in {"neon", "avx2", "avx512"} - set(module.isas()):
        done = subprocess.run(
            [sys.executable, "-c", "from skinny import native; native.extension()"],
            env=os.environ | {"SKINNY_ISA": name},
            capture_output=True,
            text=True,
        )
        assert f"SKINNY_ISA={name} asks for instructions this CPU does not have" in done.stderr


@pytest.mark.parametrize(("wish", "threads"), [("3", 3), ("1", 1)])
def test_the_number_of_threads_can_be_chosen(monkeypatch, wish, threads):
    monkeypatch.setenv("SKINNY_THREADS", wish)
    assert native.threads() == threads


@pytest.mark.parametrize("wish", ["", "0", "-2", "many"])
def test_otherwise_it_is_the_cores_this_process_may_use(monkeypatch, wish):
    monkeypatch.setenv("SKINNY_THREADS", wish)
    assert 1 <= native.threads() <= (os.cpu_count() or 1)
