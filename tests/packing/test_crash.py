"""Whatever stops a writer, there is the old file or none, and never half of a new one."""

import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from skinny import packing

WRITE = """
import sys
import numpy as np
from skinny import packing
{prepare}
def layers():
    rng = np.random.default_rng(0)
    for layer in range(40):
        yield f"layer{{layer}}", rng.standard_normal(500_000).astype(np.float32)
        print(layer, flush=True)
try:
    packing.write(sys.argv[1], layers())
    print("done", flush=True)
except packing.FormatError:
    raise
except Exception as error:
    print(type(error).__name__, error)
"""


def start(path, prepare=""):
    return subprocess.Popen(
        [sys.executable, "-c", WRITE.format(prepare=prepare), str(path)],
        stdout=subprocess.PIPE,
        text=True,
    )


def is_whole(path, old):
    with packing.open(path) as file:
        file.verify()
        assert file.names in ([f"layer{i}" for i in range(40)], ["old"] if old else None)


@pytest.mark.parametrize("old", [True, False], ids=["over an old file", "with no file before"])
@pytest.mark.parametrize("moment", ["first layer", "last layer", "saving"])
def test_kill_9_leaves_the_old_file_or_none(tmp_path, old, moment):
    path = tmp_path / "model.skinny"
    if old:
        packing.write(path, {"old": np.ones(10)})
    process = start(path)
    lines = {"first layer": 1, "last layer": 39, "saving": 40}[moment]
    for _ in range(lines):
        process.stdout.readline()
    if moment == "saving":
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()
    if old or path.exists():
        is_whole(path, old)


@pytest.mark.parametrize("limit", [1_000_000, 80_003_000], ids=["early", "while saving"])
@pytest.mark.parametrize("old", [True, False], ids=["over an old file", "with no file before"])
def test_a_full_disk_is_told_and_leaves_the_old_file_or_none(tmp_path, old, limit):
    """A limit on file sizes stands in for the disk: writing fails at the same places."""
    path = tmp_path / "model.skinny"
    if old:
        packing.write(path, {"old": np.ones(10)})
    prepare = (
        "import resource, signal\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        f"resource.setrlimit(resource.RLIMIT_FSIZE, ({limit}, {limit}))"
    )
    process = start(path, prepare)
    last = process.communicate()[0].splitlines()[-1]
    assert last.startswith("SkinnyError cannot write")
    assert "File too large" in last
    assert os.listdir(tmp_path) == (["model.skinny"] if old else [])
    if old:
        is_whole(path, old)
