"""Where runs are kept and looked for."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from skinny.experiments import greedy
from skinny.experiments.records import Record, read_records
from skinny.experiments.runs import Run, read_run
from skinny.training import Config, RunFolder
from skinny.training import config as configs


@dataclass(frozen=True)
class Store:
    """Run folders below `folder`, in which runs are trained, and records of runs trained before.

    A run is found in its folder first, then among the records, there whatever its name.
    """

    folder: Path
    records: Mapping[str, Record] = field(default_factory=dict)  # by identity

    @classmethod
    def open(cls, folder: Path, files: Iterable[Path] = ()) -> "Store":
        """With the records of these files."""
        merged: dict[str, Record] = {}
        for file in files:
            merged |= read_records(file)
        return cls(folder, merged)

    def path(self, config: Config) -> Path:
        return self.folder / config.run_name

    def result(self, config: Config) -> dict[str, Any] | None:
        """The outcome of a finished run."""
        if (found := RunFolder(self.path(config)).result()) is not None:
            return found
        record = self._record(config)
        return None if record is None or record.run is None else record.run.result

    def diverged(self, config: Config) -> str | None:
        """Why a run is over without an outcome."""
        if (reason := RunFolder(self.path(config)).diverged()) is not None:
            return reason
        record = self._record(config)
        return None if record is None else record.diverged

    def run(self, config: Config) -> Run | None:
        """A finished run with all its records."""
        path = self.path(config)
        found = read_run(path) if (path / "config.json").exists() else None
        record = self._record(config)
        return found or (None if record is None else record.run)

    def greedy_rules(self, config: Config, sparsity: float) -> tuple[str, ...] | None:
        """What an earlier search that started from the dense run `config` found."""
        if (found := greedy.found_rules(self.path(config), sparsity)) is not None:
            return found
        record = self._record(config)
        counts = None if record is None else record.greedy.get(f"{sparsity:g}")
        return None if counts is None else greedy.as_rules(counts)

    def _record(self, config: Config) -> Record | None:
        return self.records.get(configs.identity(config))
