"""Whose protocol? What the paper's gain is made of: epochs, restarts, sparsity.

The paper trains its networks for several times the epochs of the dense network that it compares
them with, in cycles that restart the learning rate. Here each of the three comes alone.
"""

from dataclasses import replace

from skinny.experiments.arms import dense
from skinny.experiments.experiment import Experiment, Panel
from skinny.experiments.lenet import at_ratio, lenet_setting
from skinny.experiments.settings import Scale, setting
from skinny.training import Config

_FEW = 5  # seeds of NIN
_TIMES = 3  # as often as dense training, and as many cycles: the paper has 330 epochs for 120


def protocol(data: str, scale: Scale) -> Experiment:
    """Epochs, restarts or sparsity: which of them makes the paper's gain over dense training."""
    settings = {"LeNet-300-100": lenet_setting("lenet-300-100", scale)}
    if scale != "smoke":  # where all would be digits, and LeNet-5 needs larger images
        settings["LeNet-5"] = lenet_setting("lenet-5", scale)
        # The paper's own networks at the scale `small`, whatever the scale: two cores can do that.
        settings["NIN on 1,000 images of MNIST"] = _nin("mnist")
        settings["NIN on 1,000 images of CIFAR-10"] = _nin("cifar10")
    return Experiment(
        "protocol",
        "Whose protocol?",
        "Is it more epochs, restarted learning rates or sparsity that helps?",
        tuple(_panel(title, base) for title, base in settings.items()),
        seeds=tuple(range(2 if scale == "smoke" else 10)),
    )


def _nin(data: str) -> Config:
    return replace(setting(data, "small"), restart_lr=True)


def _panel(network: str, base: Config) -> Panel:
    """The three changes one after the other, each against the arm before it, and all at once."""
    few, many = max(1, base.epochs // _TIMES), base.epochs
    # the same training with fewer epochs has a schedule of its own, and no spans
    short = replace(base, epochs=few, dense=None, sparse=None)
    arms = (
        dense(short, f"dense, {few} epochs", restart_lr=False),
        dense(base, f"dense, {many} epochs", restart_lr=False),
        dense(base, f"dense, {many} epochs, restarted", restart_lr=True),
        replace(at_ratio(base, 2), label=f"SDNN-2x, {many} epochs"),
    )
    labels = [arm.label for arm in arms]
    return Panel(
        network,
        arms,
        note="The first three pairs below are the gain by more epochs, by restarts and by "
        "sparsity; the last is all of them, which is what the paper reports as the gain of its "
        "method.",
        contrasts=(*zip(labels[1:], labels, strict=False), (labels[-1], labels[0])),
        against=labels[0],
        few=_FEW if base.model.startswith("nin") else None,
    )
