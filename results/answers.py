"""What the record tables say in words, computed from them."""

from collections.abc import Sequence

import files_table
import numpy as np
from files_table import Files, Times
from readme import signed

from skinny.experiments.comparison import ALPHA, Contrast, contrasts
from skinny.experiments.study import Study
from skinny.training.config import identity

_POINTS = 0.1  # of error that rounding may cost
_STEPS = ("three times the epochs", "restarting the learning rate", "removing half of the weights")


def files(studies: Sequence[Study], found: Files, times: Times, machine: str) -> str:
    """The files of each network: sizes, errors and times, dense and skinny, exact and rounded."""
    tables = [
        f"{study.title.split(', ')[1]}:\n\n{files_table.table(study, found, times)}"
        for study in studies
    ]
    head = (
        "### Files\n\nSizes of the packed files and test errors with the weights "
        "that they hold, rounded after training: means over the n seeds that were packed, fewer "
        "than in the studies above. Codebooks of 2 to 4 bits "
        "have their values chosen for each layer. Deep Compression's 27 kB (LeNet-300-100) and 44 "
        "kB (LeNet-5) lost nothing against its dense networks. Milliseconds are those of one image "
        "and one thread, of trainings with seed 0, exact weights, medians of 100 rounds "
        f"({machine}); the other engines compute pruned layers as dense ones. The sizes in the "
        "tables of studies are those of the files that the runs themselves wrote, most of them "
        "before format 4, which makes files smaller."
    )
    return "\n\n".join([head, *tables]) + "\n"


def rounded(study: Study, found: Files) -> str:
    """Files of a network that few bits may ruin."""
    return (
        "### Files of airnet\n\nSizes and errors, rounded after training; the batch normalisation "
        f"is not trained anew. –: not tried.\n\n{files_table.table(study, found, {})}\n"
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
    head = [*_STEPS, "all three"]
    rows = [
        f"| network | n | {' | '.join(head)} |",
        f"| --- | ---: |{' ---: |' * len(head)}",
        *map(_row, told),
    ]
    note = (
        "Points of accuracy that each step brings to the one before it, with 95 % intervals; bold: "
        f"p < {ALPHA} (Holm)."
    )
    return "\n\n".join([_carries(told), intro, "\n".join(rows), note])


def _carries(studies: Sequence[Study]) -> str:
    """Which of the three helps or hurts significantly, and on how many of the networks."""
    said, helped = [], []
    for index, name in enumerate(_STEPS):
        steps = [contrasts(study)[index] for study in studies]
        means = [step.difference.mean for step in steps]
        sure = [step.difference.mean for step in steps if step.p < ALPHA]
        helps, hurts = sum(mean > 0 for mean in sure), sum(mean < 0 for mean in sure)
        helped += [name] if helps else []
        said.append(
            f"{name} brings {signed(min(means))} to {signed(max(means))} points, significantly "
            f"better on {helps} of {len(studies)} networks and significantly worse on {hurts}"
        )
    carried = {
        (): "None of the three brings a significant gain",
        _STEPS[:1]: "Only more epochs bring a significant gain, restarts and sparsity none",
    }.get(tuple(helped), f"Significant gains come from {' and '.join(helped)}")
    sparsity = (
        " So the paper's gains are no evidence for sparsity without dense training of the same "
        "length; its own networks, at their 330 epochs, were not trained here."
        if _STEPS[2] not in helped
        else ""
    )
    return f"**{carried}**: {'; '.join(said)} (p < {ALPHA}, Holm).{sparsity}"


def _row(study: Study) -> str:
    found = contrasts(study)
    network = study.title.split(", ")[1]
    cells = [network, str(found[0].difference.n), *map(_points, found)]
    return f"| {' | '.join(cells)} |"


def _points(step: Contrast) -> str:
    found = step.difference
    mean = f"**{signed(found.mean)}**" if step.p < ALPHA else signed(found.mean)
    return f"{mean} ({signed(found.low)} to {signed(found.high)})"
