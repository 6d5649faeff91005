"""The learning rate as a pure function of the step: there is no scheduler state to save."""

import math
from bisect import bisect_right
from collections.abc import Callable, Sequence
from itertools import pairwise

from skinny.iht.timeline import Timeline
from skinny.training import config as configs
from skinny.training.config import Config, Schedule


def factor(
    progress: float, schedule: Schedule, drops: Sequence[float] = (), warmup: float = 0.0
) -> float:
    """What the learning rate is multiplied by after the fraction `progress` of the training.

    `warmup` is a fraction too: while it lasts the rate rises linearly. The cosine runs over what
    remains; the drops of `step` are fractions of the whole.
    """
    if progress < warmup:
        return progress / warmup
    if schedule == "step":
        return float(0.1 ** sum(progress >= drop for drop in drops))
    if schedule == "cosine":
        remaining = (progress - warmup) / (1 - warmup)
        return 0.5 * (1 + math.cos(math.pi * min(1.0, remaining)))
    return 1.0


def factor_by_step(
    config: Config, timeline: Timeline, steps_per_epoch: int
) -> Callable[[int], float]:
    """step -> factor, for one schedule over all epochs or for one in every cycle.

    A cycle begins at the start and wherever weights are restored; dense training, which restores
    nothing, has the cycles of sdnn. The warm-up belongs to the first cycle; the one of restoration
    multiplies whichever schedule there is in the others. Steps are counted from one half, so that
    neither the first nor the last has rate zero.
    """
    config = configs.canonical(config)
    restored = _restorations(config, timeline, steps_per_epoch)
    begins = [0, *restored] if config.restart_lr else [0]
    ends = [*begins[1:], config.epochs * steps_per_epoch]
    warmup_steps = config.warmup * steps_per_epoch
    restore_steps = config.restore_warmup * steps_per_epoch

    def at(step: int) -> float:
        cycle = bisect_right(begins, step) - 1
        length = ends[cycle] - begins[cycle]
        warmup = min(0.99, warmup_steps / length) if cycle == 0 else 0.0
        progress = (step - begins[cycle] + 0.5) / length
        rate = factor(progress, config.schedule, config.lr_drops, warmup)
        last = bisect_right(restored, step) - 1
        if last >= 0 and (risen := step - restored[last] + 0.5) < restore_steps:
            rate *= risen / restore_steps
        return rate

    return at


def _restorations(config: Config, timeline: Timeline, steps_per_epoch: int) -> list[int]:
    """The steps before which weights are restored; for dense training, where sdnn would."""
    if not (config.restart_lr or config.restore_warmup):
        return []
    unit = steps_per_epoch if timeline.unit == "epoch" else 1
    return [
        span.start * unit
        for before, span in pairwise(configs.cycles(config, steps_per_epoch).spans)
        if before.sparsity and not span.sparsity
    ]
