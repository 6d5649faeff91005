"""What the record tables say in words, computed from them."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import files_table
import numpy as np
from files_table import Files, Times

from skinny.experiments.comparison import Contrast, contrasts
from skinny.experiments.runs import Run
from skinny.experiments.study import Study
from skinny.training.config import identity

_ALPHA = 0.05
_POINTS = 0.1  # of error that rounding may cost
_STEPS = ("three times the epochs", "restarting the learning rate", "removing half of the weights")


def files(study: Study, found: Files, times: Times) -> str:
    """A network's files: sizes, errors and times, dense and skinny, exact and rounded."""
    network = study.title.split(", ")[1]
    return (
        f"### Files of {network}\n\nSizes of the packed files and test errors with the weights "
        "that they hold, rounded after training: means over n seeds. Codebooks of 2 to 4 bits "
        "have their values chosen for each layer. Deep Compression's 27 kB (LeNet-300-100) and 44 "
        "kB (LeNet-5) lost nothing against its dense networks. Milliseconds are those of one image "
        "and one thread, seed 0, exact weights. The sizes in the tables of studies are those of "
        "the files that the runs themselves wrote, most of them before format 4, which makes files "
        "smaller.\n\n"
        f"{files_table.table(study, found, times)}\n"
    )


def smallest(studies: Sequence[Study], found: Files) -> str:
    """LeNet-5's files within the size of entropy-penalised ones."""
    said = [
        f"{arm.label}, {arm.config.epochs} epochs: {own[0]:.2f} kB at {own[1]:.2f} % (n = "
        f"{len(arm.runs)})"
        for study in studies
        for arm in (files_table.those_in(arm, found) for arm in study.arms)
        if (own := files_table.point(arm, found, "smallest")) is not None
    ]
    if not said:
        return ""
    return (
        "Entropy-penalised networks (Oktay et al. 2020) take 2.8 kB at 1.0 % errors. Packed within "
        "2.8 kB (`skinny pack RUN --size 2.8kB`; biases rounded to 16 bits, weights to fewer "
        f"values where they would take more), ours: {'; '.join(said)}. Codes of random weights "
        "(MIRACLE, Havasi et al. 2019) are reported to be smaller still.\n"
    )


def coded_by_others(studies: Sequence[Study], found: Files, peers: Files) -> str:
    """The same weights in other programs' hands; nothing where none has been tried."""
    tables, said = [], []
    for study in studies:
        if not study.cited or not (table := files_table.coded_by_others(study, found, peers)):
            continue
        network = study.title.split(", ", 1)[1]
        tables.append(f"{network}:\n\n{table}\n")
        said += [
            f"{network}, {arm.label}: nncodec {theirs[0]:.1f} kB at {theirs[1]:.2f} %, ours "
            f"{ours[0]:.1f} kB at {ours[1]:.2f} %"
            for arm in (files_table.those_in(arm, peers) for arm in study.arms)
            if (theirs := files_table.least(arm, peers, "nncodec", within=_POINTS)) is not None
            and (ours := files_table.least(arm, found, "", within=_POINTS)) is not None
        ]
    if not tables:
        return ""
    head = (
        "### Other codecs on the same weights\n\nnncodec 2.1.3 (ISO 15938-17) rounds to even steps "
        "(the larger qp, the coarser; small weights become zero, so that this prunes further) and "
        "codes by contexts; zipnn 0.5.4 loses nothing. Their "
        "bytes are those of the weights alone; ours are whole files, with graph, labels and "
        "preprocessing (about 0.6 kB). Means over seeds, of those that were coded so. The smallest "
        f"at errors of at most {_POINTS} points more than those of the exact weights, both rounded "
        f"after training: {'; '.join(said)}.\n"
    )
    return "\n".join([head, *tables])


