"""kill -9 at the worst moments: the same command again ends with the very same weights."""

import os
import signal
import subprocess
import sys
import time

import pytest
import torch

from skinny.training import RunFolder, checkpoint

COMMAND = [
    "train", "demo", "--epochs", "6", "--s1", "1", "--s2", "2", "--width", "0.25",
    "--train-size", "200", "--threads", "1", "--device", "cpu",
]  # fmt: skip
TIMEOUT = 120  # seconds until a hanging test is given up


def start(runs, script="import sys; from skinny.cli.main import main; sys.exit(main())"):
    return subprocess.Popen(
        [sys.executable, "-c", script, *COMMAND, "--runs", str(runs)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def finish(process):
    output, _ = process.communicate(timeout=TIMEOUT)
    return process.returncode, output


def only_folder(runs):
    (path,) = runs.iterdir()
    return RunFolder(path)


def final_weights(runs):
    folder = only_folder(runs)
    assert folder.result() is not None
    return checkpoint.load(folder.checkpoints, pytest.fail)["session"]["model"]


def assert_same(a, b):
    assert a.keys() == b.keys()
    assert all(torch.equal(a[name], b[name]) for name in a)


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory):
    runs = tmp_path_factory.mktemp("whole")
    code, output = finish(start(runs))
    assert code == 0, output
    return final_weights(runs)


def test_killed_in_a_dense_and_in_a_sparse_span_it_goes_on_exactly(tmp_path, uninterrupted):
    """One run, killed from outside after epoch 1 (dense span over) and after epoch 4 (dense)."""
    killed_in = []
    for wait_for in (2, 4):  # epochs on record: then a sparse, then a dense span is under way
        process = start(tmp_path)
        deadline = time.monotonic() + TIMEOUT
        while time.monotonic() < deadline:
            metrics = only_folder(tmp_path).metrics() if any(tmp_path.iterdir()) else []
            if len(metrics) >= wait_for:
                break
            assert process.poll() is None, process.communicate()[0]
        process.send_signal(signal.SIGKILL)
        assert finish(process)[0] == -signal.SIGKILL
        killed_in.append(only_folder(tmp_path).metrics()[-1]["phase"])
    code, output = finish(start(tmp_path))
    assert code == 0, output
    assert "going on in" in output
    assert set(killed_in) == {"dense", "sparse"}
    assert_same(final_weights(tmp_path), uninterrupted)


KILLS_ITSELF = """
import os, signal, sys
from skinny.cli.main import main

real, calls = os.fsync, 0

def fsync(descriptor):
    global calls
    if os.readlink(f"/proc/self/fd/{descriptor}").endswith(".tmp") and "fresh.pt" in os.readlink(
        f"/proc/self/fd/{descriptor}"
    ):
        calls += 1
        if calls == 3:
            os.ftruncate(descriptor, 1000)  # half-written, as it may be found after the kill
            os.kill(os.getpid(), signal.SIGKILL)
    real(descriptor)

os.fsync = fsync
sys.exit(main())
"""


@pytest.mark.skipif(not os.path.exists("/proc/self/fd"), reason="finds open files in /proc")
def test_killed_while_writing_a_checkpoint_it_goes_on_exactly(tmp_path, uninterrupted):
    assert finish(start(tmp_path, KILLS_ITSELF))[0] == -signal.SIGKILL
    assert len(only_folder(tmp_path).metrics()) == 3  # the third checkpoint was being written
    code, output = finish(start(tmp_path))
    assert code == 0, output
    assert_same(final_weights(tmp_path), uninterrupted)


def test_interrupted_by_ctrl_c_it_says_so_in_one_line(tmp_path):
    process = start(tmp_path)
    while not (any(tmp_path.iterdir()) and only_folder(tmp_path).metrics()):
        assert process.poll() is None
    process.send_signal(signal.SIGINT)
    code, output = finish(process)
    assert code == 130
    assert output.splitlines()[-1] == "skinny: interrupted; run the same command again to go on"
    assert "Traceback" not in output


FULL_DISK = """
import resource, signal, sys
from skinny.cli.main import main

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # past the limit a write just fails
resource.setrlimit(resource.RLIMIT_FSIZE, (8000, 8000))
sys.exit(main())
"""


def test_a_full_disk_ends_in_one_line_and_spoils_nothing(tmp_path, uninterrupted):
    code, output = finish(start(tmp_path, FULL_DISK))
    assert code == 1
    assert "cannot write to" in output.splitlines()[-1]
    assert "run the same command again" in output.splitlines()[-1]
    assert not any("Traceback" in line for line in output.splitlines())
    assert not list((only_folder(tmp_path).path).rglob("*.tmp"))
    code, output = finish(start(tmp_path))
    assert code == 0, output
    assert_same(final_weights(tmp_path), uninterrupted)
