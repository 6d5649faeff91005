"""What high sparsity needs, in words: errors on held-out images, no test image looked at."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from skinny.experiments.runs import Run
from skinny.training.config import identity

_OTHER: dict[str, Any] = {"r0": None, "restart_lr": False}  # of methods other than IHT


def section(runs: Sequence[Run], narrow: Mapping[str, Sequence[Run]]) -> str:
    """The trials of the LeNets, and {network: its trials} of the narrow networks."""

    def held_out(epochs: int, ratio: int = 56, **wanted: object) -> str:
        usual = {"sparsity": 1 - 1 / ratio, "r0": 1 - 1 / ratio, "dense": None, "sparse": None}
        five = ratio in (12, 280)  # LeNet-5
        usual |= {"method": "sdnn", "lr": 0.05 if five else 0.1, "label_smoothing": 0.0}
        usual |= {"weight_decay": 1e-4 if epochs == 40 else 5e-4, "restart_lr": True}
        usual |= {"epochs": epochs, "restore_warmup": 0.0, "restore": "zero", "optimizer": "sgd"}
        usual |= {"precision": "bf16" if five else "fp32", "budget": "global"} | wanted
        return _error(runs, usual)

    longer: dict[str, Any] = {"epochs": 42, "ratio": 280, "lr": 0.1}
    longest = longer | {"epochs": 63, "restore_warmup": 4.0}
    short = longer | {"restart_lr": False}
    plain: dict[str, Any] = _OTHER | {"method": "dense", "sparsity": 0.0, "budget": "erk"}
    erk: dict[str, Any] = {"budget": "erk", "restart_lr": False}
    said = [
        f"**Thresholding at once**: {held_out(30)} with 30 epochs, {held_out(30, r0=None)} from "
        f"the default r0, {held_out(30, r0=0.5)} from 50 %.",
        "**Several cycles**: with 40 epochs and a weight decay of 1e-4 "
        f"{held_out(40, dense=3, sparse=37)} in one cycle, "
        f"{held_out(40, dense=8, sparse=12)} in two, {held_out(40)} in three, "
        f"{held_out(40, dense=2, sparse=6)} in five; gradual pruning has "
        f"{held_out(40, method='gradual', **_OTHER)}.",
        f"**No higher learning rate**: {held_out(40, lr=0.2)} with 0.2, where 0.1 has "
        f"{held_out(40)}; label smoothing brings nothing ({held_out(40, label_smoothing=0.1)}).",
        f"**Weight decay** matters little with 60 epochs: {held_out(60)} at 5e-4, "
        f"{held_out(60, weight_decay=1e-4)} at 1e-4, {held_out(60, weight_decay=2e-5)} at 2e-5; "
        "with 90 epochs at 68x, 1e-4 is worse (below).",
        "**One schedule of the learning rate** does as well as one in every cycle: "
        f"{held_out(30, restart_lr=False)} with 30 epochs, "
        f"{held_out(30, dense=2, sparse=3, restart_lr=False)} in six short cycles; AC/DC has "
        f"{held_out(30, method='acdc', **_OTHER)}, gradual pruning "
        f"{held_out(30, method='gradual', **_OTHER)}.",
        "**With many epochs, one schedule is better**: at 68x with 90 epochs "
        f"{held_out(90, 68, restart_lr=False)}, in six cycles "
        f"{held_out(90, 68, dense=5, sparse=10, restart_lr=False)}, with restarts "
        f"{held_out(90, 68)}, with a weight decay of 1e-4 "
        f"{held_out(90, 68, weight_decay=1e-4, restart_lr=False)}.",
        "**LeNet-5 at 12x**: "
        f"{held_out(21, 12)} with restarts, {held_out(21, 12, restart_lr=False)} in one schedule, "
        f"{held_out(21, 12, r0=None, restart_lr=False)} from the default r0, "
        f"{held_out(21, 12, restore_warmup=1.0)} with a rate that rises after each restoration; "
        f"dense training has {held_out(21, 12, **plain)}. These "
        "seeds do not tell them apart.",
        "**ERK and one schedule, as a user has them unless told otherwise**, 30 epochs, "
        f"thresholding at once against the default r0: LeNet-300-100 {held_out(30, **erk)} and "
        f"{held_out(30, **erk | {'r0': None})}; "
        + "; ".join(_at_once(network, trials) for network, trials in narrow.items())
        + ".",
        f"**LeNet-5 at 280x breaks down with some seeds**: {held_out(21, 280)} with restarts; one "
        f"schedule has {held_out(21, 280, restart_lr=False)}, and on test images breaks down, too "
        f"(below); gradual pruning has {held_out(21, 280, method='gradual', **_OTHER)}. The loss "
        "jumps within a dense span, as soon as the weights are restored.",
        "**A learning rate that rises from zero after each restoration** (`--restore-warmup`) "
        f"mended that with the seeds tried: {held_out(21, 280, restore_warmup=1.0)} with restarts, "
        f"{held_out(**longer, restore_warmup=3.0)} with twice the epochs and twice the "
        f"rate (without it, one schedule: {held_out(**longer, restart_lr=False)}; with it, one "
        f"schedule: {held_out(**longer, restore_warmup=1.0, restart_lr=False)}). At 56x, where "
        f"nothing breaks down, it brings nothing ({held_out(30, restore_warmup=1.0)}).",
        "**LeNet-5 at 280x with more epochs or other regularisation**: with 63 epochs "
        f"{held_out(**longest)} with restarts, {held_out(**longest, restart_lr=False)} in one "
        f"schedule, {held_out(**longest, weight_decay=1e-4)} with a weight decay of 1e-4; with 42 "
        f"epochs {held_out(**longer, restore_warmup=3.0, weight_decay=1e-3)} with one of 1e-3, "
        f"{held_out(**longer, restore_warmup=3.0, label_smoothing=0.1)} with label smoothing, "
        f"{held_out(**longer, restore_warmup=3.0, precision='fp32')} in fp32. With 126 epochs "
        f"{held_out(126, 280, lr=0.1, restore_warmup=8.0)}. With one or two seeds these are alike.",
        "**LeNet-5 at 280x otherwise**, 42 epochs: weights restored to their last values "
        f"{held_out(**longer, restore_warmup=3.0, restore='last')}; one schedule and a cycle in "
        f"every epoch, 20 of its 430 steps dense, {held_out(**short, dense=20, sparse=410)}, "
        f"{held_out(**short, dense=20, sparse=410, r0=0.98)} from 98 %, and 100 of them dense "
        f"{held_out(**short, dense=100, sparse=330)} and "
        f"{held_out(**short, dense=100, sparse=330, r0=0.98)}; AdamW "
        f"{held_out(42, 280, optimizer='adamw', lr=0.003, weight_decay=0.01, restore_warmup=3.0)}. "
        "None has fewer errors than the settings above.",
    ]
    lines = "\n".join(f"- {text}" for text in said)
    return (
        "What high sparsity needs, by errors on 5,000 held-out images, at 56x unless told "
        f"otherwise:\n\n{lines}\n\nSeeds of one setting differ by up to {_spread(runs, 56):.1f} "
        "points at 56x, so that only the largest of these differences are certain. The defaults of "
        "`skinny.timeline.sdnn` stay. Three cycles are among the best here. Thresholding at once "
        "wins on the LeNets and on networks that are trained already (MobileNetV2, below), but "
        "loses on the narrow CIFAR-10 network, and with a uniform budget it broke networks down "
        "in the small studies at 95 %."
    )


def _at_once(network: str, runs: Sequence[Run]) -> str:
    """A narrow network's errors by r0, at both sparsities that were tried."""
    told = []
    for sparsity in (0.9, 0.95):
        alike = {"method": "sdnn", "budget": "erk", "sparsity": sparsity, "train_size": 1000}
        alike |= {"dense": None, "sparse": None, "epochs": 30, "lr": 0.05, "restart_lr": False}
        errors = [_error(runs, alike | {"r0": r0}) for r0 in (sparsity, None)]
        told.append(f"{errors[0]} and {errors[1]} at {sparsity:.0%}")
    return f"{network} {', '.join(told)}"


def _error(runs: Sequence[Run], wanted: Mapping[str, object]) -> str:
    errors = [
        100 - 100 * run.result["test_accuracy"]
        for run in runs
        if all(getattr(run.config, name) == value for name, value in wanted.items())
    ]
    if not errors:
        raise ValueError(f"no trial has {wanted}")
    return f"{np.mean(errors):.2f} % (n = {len(errors)})"


def _spread(runs: Sequence[Run], ratio: int) -> float:
    """The largest difference between two seeds of one setting, in points."""
    errors: dict[str, list[float]] = {}
    for run in runs:
        if run.config.sparsity == 1 - 1 / ratio:
            setting = identity(replace(run.config, seed=0))
            errors.setdefault(setting, []).append(100 * run.result["test_accuracy"])
    return max(max(found) - min(found) for found in errors.values())
