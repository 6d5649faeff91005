"""A network does not depend on its file once it is loaded."""

import os
import shutil
import subprocess
import sys

import numpy as np
import pytest
from runtime_builder import Builder
from runtime_cases import CASES

from skinny import _native, packing
from skinny.packing import ChecksumError
from skinny.runtime import kernel_weights, load

CHANGES = {
    "truncated": lambda path, other: os.truncate(path, 100),
    "emptied": lambda path, other: os.truncate(path, 0),
    "overwritten in place, as cp does": lambda path, other: shutil.copyfile(other, path),
    "replaced, as mv does": lambda path, other: os.replace(other, path),
    "deleted": lambda path, other: os.unlink(path),
}


def write(path, seed: int) -> Builder:
    builder = Builder(3, 12, 12, seed=seed)
    builder.conv(3, 8, (3, 3), padding=(1, 1))
    builder.batch_norm(8)
    builder.add("relu")
    builder.conv(8, 6)
    builder.add("flatten", start=1, end=-1)
    builder.linear(6 * 12 * 12, 10, sparsity=0.8)
    packing.write(path, builder.tensors, graph=builder.graph())
    return builder


SCRIPT = """
import sys
import numpy as np
from pathlib import Path
sys.path.insert(0, sys.argv[2])
import test_file_changes as tests
for number, (name, change) in enumerate(tests.CHANGES.items()):
    print(name, flush=True)
    path, other = (Path(sys.argv[1]) / f"{file}-{number}" for file in ("net", "other"))
    builder = tests.write(path, 0)
    tests.write(other, 1)
    batches = [builder.batch(images) for images in (1, 3, 17)]
    before = [tests.load(path)(x) for x in batches]
    net = tests.load(path)
    assert np.array_equal(net(batches[0]), before[0])
    change(path, other)
    for x, wanted in zip(batches, before):
        assert np.array_equal(net(x), wanted)
"""


@pytest.mark.parametrize("native", ["1", "0"])
def test_a_file_that_changes_does_not_change_a_loaded_network(native, tmp_path):
    """In a process of its own: to read a truncated file that is mapped ends the process."""
    helpers = tmp_path / "helpers"
    helpers.mkdir()
    here = os.path.dirname(__file__)
    shutil.copy(__file__, helpers / "test_file_changes.py")
    for name in ("builder", "cases"):
        shutil.copy(os.path.join(here, f"{name}.py"), helpers / f"runtime_{name}.py")
    run = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(tmp_path), str(helpers)],
        env={**os.environ, "SKINNY_NATIVE": native},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stdout + run.stderr[-2000:]
    assert run.stdout.splitlines() == list(CHANGES)


@pytest.mark.parametrize("change", ["truncated", "overwritten in place, as cp does"])
def test_low_memory_notices_a_file_that_changes(change, tmp_path, monkeypatch):
    """It reads large weights again for every batch, so the file must stay as it is."""
    monkeypatch.setattr("skinny.packing.codec.SMALL", -1)
    path, other = tmp_path / "net.skinny", tmp_path / "other.skinny"
    builder = write(path, 0)
    write(other, 1)
    net = load(path, low_memory=True)
    net(builder.batch(3))
    CHANGES[change](path, other)
    with pytest.raises(ChecksumError, match=r"net\.skinny"):
        net(builder.batch(3))


def test_low_memory_keeps_reading_a_file_that_was_replaced(tmp_path):
    path, other = tmp_path / "net.skinny", tmp_path / "other.skinny"
    builder = write(path, 0)
    write(other, 1)
    net = load(path, low_memory=True)
    before = net(builder.batch(3))
    CHANGES["replaced, as mv does"](path, other)
    np.testing.assert_array_equal(net(builder.batch(3)), before)


@pytest.mark.parametrize("name", ["nin", "alexnet", "normalised"])
def test_weights_are_read_once_and_shared_by_all_batch_modes(name, tmp_path, monkeypatch):
    builder = CASES[name]()
    path = tmp_path / "net.skinny"
    packing.write(path, builder.tensors, graph=builder.graph())
    made, read = [], []

    def preadv(*arguments, preadv=os.preadv):
        read.append(arguments)
        return preadv(*arguments)

    class ConvWeights(_native.ConvWeights):
        def __init__(self, **arguments):
            super().__init__(**arguments)
            made.append(self)

    monkeypatch.setattr(os, "preadv", preadv)
    monkeypatch.setattr(kernel_weights, "ConvWeights", ConvWeights)
    net = load(path, threads=2)
    done = len(read)
    for images in (1, 3, 17, 64):
        net(builder.batch(images))
    assert len(made) == sum(node["op"] == "conv" for node in builder.nodes)
    assert len(read) == done
