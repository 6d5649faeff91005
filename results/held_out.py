"""What high sparsity needs, in words: errors on held-out images."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from skinny.experiments.runs import Run
from skinny.training.config import identity

_IHT: dict[str, Any] = {
    "method": "sdnn",
    "budget": "global",
    "dense": None,
    "sparse": None,
    "restart_lr": True,
    "restore_warmup": 0.0,
    "restore": "zero",
    "optimizer": "sgd",
    "weight_decay": 5e-4,
    "label_smoothing": 0.0,
}
_OTHER: dict[str, Any] = {"r0": None, "restart_lr": False}  # of methods other than IHT
_DENSE: dict[str, Any] = _OTHER | {"method": "dense", "sparsity": 0.0, "budget": "erk"}


class Trials(NamedTuple):
    """Runs, and what those have in common that a sentence is about."""

    runs: Sequence[Run]
    usual: Mapping[str, Any]

    def but(self, **changes: Any) -> "Trials":
        return Trials(self.runs, {**self.usual, **changes})

    def at(self, ratio: int, **changes: Any) -> "Trials":
        """Pruned to the target in every cycle."""
        sparsity = 1 - 1 / ratio
        return self.but(sparsity=sparsity, r0=sparsity, **changes)

    def error(self, **changes: Any) -> str:
        wanted = {**self.usual, **changes}
        errors = [
            100 - 100 * run.result["test_accuracy"]
            for run in self.runs
            if all(getattr(run.config, name) == value for name, value in wanted.items())
        ]
        if not errors:
            raise ValueError(f"no trial has {wanted}")
        return f"{np.mean(errors):.2f} % (n = {len(errors)})"


def section(runs: Sequence[Run], narrow: Mapping[str, Sequence[Run]]) -> str:
    """The trials of the LeNets, and {network: its trials} of the narrow networks."""
    mlp = Trials(runs, _IHT | {"model": "lenet-300-100", "lr": 0.1, "precision": "fp32"})
    conv = Trials(runs, _IHT | {"model": "lenet-5", "lr": 0.05, "precision": "bf16"})
    said = [*_mlp(mlp.at(56)), *_mlp_longer(mlp.at(68, epochs=90)), _conv(conv.at(12, epochs=21))]
    said += [*_conv_fewest(conv.at(280), mlp), *_defaults(mlp.at(56, epochs=30), narrow)]
    lines = "\n".join(f"- {text}" for text in said)
    return (
        "What high sparsity needs, by errors on 5,000 held-out images. Seeds of one setting differ "
        f"by up to {_spread(runs, 56):.1f} points at 56x, and numbers beside each other may be of "
        f"other seeds, so that only the largest of these differences are certain.\n\n{lines}\n"
    )


def _mlp(at: Trials) -> list[str]:
    """LeNet-300-100 at 56x."""
    short, forty = at.but(epochs=30), at.but(epochs=40, weight_decay=1e-4)
    sixty = at.but(epochs=60)
    return [
        f"**LeNet-300-100 at 56x, thresholding at once**: {short.error()} with 30 epochs, "
        f"{short.error(r0=None)} from the default r0, {short.error(r0=0.5)} from 50 %.",
        "**Cycles**: with 40 epochs and a weight decay of 1e-4 "
        f"{forty.error(dense=3, sparse=37)} in one cycle, {forty.error(dense=8, sparse=12)} in "
        f"two, {forty.error()} in three, {forty.error(dense=2, sparse=6)} in five; gradual pruning "
        f"has {forty.error(method='gradual', **_OTHER)}.",
        f"**Learning rate**: {forty.error(lr=0.2)} with 0.2, where 0.1 has {forty.error()}; in "
        f"five cycles {forty.error(dense=2, sparse=6, lr=0.05)} with 0.05. Label smoothing brings "
        f"nothing ({forty.error(label_smoothing=0.1)}).",
        f"**Weight decay** matters little with 60 epochs: {sixty.error()} at 5e-4, "
        f"{sixty.error(weight_decay=1e-4)} at 1e-4, {sixty.error(weight_decay=2e-5)} at 2e-5.",
        "**One schedule of the learning rate** seems to do as well as one in every cycle: "
        f"{short.error(restart_lr=False)} with 30 epochs, "
        f"{short.error(dense=2, sparse=3, restart_lr=False)} in six short cycles; AC/DC has "
        f"{short.error(method='acdc', **_OTHER)}, gradual pruning "
        f"{short.error(method='gradual', **_OTHER)}.",
    ]


def _mlp_longer(at: Trials) -> list[str]:
    """LeNet-300-100 at 68x, where 30 epochs had lost to published results."""
    return [
        "**With 90 epochs, one schedule seemed better** (at 68x): "
        f"{at.error(restart_lr=False)}, in six cycles "
        f"{at.error(dense=5, sparse=10, restart_lr=False)}, with restarts {at.error()}, with a "
        f"weight decay of 1e-4 {at.error(weight_decay=1e-4, restart_lr=False)}. The recipe "
        "`lenet-300-100` has what did best here."
    ]


def _conv(at: Trials) -> str:
    return (
        f"**LeNet-5 at 12x**: {at.error()} with restarts, {at.error(restart_lr=False)} in one "
        f"schedule, {at.error(r0=None, restart_lr=False)} from the default r0, "
        f"{at.error(restore_warmup=1.0)} with a rate that rises after each restoration; dense "
        f"training has {at.error(**_DENSE)}. These seeds do not tell them apart."
    )


def _conv_fewest(at: Trials, mlp: Trials) -> list[str]:
    """LeNet-5 at 280x."""
    first = at.but(epochs=21)
    longer = at.but(epochs=42, lr=0.1)
    warmed = longer.but(restore_warmup=3.0)
    longest = longer.but(epochs=63, restore_warmup=4.0)
    short = longer.but(restart_lr=False)
    three_nine = longest.error(dense=3, sparse=9, restore_warmup=3.0, restart_lr=False)
    adamw = warmed.error(optimizer="adamw", lr=0.003, weight_decay=0.01)
    return [
        f"**LeNet-5 at 280x breaks down with some seeds**: {first.error()} with restarts; one "
        f"schedule has {first.error(restart_lr=False)}, and breaks down on test images, too; "
        f"gradual pruning has {first.error(method='gradual', **_OTHER)}. The loss jumps within a "
        "dense span, as soon as the weights are restored.",
        "**A learning rate that rises from zero after each restoration** (`--restore-warmup`) "
        f"mended that with the seeds tried: {first.error(restore_warmup=1.0)} with restarts, "
        f"{warmed.error()} with twice the epochs and twice the rate (without it, one schedule: "
        f"{short.error()}; with it, one schedule: {short.error(restore_warmup=1.0)}). At 56x, "
        "where nothing breaks down, it brings nothing "
        f"({mlp.at(56, epochs=30).error(restore_warmup=1.0)}).",
        "**LeNet-5 at 280x with more epochs or other regularisation**: with 63 epochs "
        f"{longest.error()} with restarts, {longest.error(restart_lr=False)} in one schedule, "
        f"{three_nine} in one schedule and five cycles, "
        f"{longest.error(weight_decay=1e-4)} with a weight decay of 1e-4; with 42 epochs "
        f"{warmed.error(weight_decay=1e-3)} with one of 1e-3, "
        f"{warmed.error(label_smoothing=0.1)} with label smoothing, "
        f"{warmed.error(precision='fp32')} in fp32. With 126 epochs "
        f"{at.error(epochs=126, lr=0.1, restore_warmup=8.0)}. With one or two seeds these are "
        "alike.",
        "**LeNet-5 at 280x otherwise**, 42 epochs: weights restored to their last values "
        f"{warmed.error(restore='last')}; one schedule and a cycle in every epoch, 20 of its 430 "
        f"steps dense, {short.error(dense=20, sparse=410)}, "
        f"{short.error(dense=20, sparse=410, r0=0.98)} from 98 %, and 100 of them dense "
        f"{short.error(dense=100, sparse=330)} and "
        f"{short.error(dense=100, sparse=330, r0=0.98)}; AdamW {adamw}. None of these has "
        f"fewer errors than {warmed.error()}, which the settings kept have.",
    ]


def _defaults(at: Trials, narrow: Mapping[str, Sequence[Run]]) -> list[str]:
    """What a user has unless told otherwise: ERK, r0 of its own, one schedule."""
    plain = at.but(restart_lr=False, budget="erk")
    return [
        "**The defaults of `skinny.timeline.sdnn`**, 30 epochs, one schedule, ERK: LeNet-300-100 "
        f"{plain.error(r0=None)}; {_each(narrow, r0=None)}. Thresholding at once: LeNet-300-100 "
        f"{plain.error()}; {_each(narrow, at_once=True)}. Thresholding at once did better on "
        "LeNet-300-100 and on MobileNetV2, which is trained already (below); on the narrow "
        "CIFAR-10 network it did worse, and with uniform budgets it broke networks down in the "
        "small studies at 95 %. The default r0 lies between 50 % and the target.",
        "**One threshold over all layers (global) in place of ERK**, the default r0: "
        f"{_each(narrow, r0=None, budget='global')}. At 95 % it is worse, and with thresholding "
        "at once networks break down: "
        f"{_each(narrow, (0.95,), budget='global', at_once=True)}. So ERK stays the default, "
        "though one threshold has lower mean errors on LeNet-5 from 60x on, not significantly "
        "([results.md](results.md)); that network has no batch normalisation.",
    ]


def _each(
    narrow: Mapping[str, Sequence[Run]],
    sparsities: Sequence[float] = (0.9, 0.95),
    *,
    at_once: bool = False,
    **wanted: Any,
) -> str:
    """The errors of each narrow network at each sparsity."""
    return "; ".join(
        f"{network} "
        + ", ".join(
            f"{_narrow(runs, s).error(**wanted, **({'r0': s} if at_once else {}))} at "
            f"{100 * s:.0f} %"
            for s in sparsities
        )
        for network, runs in narrow.items()
    )


def _narrow(runs: Sequence[Run], sparsity: float) -> Trials:
    alike = {"method": "sdnn", "budget": "erk", "sparsity": sparsity, "train_size": 1000}
    alike |= {"dense": None, "sparse": None, "epochs": 30, "lr": 0.05, "restart_lr": False}
    return Trials(runs, alike)


def _spread(runs: Sequence[Run], ratio: int) -> float:
    """The largest difference between two seeds of one setting, in points."""
    errors: dict[str, list[float]] = {}
    for run in runs:
        if run.config.sparsity == 1 - 1 / ratio:
            setting = identity(replace(run.config, seed=0))
            errors.setdefault(setting, []).append(100 * run.result["test_accuracy"])
    return max(max(found) - min(found) for found in errors.values())
