"""Files of records: what is kept of runs when their folders are gone.

A file has a line for each run, a JSON object: `config`, `result` and `metrics` as in the run
folder; `diverged` instead of the last two where the loss became infinite; `greedy` where a search
for the sparsity of each layer started from the run. A run is found by its identity.
"""

import contextlib
import dataclasses
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import filelock

from skinny.errors import SkinnyError
from skinny.experiments import greedy
from skinny.experiments.runs import Run, check_metrics, check_result, read_run
from skinny.files import atomic_write
from skinny.training import Config, RunFolder
from skinny.training import config as configs
from skinny.training.json_text import LARGEST, parse


@dataclass(frozen=True)
class Record:
    """A run that is over: it finished, or it diverged."""

    config: Config
    run: Run | None
    diverged: str | None = None
    greedy: Mapping[str, dict[str, int]] = field(default_factory=dict)  # {sparsity: {layer: k}}


def read_records(path: Path) -> dict[str, Record]:
    """{identity: record} of a file, in the order of its lines."""
    found: dict[str, Record] = {}
    try:
        with path.open("rb") as file:
            for number, line in enumerate(iter(lambda: file.readline(LARGEST + 1), b""), 1):
                try:
                    record = _read(line)
                except (ValueError, SkinnyError) as error:
                    raise SkinnyError(f"{path}, line {number} is damaged: {error}") from None
                if found.setdefault(configs.identity(record.config), record) is not record:
                    raise SkinnyError(f"{path}, line {number} is damaged: its run is there twice")
    except OSError as error:
        raise SkinnyError(f"{path} cannot be read: {error.strerror or error}") from None
    return found


def record_runs(folders: Iterable[Path], into: Path) -> tuple[int, list[Path]]:
    """Add the runs in `folders` that the file lacks; how many, and those that are not over.

    The file is replaced as a whole: it has all of them or, after a failure, none.
    """
    made: dict[str, Record] = {}
    unfinished = []
    for folder in folders:
        if (record := _record(folder)) is None:
            unfinished.append(folder)
        else:
            made.setdefault(configs.identity(record.config), record)
    try:
        into.parent.mkdir(parents=True, exist_ok=True)
        with filelock.FileLock(into.with_name(f".{into.name}.lock")):
            before = read_records(into) if into.exists() else {}
            new = [record for identity, record in made.items() if identity not in before]
            if new:
                with atomic_write(into) as file:
                    file.write(into.read_bytes() if before else b"")
                    file.writelines(_line(record) for record in new)
    except OSError as error:
        raise SkinnyError(f"cannot write {into}: {error.strerror or error}") from error
    return len(new), unfinished


def _record(path: Path) -> Record | None:
    folder, run = RunFolder(path), read_run(path)
    if run is None:
        reason = folder.diverged()
        return None if reason is None else Record(folder.config(), None, reason)
    return Record(run.config, run, greedy=greedy.found_in(path))


def _line(record: Record) -> bytes:
    kept: dict[str, Any] = {"config": dataclasses.asdict(record.config)}
    if record.run is not None:
        kept |= {"result": record.run.result, "metrics": record.run.metrics}
    else:
        kept["diverged"] = record.diverged
    if record.greedy:
        kept["greedy"] = record.greedy
    return json.dumps(kept).encode() + b"\n"


def _read(line: bytes) -> Record:
    if len(line) > LARGEST:
        raise ValueError(f"it has more than {LARGEST >> 20} MB")
    if not line.endswith(b"\n"):
        raise ValueError("it was cut off")
    kept = parse(line)
    if not isinstance(kept, dict) or "config" not in kept:
        raise ValueError("it is no record of a run")
    config = configs.from_fields(kept["config"])
    if (reason := kept.get("diverged")) is not None:
        return Record(config, None, str(reason))
    check_result(kept.get("result"))
    check_metrics(kept.get("metrics"), config)
    searched = kept.get("greedy", {})
    with contextlib.suppress(AttributeError, TypeError):
        searched = {
            str(sparsity): greedy.as_counts(counts) for sparsity, counts in searched.items()
        }
        return Record(config, Run(config, kept["result"], kept["metrics"]), greedy=searched)
    raise ValueError("its search of layers is damaged")
