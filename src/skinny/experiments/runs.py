"""Finished runs, read back from their folders."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from skinny.errors import SkinnyError
from skinny.training import Config, RunFolder

_COLUMNS = {"epoch", "phase", "train_accuracy", "test_accuracy", "thresholdings"}


@dataclass(frozen=True)
class Run:
    """One finished training, its records read and looked over."""

    folder: RunFolder
    config: Config
    result: dict[str, Any]

    @cached_property
    def metrics(self) -> list[dict[str, Any]]:
        """One record per epoch, with all that a curve needs."""
        records = self.folder.metrics()
        for record in records:
            if not record.keys() >= _COLUMNS:
                lacks = ", ".join(sorted(_COLUMNS - record.keys()))
                raise SkinnyError(f"{self.folder.metrics_file} is damaged: it lacks {lacks}")
        return records

    @property
    def seed(self) -> int:
        return self.config.seed

    @property
    def kept(self) -> int:
        return sum(weight["kept"] for weight in self.result["weights"].values())

    @property
    def size(self) -> int:
        return sum(weight["size"] for weight in self.result["weights"].values())

    @property
    def packed_bytes(self) -> int | None:
        """Size of the packed model, from its file or the record of it; None where neither is."""
        try:
            return self.folder.model_file.stat().st_size
        except OSError:
            recorded = self.result.get("bytes")
            return recorded["packed"] if recorded else None

    @property
    def dense_bytes(self) -> int:
        return 4 * int(self.result["parameters"])


def read_run(path: Path) -> Run | None:
    """The run in a folder; None while it is not finished."""
    folder = RunFolder(path)
    config, result = folder.config(), folder.result()
    if result is None:
        return None
    try:
        _look_over(result)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise SkinnyError(
            f"{folder.result_file} is damaged ({type(error).__name__}: {error})"
        ) from None
    return Run(folder, config, result)


def _look_over(result: dict[str, Any]) -> None:
    """Everything a report does with a result, done once where its file can be named."""
    for name in ("test_accuracy", "test_top5"):
        if not 0 <= result[name] <= 1:
            raise ValueError(f"{name} is {result[name]}")
    if not len(result["classes"]) == len(result["test_images"]) == len(result["test_errors"]):
        raise ValueError("classes, test_images and test_errors differ in length")
    for count in (*result["test_images"], *result["test_errors"], result["parameters"]):
        if not isinstance(count, int) or count < 0:
            raise ValueError(f"{count!r} is no count")
    if (recorded := result.get("bytes")) is not None and not recorded["packed"] > 0:
        raise ValueError(f"the packed file has {recorded['packed']} bytes")
    if not result["weights"]:
        raise ValueError("there are no weights")
    for name, weight in result["weights"].items():
        if not 0 <= weight["kept"] <= weight["size"] or weight["size"] < 1:
            raise ValueError(f"the weights of {name} do not add up")


def find_runs(paths: Iterable[Path]) -> tuple[list[Run], list[Path]]:
    """Finished runs in these folders, or in the folders directly below; and unfinished ones."""
    finished: dict[Path, Run] = {}
    unfinished: list[Path] = []
    for path in paths:
        if not path.is_dir():
            raise SkinnyError(f"there is no folder {path}")
        inside = sorted(file.parent for file in path.glob("*/config.json"))
        folders = [path] if (path / "config.json").exists() else inside
        if not folders:
            raise SkinnyError(f"{path} is no run folder, and there is none below it")
        for folder in folders:
            run = read_run(folder)
            if run is None:
                unfinished.append(folder)
            else:
                finished[folder.resolve()] = run
    return list(finished.values()), unfinished
