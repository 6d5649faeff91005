"""Sizes, errors and times of packed files, as results/files.py recorded them."""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np

from skinny.experiments.study import Result, Study
from skinny.training.config import identity

Files = Mapping[str, Mapping[str, dict[str, float]]]  # {identity: {values: bytes and error}}
Times = Mapping[str, dict[str, float]]  # {identity: {engine: milliseconds}}
ENGINES = {"torch": "PyTorch", "onnxruntime": "ONNX Runtime", "openvino": "OpenVINO"}
_ROUNDED = {
    "exact": "as trained",
    "int8": "8 bits",
    "codebook4": "4 bits",
    "codebook3": "3 bits",
    "codebook2": "2 bits",
    "size": "within Deep Compression's size",
}


def read_files(path: Path) -> Files:
    found: dict[str, dict[str, dict[str, float]]] = {}
    if not path.exists():
        return found
    for line in path.read_text("utf-8").splitlines():
        entry = json.loads(line)
        found.setdefault(entry["run"], {})[entry["values"]] = entry
    return found


def read_times(path: Path) -> tuple[Times, str]:
    """The times, and the machine that all of them were measured on."""
    entries = [*map(json.loads, path.read_text("utf-8").splitlines())]
    machines = {entry["machine"] for entry in entries}
    if len(machines) != 1:
        raise ValueError(f"{path}: times of different machines, {machines}; time all on one")
    return {entry["run"]: entry["milliseconds"] for entry in entries}, machines.pop()


def point(arm: Result, files: Files, values: str) -> tuple[float, float] | None:
    """(kB, error in per cent) with the weights stored so: means over the runs that were packed."""
    found = entries(arm, files, values)
    if not found:
        return None
    return (
        float(np.mean([entry["bytes"] for entry in found])) / 1000,
        float(np.mean([entry["error"] for entry in found])),
    )


def entries(arm: Result, files: Files, values: str) -> list[dict[str, float]]:
    """{bytes, error} of the runs that were packed so."""
    found = (files.get(identity(run.config), {}).get(values) for run in arm.runs)
    return [entry for entry in found if entry is not None]


def milliseconds(arm: Result, times: Times) -> dict[str, float] | None:
    return next(
        (times[key] for run in arm.runs if (key := identity(run.config)) in times),
        None,
    )


def table(study: Study, files: Files, times: Times) -> str:
    """A row for each arm: kB and error for every way to store its weights, and milliseconds."""
    ways = {
        values: text
        for values, text in _ROUNDED.items()
        if any(point(arm, files, values) for arm in study.arms)
    }
    head = ["arm", "n", *(f"{text}: kB, error" for text in ways.values())]
    if times:
        head += ["ms in Skinny", *(f"ms in {name}" for name in ENGINES.values())]
    rows = [head, ["---", *["---:"] * (len(head) - 1)]]
    for arm in study.arms:
        packed = sum(identity(run.config) in files for run in arm.runs)
        if not packed:
            continue
        cells = [_cell(point(arm, files, values)) for values in ways]
        if times:
            taken = milliseconds(arm, times)
            cells += [f"{taken[name]:.3f}" if taken else "–" for name in ("skinny", *ENGINES)]
        rows.append([arm.label, str(packed), *cells])
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def least(arm: Result, files: Files, kind: str, within: float) -> tuple[float, float] | None:
    """The smallest (kB, error) of one kind whose error is that of the exact weights, or `within`
    points more."""
    if not arm.runs:
        return None
    ways = [way for way in files[identity(arm.runs[0].config)] if way.startswith(kind)]
    points = [found for way in ways if (found := point(arm, files, way)) is not None]
    return min((p for p in points if p[1] <= error(arm) + within), default=None)


def those_in(arm: Result, files: Files) -> Result:
    """The arm with those of its runs that the files are of."""
    return replace(arm, runs=tuple(run for run in arm.runs if identity(run.config) in files))


def coded_by_others(study: Study, files: Files, peers: Files) -> str:
    """A row for each arm whose weights other programs have coded, beside our own files."""
    arms = [arm for arm in (those_in(arm, peers) for arm in study.arms) if arm.runs]
    ways = {
        values: None
        for arm in arms
        for run in arm.runs
        for values in peers[identity(run.config)]  # in the order they were tried in
    }
    ours = {"exact": "Skinny, as trained", "codebook4": "Skinny, 4 bits"}
    head = ["arm", "n", *(f"{text}: kB, error" for text in (*ours.values(), *ways))]
    rows = [head, ["---", *["---:"] * (len(head) - 1)]]
    for arm in arms:
        cells = [_cell(point(arm, files, values)) for values in ours]
        cells += [_cell(point(arm, peers, values)) for values in ways]
        rows.append([arm.label, str(len(arm.runs)), *cells])
    return "\n".join(f"| {' | '.join(row)} |" for row in rows) if arms else ""


def _cell(found: tuple[float, float] | None) -> str:
    return "–" if found is None else f"{found[0]:,.1f}, {found[1]:.2f} %"


def short(arm: Result) -> str:
    return "dense" if arm.config.method == "dense" else arm.label.removeprefix("SDNN-")


def error(arm: Result) -> float:
    return 100 - float(np.mean(list(arm.values("top1").values())))


def kilobytes(arm: Result, files: Files) -> float:
    """Of its files with all their weights: as packed last, else as the runs packed them."""
    packed = point(arm, files, "exact")
    if packed is not None:
        return packed[0]
    return float(np.mean([run.packed_bytes for run in arm.runs])) / 1000
