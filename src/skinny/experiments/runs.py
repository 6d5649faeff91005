"""Finished runs, read back from their folders."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from skinny.errors import SkinnyError
from skinny.training import Config, RunFolder


@dataclass(frozen=True)
class Run:
    """One finished training, its records read and looked over."""

    folder: RunFolder
    config: Config
    result: dict[str, Any]

    @cached_property
    def metrics(self) -> list[dict[str, Any]]:
        """One record per epoch."""
        records = self.folder.metrics()
        if len(records) != self.config.epochs:
            raise SkinnyError(
                f"{self.folder.metrics_file} is damaged: it has {len(records)} whole records of "
                f"{self.config.epochs} epochs"
            )
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
    def packed_bytes(self) -> int:
        """Size of the packed model: of its file, or as recorded where only the records are left."""
        try:
            return self.folder.model_file.stat().st_size
        except OSError:
            return int(self.result["bytes"]["packed"])


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
    if not result["bytes"]["packed"] > 0:
        raise ValueError(f"the packed file has {result['bytes']['packed']} bytes")
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
