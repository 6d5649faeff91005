"""The team of threads: calls from several threads, and in forked children."""

import os
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

from skinny.runtime.layout import compact

native = pytest.importorskip("skinny._native", reason="the native extension was not built")
COUNT = 4096


def sigmoid_engine():
    """One image of COUNT features; the whole batch in the tail, a step shared by all threads."""
    engine = native.Engine()
    one, other = compact((COUNT,)), compact((COUNT,))._replace(offset=COUNT)
    engine.begin(mode=native.Mode.single, positions=COUNT, source=one, target=one)
    engine.begin(mode=native.Mode.tail, positions=2 * COUNT, source=one, target=other)
    activation = native.Activation(native.ActivationKind.sigmoid)
    engine.add_activate(mode=native.Mode.tail, source=one, target=other, activation=activation)
    return engine


def run(engine, x, threads):
    y = np.zeros((1, COUNT), np.float32)
    engine.run_floats(x=x, y=y, threads=threads, timed=False)
    return y


@pytest.fixture
def busy():
    """An engine that two threads keep using until the test ends; and its right answer."""
    engine = sigmoid_engine()
    x = np.linspace(-4, 4, COUNT, dtype=np.float32)
    stop = threading.Event()

    def work():
        while not stop.is_set():
            run(engine, x, threads=3)

    workers = [threading.Thread(target=work) for _ in range(2)]
    for worker in workers:
        worker.start()
    yield engine, x, run(sigmoid_engine(), x, threads=1)
    stop.set()
    for worker in workers:
        worker.join()


def finished(child, seconds=30):
    """Whether a child ended by itself, with status 0."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status) == 0
        time.sleep(0.001)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return False


def test_calls_at_the_same_time_do_not_disturb_each_other(busy):
    engine, x, expected = busy
    for threads in (1, 2, 5, 2) * 20:
        np.testing.assert_array_equal(run(engine, x, threads), expected)


@pytest.mark.skipif(
    "libasan" in os.environ.get("LD_PRELOAD", ""),
    reason="AddressSanitizer's allocator does not survive a fork while other threads allocate",
)
@pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork.*:DeprecationWarning")
def test_a_child_forked_while_others_compute_can_compute(busy):
    engine, x, expected = busy
    for _ in range(20):
        child = os.fork()
        if child == 0:
            same = all(np.array_equal(run(engine, x, 3), expected) for _ in range(3))
            os._exit(0 if same else 1)
        assert finished(child)


AFFINITY = """
import os, time
import numpy as np
from test_team import COUNT, run, sigmoid_engine

engine, x = sigmoid_engine(), np.zeros(COUNT, np.float32)
known = set(os.listdir("/proc/self/task"))
run(engine, x, threads=2)
(helper,) = map(int, set(os.listdir("/proc/self/task")) - known)
crowded = min(os.sched_getaffinity(0))
os.sched_setaffinity(0, {crowded})
os.sched_setaffinity(helper, {crowded})
for _ in range(2000):
    run(engine, x, threads=2)
    if crowded not in os.sched_getaffinity(helper):
        break
    time.sleep(0.001)
else:
    raise SystemExit("both threads stayed on one processor")
"""


@pytest.mark.skipif(
    not hasattr(os, "sched_getaffinity") or len(os.sched_getaffinity(0)) < 2,
    reason="needs Linux and two processors",
)
def test_a_thread_on_the_processor_of_another_is_bound_to_the_others():
    folder = os.path.dirname(__file__)
    path = os.pathsep.join([folder, os.environ.get("PYTHONPATH", "")])
    subprocess.run(
        [sys.executable, "-c", AFFINITY], check=True, env={**os.environ, "PYTHONPATH": path}
    )
