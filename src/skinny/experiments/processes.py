"""Jobs in worker processes of this machine, each with its own few threads.

A worker takes one job after another, so that PyTorch is loaded once per worker. One that dies (out
of memory, a crash in native code) is reported as the failure of its job and replaced.
"""

import multiprocessing
import os
import signal
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from typing import Any

import torch

from skinny.errors import SkinnyError
from skinny.experiments.job import Job, Outcome, Tell, attempt


@dataclass(frozen=True)
class Processes:
    """An executor. By default: a process per core with one thread, or a process per GPU.

    One thread each, because networks this small scale better over runs than over threads.
    """

    count: int | None = None
    threads: int = 1
    device: str = "auto"
    data_dir: str | None = None

    def __call__(self, jobs: Sequence[Job], tell: Tell) -> None:
        for name, value in (("processes", self.count), ("threads", self.threads)):
            if value is not None and value < 1:
                raise SkinnyError(f"{name} is {value}; it must be at least 1")
        gpus = torch.cuda.device_count() if self.device == "auto" else 0
        count = self.count or gpus or max(1, usable_cores() // self.threads)
        waiting = deque(jobs)
        workers = [
            _Worker(self.threads, f"cuda:{i % gpus}" if gpus else self.device, self.data_dir)
            for i in range(min(count, len(jobs)))
        ]
        try:
            for worker in workers:
                worker.give(waiting.popleft())
            while busy := {worker.connection: worker for worker in workers if worker.job}:
                for ready in wait(list(busy)):
                    assert isinstance(ready, Connection)
                    if busy[ready].listen(tell) and waiting:
                        busy[ready].give(waiting.popleft())
        finally:
            for worker in workers:
                worker.stop()


class _Worker:
    def __init__(self, threads: int, device: str, data_dir: str | None) -> None:
        self.job: Job | None = None
        self._device = device
        self._arguments = (threads, device, data_dir)
        self._start()

    def _start(self) -> None:
        context = multiprocessing.get_context("spawn")  # a fork would copy PyTorch's threads
        self.connection, theirs = context.Pipe()
        self.process = context.Process(
            target=_work,
            args=(theirs, *self._arguments),
            # A daemon may start no processes, so that it decodes images itself: right on CPUs,
            # where every core trains already, and too slow for a GPU.
            daemon=not self._device.startswith("cuda"),
        )
        self.process.start()
        theirs.close()  # so that their death is seen as the end of the connection

    def give(self, job: Job) -> None:
        self.job = job
        try:
            self.connection.send(job)
        except OSError:  # it died with its last job, or after it
            self.connection.close()
            self._start()
            self.connection.send(job)

    def listen(self, tell: Tell) -> bool:
        """Pass on what the worker says; True when its job is over."""
        assert self.job is not None
        try:
            event: Any = self.connection.recv()
        except (EOFError, OSError):
            self.process.join()
            event = Outcome(self.job, "failed", error=_death(self.process.exitcode))
            self.connection.close()
        over = isinstance(event, Outcome)
        if over:
            self.job = None
        tell(event)
        return over

    def stop(self) -> None:
        """End the process at once: what it has saved is whole, and a next sweep goes on from it."""
        self.connection.close()
        self.process.terminate()
        self.process.join()


def _work(connection: Connection, threads: int, device: str, data_dir: str | None) -> None:
    """What a worker process does."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides what Ctrl-C means
    torch.set_num_threads(threads)
    try:
        while True:
            job = connection.recv()
            connection.send(attempt(job, connection.send, device=device, data_dir=data_dir))
    except (EOFError, BrokenPipeError, ConnectionResetError):
        pass  # the parent is gone


def _death(exitcode: int | None) -> str:
    if exitcode is not None and exitcode < 0:
        name = signal.Signals(-exitcode).name
        hint = "; was there too little memory?" if name == "SIGKILL" else ""
        return f"its process was ended by {name}{hint}"
    return f"its process ended with exit code {exitcode}"


def usable_cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
