"""A run folder: what its files are called, who may write it, and what is in its records."""

import contextlib
import json
import os
from pathlib import Path
from types import TracebackType
from typing import Any

import filelock

from skinny.errors import SkinnyError
from skinny.files import atomic_write, remove_temporaries
from skinny.training import checkpoint
from skinny.training import config as configs
from skinny.training.config import Config
from skinny.training.json_text import parse, read_bytes

# What every reader of a record may rely on; records without it are damaged.
_METRICS = {
    *("epoch", "steps", "phase", "sparsity", "mask_updates", "seconds"),
    *("train_loss", "train_accuracy", "test_loss", "test_accuracy"),
}
_RESULT = {"test_accuracy", "weights", "bytes", "test_images", "test_errors", "classes"}


class RunFolder:
    """runs/<recipe>-<hash>/, held by one process at a time while open (a context manager)."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self.config_file = self.path / "config.json"
        self.metrics_file = self.path / "metrics.jsonl"
        self.result_file = self.path / "result.json"
        self.diverged_file = self.path / "diverged.txt"
        self.histograms_file = self.path / "histograms.json"
        self.model_file = self.path / "model.skinny"
        self.checkpoints = self.path / "checkpoint"
        self.figures = self.path / "figures"
        self.tensorboard = self.path / "tensorboard"
        self._written_under_lock = (
            *(self.config_file, self.metrics_file, self.result_file, self.diverged_file),
            *(self.histograms_file, self.model_file, checkpoint.fresh_file(self.checkpoints)),
        )
        self._lock = filelock.FileLock(self.path / ".lock")

    def __enter__(self) -> "RunFolder":
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            self._lock.acquire(timeout=0)
        except filelock.Timeout:
            raise SkinnyError(f"another process is training in {self.path}") from None
        except OSError as error:
            raise SkinnyError(f"cannot use {self.path}: {error.strerror}") from None
        for file in self._written_under_lock:
            remove_temporaries(file)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if not self.config_file.exists():  # a run that never began leaves no folder
            with contextlib.suppress(OSError):
                (self.path / ".lock").unlink()
                self.path.rmdir()
        self._lock.release()

    def check(self, config: Config) -> None:
        """See that no other run is in the folder."""
        if self.config_file.exists() and configs.identity(self.config()) != configs.identity(
            config
        ):
            raise SkinnyError(f"{self.path} holds a run with another config; use another folder")

    def claim(self, config: Config) -> None:
        """Write the config, if the folder has none."""
        if not self.config_file.exists():
            with atomic_write(self.config_file, "w") as file:
                file.write(configs.to_json(config) + "\n")

    def config(self) -> Config:
        try:
            return configs.from_json(read_bytes(self.config_file).decode())
        except OSError as error:
            raise SkinnyError(
                f"{self.path} is not a run folder: {self.config_file.name}: {error.strerror}"
            ) from None
        except (SkinnyError, ValueError) as error:
            raise SkinnyError(f"{self.config_file}: {error}") from None

    def metrics(self) -> list[dict[str, Any]]:
        """One record per epoch, up to the first line that was cut off or is damaged."""
        records: list[dict[str, Any]] = []
        if not self.metrics_file.exists():
            return records
        try:
            lines = read_bytes(self.metrics_file).splitlines()
        except (OSError, ValueError) as error:
            raise SkinnyError(f"{self.metrics_file} cannot be read: {error}") from None
        for line in lines:
            try:
                record = parse(line)
            except ValueError:
                break
            if not is_record_of(record, len(records)):
                break
            records.append(record)
        return records

    def keep_metrics(self, epochs: int) -> None:
        """Forget the records of epochs that will be trained again."""
        kept = self.metrics()[:epochs]
        with atomic_write(self.metrics_file, "w") as file:
            file.writelines(json.dumps(record) + "\n" for record in kept)

    def add_metrics(self, record: dict[str, Any]) -> None:
        """Append a record, and see it safely on the disk before a checkpoint may outlive it."""
        with self.metrics_file.open("a", encoding="utf-8") as file:
            file.write(json.dumps(record) + "\n")
            file.flush()
            os.fsync(file.fileno())

    def save_checkpoint(self, state: dict[str, Any]) -> None:
        checkpoint.save(self.checkpoints, state)

    def result(self) -> dict[str, Any] | None:
        """The outcome of a finished run; None while it is not finished."""
        return self._read_json(self.result_file, _RESULT)

    def write_result(self, result: dict[str, Any]) -> None:
        self._write_json(self.result_file, result)

    def diverged(self) -> str | None:
        """What was said of a run whose loss became infinite; None if it did not."""
        try:
            return self.diverged_file.read_text(encoding="utf-8", errors="replace")
        except OSError:
            return None

    def write_diverged(self, reason: str) -> None:
        with atomic_write(self.diverged_file, "w") as file:
            file.write(reason)

    def histograms(self) -> dict[str, Any] | None:
        return self._read_json(self.histograms_file, {"epoch", "layers"})

    def write_histograms(self, histograms: dict[str, Any]) -> None:
        self._write_json(self.histograms_file, histograms)

    @staticmethod
    def _write_json(path: Path, value: dict[str, Any]) -> None:
        with atomic_write(path, "w") as file:
            file.write(json.dumps(value, indent=1) + "\n")

    @staticmethod
    def _read_json(path: Path, required: set[str]) -> dict[str, Any] | None:
        if not path.exists():
            return None
        try:
            value = parse(read_bytes(path))
        except (OSError, ValueError) as error:
            raise SkinnyError(f"{path} cannot be read: {error}") from None
        if not isinstance(value, dict) or not required <= value.keys():
            raise SkinnyError(f"{path} is damaged: it does not hold the record it should")
        return value


class Unwritten(RunFolder):
    """The run folder as a process has it that does not write: it takes all and keeps nothing."""

    def __enter__(self) -> "Unwritten":
        return self

    def __exit__(self, *_: object) -> None: ...
    def check(self, config: Config) -> None: ...
    def claim(self, config: Config) -> None: ...
    def keep_metrics(self, epochs: int) -> None: ...
    def add_metrics(self, record: dict[str, Any]) -> None: ...
    def save_checkpoint(self, state: dict[str, Any]) -> None: ...
    def write_diverged(self, reason: str) -> None: ...
    def write_histograms(self, histograms: dict[str, Any]) -> None: ...


def is_record_of(record: Any, epoch: int) -> bool:
    """Whether a value read from a file is the record of this epoch."""
    return isinstance(record, dict) and record.keys() >= _METRICS and record["epoch"] == epoch
