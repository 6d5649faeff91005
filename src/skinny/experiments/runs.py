"""Finished runs, read back from their folders."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from skinny.errors import SkinnyError
from skinny.training import Config, RunFolder

_NEEDED = ("test_accuracy", "test_top5", "test_images", "test_errors", "classes", "parameters",
           "weights", "seconds")  # fmt: skip


@dataclass(frozen=True)
class Run:
    """One finished training, its records read and looked over."""

    folder: RunFolder
    config: Config
    result: dict[str, Any]

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
        """Size of the packed model; None where there is none."""
        try:
            return self.folder.model_file.stat().st_size
        except OSError:
            return None

    @property
    def dense_bytes(self) -> int:
        return 4 * int(self.result["parameters"])


def read_run(path: Path) -> Run | None:
    """The run in a folder; None while it is not finished."""
    folder = RunFolder(path)
    config, result = folder.config(), folder.result()
    if result is None:
        return None
    if missing := [name for name in _NEEDED if name not in result]:
        raise SkinnyError(f"{folder.result_file} is damaged: it lacks {', '.join(missing)}")
    return Run(folder, config, result)


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
