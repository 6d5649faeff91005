"""The compiled kernels: found or done without, chosen by instruction set and number of threads."""

import os
import subprocess
import sys

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


def run(tmp_path, prepare="", **environment):
    program = ROUND_TRIP.format(prepare=prepare)
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


def test_an_instruction_set_that_is_none_is_told():
    pytest.importorskip("skinny._native", reason="the native extension was not built")
    done = subprocess.run(
        [sys.executable, "-c", "from skinny import native; native.extension()"],
        env=os.environ | {"SKINNY_ISA": "mmx"},
        capture_output=True,
        text=True,
    )
    assert SkinnyError.__name__ in done.stderr
    assert "may be baseline, avx2 or avx512" in done.stderr


@pytest.mark.parametrize(("wish", "threads"), [("3", 3), ("1", 1)])
def test_the_number_of_threads_can_be_chosen(monkeypatch, wish, threads):
    monkeypatch.setenv("SKINNY_THREADS", wish)
    assert native.threads() == threads


@pytest.mark.parametrize("wish", ["", "0", "-2", "many"])
def test_otherwise_it_is_the_cores_this_process_may_use(monkeypatch, wish):
    monkeypatch.setenv("SKINNY_THREADS", wish)
    assert 1 <= native.threads() <= (os.cpu_count() or 1)
