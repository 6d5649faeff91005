"""Which kernel is faster for each layer: measured once, stored beside the model.

The stored choice is a small JSON file. It counts only for the model it was measured on, and for the
instruction set it was measured with.
"""

import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from skinny import native
from skinny.errors import SkinnyError
from skinny.files import atomic_write
from skinny.packing import PackedFile
from skinny.runtime.weights import Kernel, Weights

_LARGEST = 1 << 20
_GAIN = 0.97  # a change of less is noise


def tune(
    graph: Mapping[str, Any],
    weights: Weights,
    milliseconds: Callable[[Mapping[str, Kernel]], float],
) -> dict[str, Kernel]:
    """The kernel of every weighted layer, by name of its weight.

    Starts from the choice by density and turns over one layer after the other, keeping what is
    faster. milliseconds: how long the network takes with a choice.
    """
    names = [node["weight"] for node in graph["nodes"] if node["op"] in ("conv", "linear")]
    choice = {name: weights.kernel(name, weights.shape(name)[0]) for name in names}
    best = milliseconds(choice)
    for name in dict.fromkeys(names):
        other: Kernel = "sparse" if choice[name] == "dense" else "dense"
        trial = {**choice, name: other}
        time = milliseconds(trial)
        if time < _GAIN * best:
            choice, best = trial, time
    return choice


def tuned_path(model: str | os.PathLike[str]) -> Path:
    """Where the choice for a model is stored."""
    return Path(f"{os.fspath(model)}.tuned.json")


def store_choice(file: PackedFile, choice: Mapping[str, Kernel]) -> None:
    path = tuned_path(file.path)
    record = {"model": file.identity, "isa": _isa(), "kernels": dict(choice)}
    try:
        with atomic_write(path, "w") as out:
            json.dump(record, out, indent=1)
    except OSError as problem:
        raise SkinnyError(f"cannot write {path}: {problem.strerror}") from problem


def stored_choice(file: PackedFile) -> dict[str, Kernel]:
    """The stored choice for a model; empty if there is none, or it is another's, or unreadable."""
    path = tuned_path(file.path)
    try:
        if path.stat().st_size > _LARGEST:
            return {}
        record = json.loads(path.read_bytes())
        if record["model"] != file.identity or record["isa"] != _isa():
            return {}
        return {
            str(name): kernel
            for name, kernel in record["kernels"].items()
            if kernel in ("sparse", "dense")
        }
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return {}


def _isa() -> str:
    module = native.extension()
    return "none" if module is None else str(module.isa())
