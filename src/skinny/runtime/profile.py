"""How long each step of a network takes."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from skinny import native
from skinny.errors import SkinnyError
from skinny.printable import aligned
from skinny.runtime.images import Images
from skinny.runtime.step_info import StepInfo

if TYPE_CHECKING:
    from skinny.runtime.mixed import Mixed
    from skinny.runtime.plan import Plan  # needs the native extension

_RUNS_ON = {  # by the name of a batch mode
    "single": "one image",
    "prefix": "one image",
    "interleaved": "images in vectors",
    "tail": "whole batch",
}


@dataclass(frozen=True)
class Row:
    runs_on: str
    step: "StepInfo"
    milliseconds: float
    share: float  # of all steps
    gflops: float  # on the weights that are kept; 0 where there are none
    code_bytes: int = 0  # of generated code, or of pairs; 0 where kernels interpret the mask
    of_peak: float = 0.0  # gflops by what the threads could do; 0 where that is not known

    @property
    def kernel(self) -> str:
        return f"{self.step.kernel} {self.step.form}" if self.code_bytes else self.step.kernel


@dataclass(frozen=True)
class Profile:
    """The steps of a network in order; `str` makes it a table."""

    batch: int
    threads: int
    rows: list[Row]
    code_milliseconds: float = 0.0  # that making the generated code took, on one core

    @property
    def milliseconds(self) -> float:
        return sum(row.milliseconds for row in self.rows)

    def __str__(self) -> str:
        table = [
            ("step", "runs on", "op", "kernel", "ms", "share", "GFLOP/s", "of peak", "code kB")
        ]
        table += [
            (
                row.step.name,
                row.runs_on,
                row.step.op,
                row.kernel,
                f"{row.milliseconds:.3f}",
                f"{row.share:.1%}",
                f"{row.gflops:.1f}" if row.gflops else "",
                f"{row.of_peak:.0%}" if row.of_peak else "",
                f"{row.code_bytes / 1e3:.0f}" if row.code_bytes else "",
            )
            for row in self.rows
        ]
        table.append(
            ("total", f"batch {self.batch}", "", f"{self.threads} threads",
             f"{self.milliseconds:.3f}", "", "", "", "")
        )  # fmt: skip
        return "\n".join(aligned(table, words=4))


def profile(plan: "Plan", images: Images, batch: int, threads: int, repeats: int) -> Profile:
    """The median time of each step over `repeats` calls with random images.

    Where threads run images of the batch side by side, a step's time is that of the first thread;
    its GFLOP/s count what all threads computed in that time.
    """
    if batch < 1 or repeats < 1:
        raise SkinnyError(
            f"cannot profile {repeats} calls with {batch} images; both must be positive"
        )
    x = np.random.default_rng(0).random((batch, *images.shape), np.float32)
    times: list[list[list[float]]] = []
    plan.run(x, images, threads)
    for _ in range(repeats):
        seconds: list[list[float]] = []
        plan.run(x, images, threads, seconds)
        times.append(seconds)
    peak = _peak(threads)
    rows = []
    for mode, steps in sorted(plan.steps.items()):
        count = _images(plan, mode.name, batch)
        code = plan.code.get(mode, [0] * len(steps))
        for at, step in enumerate(steps):
            time = float(np.median([seconds[mode][at] for seconds in times]))
            if time > 0:
                rows.append(_row(_RUNS_ON[mode.name], step, time, count, code[at], peak))
    made = sum(
        plan.code_seconds.get(mode, 0.0) for mode in plan.steps if _images(plan, mode.name, batch)
    )
    return Profile(batch, threads, _with_shares(rows), 1e3 * made)


def _row(runs_on: str, step: StepInfo, seconds: float, samples: int, code: int, peak: float) -> Row:
    gflops = step.operations * samples / max(seconds, 1e-9) / 1e9
    return Row(runs_on, step, 1e3 * seconds, 0.0, gflops, code, gflops / peak if peak else 0.0)


def _with_shares(rows: list[Row]) -> list[Row]:
    total = sum(row.milliseconds for row in rows) or 1.0
    return [replace(row, share=row.milliseconds / total) for row in rows]


def _peak(threads: int) -> float:
    """GFLOP/s that the threads could do, on cores of their own; 0 if that is not known."""
    module = native.extension()
    return 0.0 if module is None else min(threads, os.cpu_count() or 1) * module.fma_peak()


def _images(plan: "Plan", mode: str, batch: int) -> int:
    """How many images of the batch run in a mode."""
    singles = plan.singles(batch)
    return {"single": singles, "tail": batch}.get(mode, batch - singles)


def profile_mixed(
    mixed: "Mixed", inputs: Mapping[str, NDArray[Any]], threads: int, repeats: int
) -> Profile:
    """The median time of each native step and of each operation that runs by its reference."""
    if repeats < 1:
        raise SkinnyError(f"cannot profile {repeats} runs; there must be one at least")
    found: list[list[tuple[StepInfo, float, int]]] = []
    mixed.run(inputs)
    for _ in range(repeats):
        found.append([])
        mixed.run(inputs, found[-1])
    peak = _peak(threads)
    rows = []
    for at, (info, _, code) in enumerate(found[0]):
        time = float(np.median([run[at][1] for run in found]))
        rows.append(_row("whole batch", info, time, 1, code, peak))
    batch = len(next(iter(inputs.values())))
    return Profile(batch, threads, _with_shares(rows))
