"""The arms that experiments are made of: the paper's networks, and the baselines it names."""

import functools
import math
from dataclasses import replace
from typing import Any

import torch

from skinny import models
from skinny.experiments.experiment import Arm
from skinny.experiments.settings import SHAPES
from skinny.iht.budget import keep_count
from skinny.iht.layers import prunable
from skinny.training import Config
from skinny.training.config import without_spans


def dense(base: Config, label: str = "dense", **changes: Any) -> Arm:
    return Arm(label, replace(base, method="dense", **changes))


def sdnn(base: Config, sparsity: float, label: str | None = None, **changes: Any) -> Arm:
    """Progressive from 50 % at every sparsity, as the experiments were recorded, unless told."""
    changes = {"r0": min(0.5, sparsity)} | changes
    return Arm(label or times(sparsity), replace(base, method="sdnn", sparsity=sparsity, **changes))


def times(sparsity: float, network: str = "SDNN") -> str:
    """The paper's names: SDNN-10x keeps a tenth."""
    return f"{network}-{1 / (1 - sparsity):.3g}x"


def scaled(base: Config, factor: float) -> float:
    """The width of NIN_factor for this base: `factor` times as wide."""
    return round((base.width or 1.0) * factor, 4)


def baselines(base: Config, sparsity: float) -> tuple[Arm, ...]:
    """What the paper compares with or leaves out, all with the same epochs, data and settings."""
    at = functools.partial(replace, without_spans(base), sparsity=sparsity)
    return (
        Arm("one-shot pruning", at(method="oneshot")),
        Arm("iterative pruning", at(method="iterative")),
        Arm("gradual pruning", at(method="gradual")),
        Arm("AC/DC", at(method="acdc")),
        Arm("DSD (ends dense)", at(method="dsd")),
        Arm("greedy layer search", at(method="oneshot"), greedy=True),
        dense(base, "small dense", width=equal_size_width(base, sparsity)),
        sdnn(base, sparsity, "random masks", score="random"),
    )


@functools.cache
def equal_size_width(base: Config, sparsity: float) -> float:
    """The width at which a dense NIN has as many parameters as the pruned one keeps.

    By bisection: the number of parameters grows with the width. Widths are whole numbers of
    channels, so that the match is as close as those allow.
    """
    weights, others = _parameters(base, base.width or 1.0)
    wanted = keep_count(weights, sparsity) + others
    low, high = 0.0, base.width or 1.0
    for _ in range(30):
        middle = (low + high) / 2
        if sum(_parameters(base, middle)) > wanted:
            high = middle
        else:
            low = middle
    return min(
        (math.floor(low * 1e4) / 1e4, math.ceil(high * 1e4) / 1e4),  # a readable number
        key=lambda width: abs(sum(_parameters(base, width)) - wanted),
    )


def _parameters(base: Config, width: float) -> tuple[int, int]:
    """(weights that can be pruned, all other parameters) at a width."""
    shape = SHAPES[base.data]
    options: dict[str, Any] = {} if base.batch_norm is None else {"batch_norm": base.batch_norm}
    with torch.random.fork_rng(devices=[]):  # initial weights are drawn, and not needed
        model = models.build(
            base.model,
            classes=shape.classes,
            channels=shape.channels,
            width=max(width, 1e-6),
            **options,
        )
    weights = sum(weight.numel() for weight in prunable(model).values())
    return weights, sum(parameter.numel() for parameter in model.parameters()) - weights
