"""A job is one run of many: its config and folder, what it reports, and how it is tried."""

import contextlib
import os
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, Protocol

from skinny.errors import SkinnyError
from skinny.experiments import greedy
from skinny.files import atomic_write
from skinny.training import Config, DivergedError, RunFolder, Silent, train

Status = Literal["trained", "already trained", "diverged", "failed"]
ERROR_FILE = "error.txt"


@dataclass(frozen=True)
class Job:
    """A config and the run folder it is trained in.

    start: the run of a dense network in which the sparsity of each layer is searched first. The
    run's own folder is then known only after the search; `path` is a name until then.
    """

    config: Config
    path: Path
    start: Path | None = None


@dataclass(frozen=True)
class Epoch:
    """A job has finished `done` epochs."""

    job: Job
    done: int


@dataclass(frozen=True)
class Searching:
    """The sparsity of each layer of a job's network is being searched, which takes a while."""

    job: Job


@dataclass(frozen=True)
class Note:
    """Something about a job's training that a person should know."""

    job: Job
    text: str


@dataclass(frozen=True)
class Outcome:
    """A job is over."""

    job: Job
    status: Status
    accuracy: float | None = None
    error: str | None = None


Event = Epoch | Searching | Note | Outcome
Tell = Callable[[Event], None]


class Executor(Protocol):
    """Tries every job, tells what happens, and returns when all are over."""

    def __call__(self, jobs: Sequence[Job], tell: Tell) -> None: ...


class _Telling(Silent):
    def __init__(self, job: Job, tell: Tell) -> None:
        self._job, self._tell = job, tell

    def epoch(self, record: dict[str, Any]) -> None:
        self._tell(Epoch(self._job, record["epoch"] + 1))

    def note(self, text: str) -> None:
        self._tell(Note(self._job, text))


def attempt(job: Job, tell: Tell, *, device: str = "auto", data_dir: str | None = None) -> Outcome:
    """Train a job, from its checkpoint if it has one. What goes wrong is in the outcome.

    The traceback of an error that is not a `SkinnyError` is left in the run folder.
    """
    config, path = job.config, job.path if job.start is None else job.start
    try:
        if job.start is not None:
            tell(Searching(job))
            config = _search(config, job.start, device, data_dir)
            path = job.path.with_name(config.run_name)
            if (done := RunFolder(path).result()) is not None:
                return Outcome(job, "already trained", accuracy=done["test_accuracy"])
        result = train(
            config,
            RunFolder(path),
            observer=_Telling(job, tell),
            device=device,
            data_dir=data_dir,
        )
    except DivergedError as error:
        return Outcome(job, "diverged", error=str(error))
    except SkinnyError as error:
        return Outcome(job, "failed", error=str(error))
    except BrokenPipeError:  # nobody listens any more: the sweep was ended
        raise
    except Exception as error:
        error_file = path / ERROR_FILE
        with contextlib.suppress(OSError), atomic_write(error_file, "w") as file:
            file.write(traceback.format_exc())
        return Outcome(
            job, "failed", error=f"{type(error).__name__}: {error} (more in {error_file})"
        )
    with contextlib.suppress(OSError):
        os.unlink(path / ERROR_FILE)
    return Outcome(job, "trained", accuracy=result["test_accuracy"])


def _search(config: Config, start: Path, device: str, data_dir: str | None) -> Config:
    try:
        found = greedy.rules(
            start,
            config.sparsity,
            device=device,
            data_dir=data_dir,
            model=config.model,
            data_set=config.data,
        )
    except SkinnyError as error:
        raise SkinnyError(f"its search failed: {error}") from None
    return replace(config, layers=found)
