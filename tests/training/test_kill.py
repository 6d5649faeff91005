"""kill -9 at the worst moments: the same command again ends with the very same weights."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest
import torch

from skinny.training import RunFolder, checkpoint

COMMAND = [
    "train", "demo", "--epochs", "6", "--dense", "1", "--sparse", "2", "--width", "0.25",
    "--train-size", "200", "--test-size", "60", "--threads", "1", "--device", "cpu",
]  # fmt: skip
TIMEOUT = 600  # seconds until a hanging test is given up

# Forks a process for every command that it is sent. Importing libraries and taking the network's
# graph take longer than anything else here, so that they are done once.
FORKS = """
import dataclasses, gc, json, os, signal, sys
import torch
import skinny.cli.train
from skinny.export import model
from skinny.export.examples import Examples
from skinny.training import figures, recipe
from skinny.training.session import make_model

torch.set_num_threads(1)  # so that no thread is lost in a fork
network = make_model(dataclasses.replace(recipe("demo"), width=0.25), 10, 1)
graph = model.take_graph(network, Examples(network, torch.zeros(1, 1, 8, 8)))
model.take_graph = lambda network, examples: graph

figures.draw = lambda folder: []  # which is tested elsewhere

timeout = int(sys.argv[1])
gc.freeze()  # a collection in a child would copy all of this memory

for line in sys.stdin:
    script, output, argv = json.loads(line)
    child = os.fork()
    if child == 0:
        file = os.open(output, os.O_WRONLY | os.O_CREAT)
        os.dup2(file, 1)
        os.dup2(file, 2)
        sys.argv = argv
        signal.alarm(timeout)  # which ends a child that hangs
        exec(script, {"__name__": "__main__"})
        sys.exit()
    print(child, flush=True)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""
COMMAND_LINE = "import sys; from skinny.cli.main import main; sys.exit(main())"


class Forks:
    """Processes as `subprocess.Popen` would start them, one at a time."""

    def __init__(self):
        self._server = subprocess.Popen(
            [sys.executable, "-c", FORKS, str(TIMEOUT)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def start(self, runs, script=COMMAND_LINE, *extra):
        self._output = runs.with_name(f"{runs.name}-output")
        self._output.unlink(missing_ok=True)
        argv = ["skinny", *extra, *COMMAND, "--runs", str(runs)]
        self._server.stdin.write(json.dumps([script, str(self._output), argv]) + "\n")
        self._server.stdin.flush()
        return int(self._server.stdout.readline())

    def finish(self):
        """Exit code and output."""
        code = int(self._server.stdout.readline())
        return code, self._output.read_text()

    def run(self, *arguments):
        self.start(*arguments)
        return self.finish()

    def stop(self):
        self._server.communicate(timeout=TIMEOUT)


@pytest.fixture(scope="module")
def forks():
    made = Forks()
    yield made
    made.stop()


def only_folder(runs):
    (path,) = runs.iterdir()
    return RunFolder(path)


def final_weights(runs):
    folder = only_folder(runs)
    assert folder.result() is not None
    return checkpoint.load(folder.checkpoints, pytest.fail, dict)["session"]["model"]


def assert_same(a, b):
    assert a.keys() == b.keys()
    assert all(torch.equal(a[name], b[name]) for name in a)


@pytest.fixture(scope="module")
def uninterrupted(forks, tmp_path_factory):
    runs = tmp_path_factory.mktemp("whole")
    code, output = forks.run(runs)
    assert code == 0, output
    return final_weights(runs)


# Counts optimizer steps and kills itself, as kill -9 would, right after the one asked for.
KILLS_ITSELF_AT_STEP = """
import os, signal, sys
from torch.optim.optimizer import register_optimizer_step_post_hook
from skinny.cli.main import main
from skinny.training import loop

target, steps, sessions = int(sys.argv.pop(1)), 0, []
build = loop.build
loop.build = lambda *args, **kwargs: sessions.append(build(*args, **kwargs)) or sessions[0]

def count(*_):
    global steps
    steps += 1
    if steps == target:
        print("killed in a", sessions[0].iht.span.phase, "span", flush=True)
        os.kill(os.getpid(), signal.SIGKILL)

register_optimizer_step_post_hook(count)
sys.exit(main())
"""


@pytest.mark.parametrize(("step", "phase"), [(6, "sparse"), (14, "dense"), (22, "sparse")])
def test_killed_in_any_span_it_goes_on_exactly(tmp_path, forks, uninterrupted, step, phase):
    """Epochs have four steps, and the spans are D1 S2 D1 S2: killed in the midst of an epoch."""
    code, output = forks.run(tmp_path, KILLS_ITSELF_AT_STEP, str(step))
    assert code == -signal.SIGKILL
    assert output.splitlines()[-1] == f"killed in a {phase} span"
    assert only_folder(tmp_path).result() is None
    code, output = forks.run(tmp_path)
    assert code == 0, output
    assert "going on in" in output
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
def test_killed_while_writing_a_checkpoint_it_goes_on_exactly(tmp_path, forks, uninterrupted):
    assert forks.run(tmp_path, KILLS_ITSELF)[0] == -signal.SIGKILL
    assert len(only_folder(tmp_path).metrics()) == 3  # the third checkpoint was being written
    assert len(list(tmp_path.rglob("*.tmp"))) == 1
    code, output = forks.run(tmp_path)
    assert code == 0, output
    assert not list(tmp_path.rglob("*.tmp"))
    assert_same(final_weights(tmp_path), uninterrupted)


# A shell's background jobs, and so all of these tests when they are one, ignore Ctrl-C.
HEARS_CTRL_C = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
from skinny.cli.main import main
sys.exit(main())
"""


def test_interrupted_by_ctrl_c_it_says_so_in_one_line(tmp_path, forks):
    process = forks.start(tmp_path, HEARS_CTRL_C)
    deadline = time.monotonic() + TIMEOUT
    while not (any(tmp_path.iterdir()) and only_folder(tmp_path).metrics()):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    os.kill(process, signal.SIGINT)
    code, output = forks.finish()
    assert code == 130
    assert output.splitlines()[-1] == "skinny: interrupted; run the same command again to go on"
    assert "Traceback" not in output


FULL_DISK = """
import resource, signal, sys
from skinny.cli.main import main

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # past the limit a write just fails
limit = int(sys.argv.pop(1))
resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
sys.exit(main())
"""


@pytest.mark.parametrize("limit", [500, 8000])  # the config does not fit; a checkpoint does not
def test_a_full_disk_ends_in_one_line_and_spoils_nothing(tmp_path, forks, uninterrupted, limit):
    code, output = forks.run(tmp_path, FULL_DISK, str(limit))
    assert code == 1
    assert "cannot write to" in output.splitlines()[-1]
    assert "run the same command again" in output.splitlines()[-1]
    assert not any("Traceback" in line for line in output.splitlines())
    assert not list(tmp_path.rglob("*.tmp"))
    code, output = forks.run(tmp_path)
    assert code == 0, output
    assert_same(final_weights(tmp_path), uninterrupted)