def in_openvino(studies: Sequence[Study], found: Files) -> str:
    """What the dense networks of these studies lose in OpenVINO's int8; nothing if none was run."""
    said = []
    for study in studies:
        errors = [
            found[key]
            for arm in study.arms
            for run in arm.runs
            if (key := identity(run.config)) in found
        ]
        if errors:
            plain, rounded = (
                np.mean([entry[f"openvino {values}"]["error"] for entry in errors])
                for values in ("fp32", "int8")
            )
            said.append(
                f"{study.title.split(', ')[-1]} {plain:.2f} % in fp32 and {rounded:.2f} % in int8 "
                f"(n = {len(errors)})"
            )
    if not said:
        return ""
    return (
        "**OpenVINO's int8 of the dense networks** (NNCF, calibrated on 512 training "
        f"images): errors on {'; '.join(said)}."
    )


def protocol(studies: Sequence[Study]) -> str:
    """Which of epochs, restarts and sparsity carries the gain."""
    intro = (
        "The paper trains its skinny networks for cycles of 165 epochs, to convergence, and "
        "compares them with dense networks as published, trained for fewer; if each cycle has the "
        "published schedule of the learning rate, which it does not say, its gain (1.9 points on "
        "CIFAR-10, 0.28 on MNIST) mixes more epochs, restarted learning rates and sparsity. Here "
        "each is added alone, on networks that train in minutes: the LeNets on all of MNIST, "
        "narrow NINs on 1,000 images."
    )
    told = [study for study in studies if len(contrasts(study)) == len(study.contrasts)]
    return " ".join([intro, _carries(told), *map(_told, told)])


def _carries(studies: Sequence[Study]) -> str:
    """Which of the three helps or hurts significantly, and on how many of the networks."""
    said = []
    for index, name in enumerate(_STEPS):
        steps = [contrasts(study)[index] for study in studies]
        sure = [step.difference.mean for step in steps if step.p < _ALPHA]
        helps, hurts = sum(mean > 0 for mean in sure), sum(mean < 0 for mean in sure)
        said.append(f"{name} helps on {helps} of {len(studies)} networks and hurts on {hurts}")
    return f"**In short**: by p < {_ALPHA} (Holm), {'; '.join(said)}."


def _told(study: Study) -> str:
    found = contrasts(study)
    network, *_ = study.title.split(", ")[1:]
    steps = "; ".join(
        f"{name} brings {_points(step)}" for name, step in zip(_STEPS, found, strict=False)
    )
    sure = [
        f"{name} ({'a gain' if step.difference.mean > 0 else 'a loss'})"
        for name, step in zip(_STEPS, found, strict=False)
        if step.p < _ALPHA
    ]
    verdict = (
        f"Significant: {' and '.join(sure)}."
        if sure
        else f"With n = {found[0].difference.n} none of the three is significant."
    )
    return f"**{network}**: {steps}; all three together {_points(found[-1])}. {verdict}"


def _points(step: Contrast) -> str:
    found = step.difference
    if found.n < 2:
        return f"{found.mean:+.2f} points (one seed: no interval)"
    return f"{found.mean:+.2f} points (95 % interval {found.low:+.2f} to {found.high:+.2f})"


def _spread(runs: Sequence[Run], ratio: int) -> float:
    """The largest difference between two seeds of one setting, in points."""
    errors: dict[str, list[float]] = {}
    for run in runs:
        if run.config.sparsity == 1 - 1 / ratio:
            setting = identity(replace(run.config, seed=0))
            errors.setdefault(setting, []).append(100 * run.result["test_accuracy"])
    return max(max(found) - min(found) for found in errors.values())


