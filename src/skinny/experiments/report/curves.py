"""What changed while runs were trained, averaged over seeds."""

from collections.abc import Sequence

import numpy as np

from skinny.experiments.runs import Run

_POINTS = 400  # of a curve: more cannot be told apart on a screen


def mean_curve(runs: Sequence[Run], quantity: str) -> list[tuple[int, float]]:
    """(epochs done, mean over runs) where every run measured the quantity."""
    by_epoch: dict[int, list[float]] = {}
    for run in runs:
        for record in run.metrics:
            if record[quantity] is not None:
                by_epoch.setdefault(record["epoch"] + 1, []).append(record[quantity])
    return [
        (epoch, float(np.mean(values)))
        for epoch, values in sorted(by_epoch.items())
        if len(values) == len(runs)
    ]


def sparse_spans(run: Run) -> list[tuple[int, int]]:
    """[begin, end) in epochs of each stretch of sparse epochs; none where spans count steps."""
    if run.config.unit == "step":
        return []
    spans: list[tuple[int, int]] = []
    for record in run.metrics:
        if record["phase"] == "sparse":
            epoch = record["epoch"]
            if spans and spans[-1][1] == epoch:
                spans[-1] = (spans[-1][0], epoch + 1)
            else:
                spans.append((epoch, epoch + 1))
    return spans


def change_ratios(runs: Sequence[Run]) -> list[tuple[float, float]]:
    """(epoch, mean change ratio) at each mask update that every run has, but the first.

    Mask updates within an epoch are spread over it evenly; long curves are thinned out.
    """
    curves = []
    for run in runs:
        points = []
        for record in run.metrics:
            done = record["mask_updates"]
            points += [
                (record["epoch"] + i / len(done), one["change_ratio"])
                for i, one in enumerate(done)
                if one["change_ratio"] is not None
            ]
        curves.append(points)
    length = min(map(len, curves), default=0)
    chosen = np.unique(np.linspace(0, length - 1, min(length, _POINTS)).round().astype(int))
    return [
        (curves[0][i][0], float(np.mean([curve[i][1] for curve in curves])))
        for i in chosen
        if length
    ]
