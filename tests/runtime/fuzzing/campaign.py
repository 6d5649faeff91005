"""Many cases: a worker that is watched, statistics, and a small file for every finding."""

import collections
import contextlib
import json
import os
import selectors
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.runtime.fuzzing.case import Outcome, describe, read, write
from tests.runtime.fuzzing.mutations import Parts

from skinny.errors import SkinnyError

ROOT = Path(__file__).parents[3]
WORKER = (sys.executable, "-m", "tests.runtime.fuzzing.worker")
PATIENCE = 120  # seconds of processor time a worker may take for a case, or pass without any
NEVER_MADE = 0.01  # the largest share of seeds from which the fuzzer itself may fail to make a file
# What a machine short of time or memory shows as well: a finding only if it comes a second time.
DOUBTFUL = ("no answer", "more than", "MemoryError", "died of SIGKILL")
MOST_ATTEMPTS = 60  # to make a finding smaller


class Watched:
    """A worker process: restarted when it dies or does not answer, which is its answer then."""

    def __init__(self, command: Sequence[str] = WORKER, patience: float = PATIENCE) -> None:
        self.command, self.patience = command, patience
        self._process: subprocess.Popen[bytes] | None = None

    def ask(self, request: dict[str, Any]) -> Outcome:
        if self._process is None:
            self._start()
        process = self._process
        assert process is not None
        assert process.stdin is not None
        try:
            process.stdin.write(json.dumps(request).encode() + b"\n")
            process.stdin.flush()
        except BrokenPipeError:
            return self._dead()
        line = self._line()
        if line is None:
            self.close()
            what = f"no answer within {self.patience:g} seconds"
            return {"outcome": "finding", "what": what, "changes": []}
        return dict(json.loads(line)) if line else self._dead()

    def _start(self) -> None:
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 (closed with the worker)
        environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
        self._process = subprocess.Popen(
            self.command, cwd=ROOT, env=environment,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors,
        )  # fmt: skip

    def _line(self) -> bytes | None:
        """The answer; None if there is none in time, empty if the worker died. A worker that others
        keep from computing is waited for."""
        assert self._process is not None
        assert self._process.stdout is not None
        start = used = _processor_seconds(self._process.pid)
        with selectors.DefaultSelector() as selector:
            selector.register(self._process.stdout, selectors.EVENT_READ)
            while not selector.select(self.patience):
                before, used = used, _processor_seconds(self._process.pid)
                if used - start > self.patience or used - before < self.patience / 100:
                    return None
            return self._process.stdout.readline()

    def _dead(self) -> Outcome:
        assert self._process is not None
        status = self._process.wait()
        name = signal.Signals(-status).name if status < 0 else f"exit status {status}"
        self._errors.seek(0)
        detail = self._errors.read().decode(errors="replace")[-6000:]
        self.close()
        return {"outcome": "finding", "what": f"died of {name}", "detail": detail, "changes": []}

    def close(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._errors.close()
            self._process = None

    def __enter__(self) -> "Watched":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _processor_seconds(pid: int) -> float:
    """What a process has taken so far; 0 where the system does not say."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@dataclass
class Finding:
    seed: int
    what: str
    detail: str
    changes: list[str]
    path: Path

    def __str__(self) -> str:
        return (
            f"seed {self.seed}: {self.what}\n  changes: {', '.join(self.changes) or 'none'}\n"
            f"  again: python -m tests.runtime.fuzzing --seed {self.seed} --file {self.path}"
        )


@dataclass
class Statistics:
    """How often each outcome came, and the findings: one file for each kind of finding."""

    counts: collections.Counter[tuple[str, str]] = field(default_factory=collections.Counter)
    findings: list[Finding] = field(default_factory=list)
    seconds: float = 0.0

    def total(self, outcome: str = "") -> int:
        return sum(count for (own, _), count in self.counts.items() if outcome in ("", own))

    @property
    def passed(self) -> bool:
        return not self.findings and self.total("not made") <= NEVER_MADE * self.total()

    def __str__(self) -> str:
        lines = [f"{self.total()} files in {self.seconds:.0f} s"]
        for outcome in ("ran", "refused", "not made", "finding"):
            lines.append(f"  {outcome:10} {self.total(outcome):6}")
            own = [(n, what) for (kind, what), n in self.counts.items() if kind == outcome]
            lines += [f"  {'':10} {n:6}  {what}" for n, what in sorted(own, reverse=True)]
        return "\n".join([*lines, *map(str, self.findings)])


def campaign(
    seeds: Iterable[int],
    folder: Path,
    watched: Watched,
    seconds: float = float("inf"),
    attempts: int = MOST_ATTEMPTS,
) -> Statistics:
    """Judges the files of these seeds until the time is over. Files of findings are left in
    `folder`, made as small as they get within a limit of attempts."""
    folder.mkdir(parents=True, exist_ok=True)
    result, started = Statistics(), time.monotonic()
    path = folder / "case.skinny"
    for seed in seeds:
        if time.monotonic() - started > seconds:
            break
        path.unlink(missing_ok=True)
        request = {"path": str(path), "seed": seed, "skip": []}
        outcome = watched.ask(request)
        if outcome["outcome"] == "finding" and outcome["what"].startswith(DOUBTFUL):
            watched.close()  # another process, in which nothing has come before
            outcome = watched.ask(request)
        if outcome["outcome"] == "finding" and not path.exists():
            raise RuntimeError(f"the fuzzer made no file from seed {seed}: {outcome}")
        key = (outcome["outcome"], _kind(outcome))
        result.counts[key] += 1
        if outcome["outcome"] == "finding" and result.counts[key] == 1:
            result.findings.append(_keep(seed, outcome, folder, watched, attempts))
    result.seconds = time.monotonic() - started
    path.unlink(missing_ok=True)
    return result


def _kind(outcome: Outcome) -> str:
    """Findings of one kind differ only in their numbers."""
    return str(outcome["what"]).split(" (")[0]


def _keep(seed: int, outcome: Outcome, folder: Path, watched: Watched, attempts: int) -> Finding:
    path = folder / f"finding-{seed}.skinny"
    smallest = _shrink(seed, outcome, path, watched, attempts)
    found = Finding(seed, smallest["what"], smallest.get("detail", ""), outcome["changes"], path)
    text = f"{found}\n\n{found.detail}\n\n{describe(path)}\n"
    path.with_suffix(".txt").write_text(text)
    return found


def _shrink(seed: int, outcome: Outcome, path: Path, watched: Watched, attempts: int) -> Outcome:
    """Leaves a file at `path` that shows the same with fewer changes and nodes; what it shows."""
    trial = path.with_suffix(".trial")

    def same(request: dict[str, Any]) -> bool:
        nonlocal outcome, attempts
        if attempts == 0:
            return False
        attempts -= 1
        found = watched.ask({"path": str(trial), "seed": seed, **request})
        if found["outcome"] != "finding" or _kind(found) != _kind(outcome):
            return False
        outcome = found
        trial.replace(path)
        return True

    if not same({"skip": []}):  # it came once and not again: keep the file as it is
        trial.replace(path)
        return {**outcome, "what": f"{outcome['what']}, once"}
    skip: list[int] = []
    for at in range(3):
        if same({"skip": [*skip, at]}):
            skip.append(at)
    # What was changed may have no nodes any more, or none that a reader could do without.
    with contextlib.suppress(SkinnyError, KeyError, IndexError, TypeError):
        at = len(read(path).book["graph"]["nodes"])
        while at > 0 and attempts > 0:
            at -= 1
            parts = read(path)
            if len(parts.book["graph"]["nodes"]) > at:
                write(trial, _without(at, parts))
                same({})
    trial.unlink(missing_ok=True)
    return outcome


def _without(at: int, parts: Parts) -> Parts:
    """The network without a node: its readers read what it read."""
    graph = parts.book["graph"]
    gone = graph["nodes"].pop(at)
    source = gone["inputs"][0]
    for node in graph["nodes"]:
        node["inputs"] = [source if name == gone["output"] else name for name in node["inputs"]]
    graph["outputs"] = [source if name == gone["output"] else name for name in graph["outputs"]]
    return parts