def search(runs: Sequence[Run]) -> str:
    """What high sparsity needs, from held-out errors of the LeNets."""

    def held_out(epochs: int, ratio: int = 56, **wanted: object) -> str:
        usual = {"sparsity": 1 - 1 / ratio, "r0": 1 - 1 / ratio, "dense": None, "sparse": None}
        five = ratio in (12, 280)  # LeNet-5
        usual |= {"method": "sdnn", "lr": 0.05 if five else 0.1, "label_smoothing": 0.0}
        usual |= {"weight_decay": 1e-4 if epochs == 40 else 5e-4, "restart_lr": True}
        usual |= {"epochs": epochs, "restore_warmup": 0.0, "restore": "zero", "optimizer": "sgd"}
        usual |= {"precision": "bf16" if five else "fp32"} | wanted
        errors = [
            100 - 100 * run.result["test_accuracy"]
            for run in runs
            if all(getattr(run.config, name) == value for name, value in usual.items())
        ]
        return f"{np.mean(errors):.2f} % (n = {len(errors)})"

    other = {"r0": None, "restart_lr": False}  # of other methods
    longer: dict[str, Any] = {"epochs": 42, "ratio": 280, "lr": 0.1}
    longest = longer | {"epochs": 63, "restore_warmup": 4.0}
    short = longer | {"restart_lr": False}
    said = [
        f"**Thresholding at once**: {held_out(30)} with 30 epochs, {held_out(30, r0=None)} from "
        f"the default r0, {held_out(30, r0=0.5)} from 50 %.",
        "**Several cycles**: with 40 epochs and a weight decay of 1e-4 "
        f"{held_out(40, dense=3, sparse=37)} in one cycle, "
        f"{held_out(40, dense=8, sparse=12)} in two, {held_out(40)} in three, "
        f"{held_out(40, dense=2, sparse=6)} in five; gradual pruning has "
        f"{held_out(40, method='gradual', **other)}.",
        f"**No higher learning rate**: {held_out(40, lr=0.2)} with 0.2, where 0.1 has "
        f"{held_out(40)}; label smoothing brings nothing ({held_out(40, label_smoothing=0.1)}).",
        f"**Weight decay** matters little with 60 epochs: {held_out(60)} at 5e-4, "
        f"{held_out(60, weight_decay=1e-4)} at 1e-4, {held_out(60, weight_decay=2e-5)} at 2e-5; "
        "with 90 epochs at 68x, 1e-4 is worse (below).",
        "**One schedule of the learning rate** does as well as one in every cycle: "
        f"{held_out(30, restart_lr=False)} with 30 epochs, "
        f"{held_out(30, dense=2, sparse=3, restart_lr=False)} in six short cycles; AC/DC has "
        f"{held_out(30, method='acdc', **other)}, gradual pruning "
        f"{held_out(30, method='gradual', **other)}.",
        "**With many epochs, one schedule is better**: at 68x with 90 epochs "
        f"{held_out(90, 68, restart_lr=False)}, in six cycles "
        f"{held_out(90, 68, dense=5, sparse=10, restart_lr=False)}, with restarts "
        f"{held_out(90, 68)}, with a weight decay of 1e-4 "
        f"{held_out(90, 68, weight_decay=1e-4, restart_lr=False)}.",
        "**LeNet-5 at 12x**: "
        f"{held_out(21, 12)} with restarts, {held_out(21, 12, restart_lr=False)} in one schedule, "
        f"{held_out(21, 12, r0=None, restart_lr=False)} from the default r0, "
        f"{held_out(21, 12, restore_warmup=1.0)} with a rate that rises after each restoration; "
        f"dense training has {held_out(21, 12, method='dense', sparsity=0.0, **other)}. One seed "
        "does not tell these apart.",
        f"**LeNet-5 at 280x breaks down with some seeds**: {held_out(21, 280)} with restarts; one "
        f"schedule has {held_out(21, 280, restart_lr=False)}, and on test images breaks down, too "
        f"(below); gradual pruning has {held_out(21, 280, method='gradual', **other)}. The loss "
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
        "`skinny.timeline.sdnn` stay: three cycles are among the best here, and thresholding at "
        "once, which wins here, broke networks down in the small studies at 95 %."
    )
