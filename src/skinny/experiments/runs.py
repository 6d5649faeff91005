"""Finished runs, read from their folders or from files of records."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from skinny.errors import SkinnyError
from skinny.training import Config, RunFolder
from skinny.training.folder import is_record_of


@dataclass(frozen=True)
class Run:
    """One finished training, its records checked."""

    config: Config
    result: dict[str, Any]
    metrics: list[dict[str, Any]]  # one record per epoch
    folder: RunFolder | None = None  # None: only the records were kept

    @property
    def name(self) -> str:
        return self.config.run_name

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
        if self.folder is not None and self.folder.model_file.is_file():
            return self.folder.model_file.stat().st_size
        return int(self.result["bytes"]["packed"])


def read_run(path: Path) -> Run | None:
    """The run in a folder; None while it is not finished."""
    folder = RunFolder(path)
    config, result = folder.config(), folder.result()
    if result is None:
        return None
    try:
        check_result(result)
    except ValueError as error:
        raise SkinnyError(f"{folder.result_file} is damaged ({error})") from None
    try:
        metrics = folder.metrics()
        check_metrics(metrics, config)
    except ValueError as error:
        raise SkinnyError(f"{folder.metrics_file} is damaged: {error}") from None
    return Run(config, result, metrics, folder)


def check_metrics(metrics: Any, config: Config) -> None:
    """ValueError unless there is one record for every epoch."""
    if not isinstance(metrics, list) or not all(map(is_record_of, metrics, range(len(metrics)))):
        raise ValueError("its metrics are no list of epochs")
    for record in metrics:
        _look_over_epoch(record)
    if len(metrics) != config.epochs:
        raise ValueError(f"it has {len(metrics)} whole records of {config.epochs} epochs")


def check_result(result: Any) -> None:
    """ValueError unless everything that a report does with a result can be done with this one."""
    try:
        _look_over(result)
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"{type(error).__name__}: {error}") from None


def _look_over(result: dict[str, Any]) -> None:
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
    if not isinstance(result.get("versions", {}), dict):
        raise ValueError("its versions have no names")
    for name, weight in result["weights"].items():
        if not 0 <= weight["kept"] <= weight["size"] or weight["size"] < 1:
            raise ValueError(f"the weights of {name} do not add up")


def _look_over_epoch(record: dict[str, Any]) -> None:
    """What curves are made of."""
    values = [record["train_accuracy"], record["test_accuracy"]]
    updates = record["mask_updates"]
    if not isinstance(updates, list) or not all(isinstance(one, dict) for one in updates):
        raise ValueError(f"the mask updates of epoch {record['epoch'] + 1} are none")
    for value in (*values, *(one.get("change_ratio") for one in updates)):
        if value is not None and (not isinstance(value, int | float) or not 0 <= value <= 1):
            raise ValueError(f"{value!r:.80} in epoch {record['epoch'] + 1} is no share")


def run_folders(path: Path) -> list[Path]:
    """The folder itself if it is a run's, else the run folders directly below it."""
    if not path.is_dir():
        raise SkinnyError(f"there is no folder {path}")
    if (path / "config.json").exists():
        return [path]
    inside = sorted(file.parent for file in path.glob("*/config.json"))
    if not inside:
        raise SkinnyError(f"{path} is no run folder, and there is none below it")
    return inside


def find_runs(paths: Iterable[Path]) -> tuple[list[Run], list[Path]]:
    """Finished runs in these folders, or in the folders directly below; and unfinished ones."""
    finished: dict[Path, Run] = {}
    unfinished: list[Path] = []
    for folder in [folder for path in paths for folder in run_folders(path)]:
        run = read_run(folder)
        if run is None:
            unfinished.append(folder)
        else:
            finished[folder.resolve()] = run
    return list(finished.values()), unfinished
