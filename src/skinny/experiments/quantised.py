"""Skinny networks of 8-bit numbers, and masks with structure: what each costs."""

from dataclasses import replace

from skinny.experiments.arms import dense, sdnn
from skinny.experiments.experiment import Arm, Experiment, Panel
from skinny.experiments.settings import Scale, setting
from skinny.training import Config, recipe
from skinny.training.config import Quantize

_FEW = 3  # seeds of what differs little between them


def quantised(data: str, scale: Scale) -> Experiment:
    """LeNet-5 on MNIST and airnet on CIFAR-10 in int8, after training and trained; patterns."""
    lenet, airnet = _lenet(scale), _airnet(scale)
    panels = [_bits(lenet, "8 bits, MNIST"), _patterns(lenet)]
    if scale != "smoke":  # where both would be the same network on the same digits
        panels += [_bits(airnet, "8 bits, CIFAR-10"), _trained(airnet, "8 bits, CIFAR-10, trained")]
    return Experiment(
        "quantised",
        "Few bits and patterns",
        "What do 8-bit numbers, and masks that suit processors, cost a skinny network?",
        tuple(panels),
        seeds=tuple(range(2 if scale == "smoke" else 10)),
    )


def _bits(base: Config, title: str) -> Panel:
    plain, trained = _plain_and_trained(base)
    after = _at(base, 0.9, "SDNN-10x, int8 after training", quantize="int8-after")
    grouped = _at(base, 0.9, "SDNN-10x, 1x4, int8 trained", quantize="int8", pattern="1x4")
    return Panel(
        title,
        (dense(base, "dense, fp32"), plain, after, trained, grouped),
        note="Weights and the inputs of layers are rounded to 8 bits, and evaluated so: when the "
        "training is over, by ranges of 1,024 training images, or from the beginning of the last "
        "sparse span on.",
        contrasts=tuple((arm.label, plain.label) for arm in (after, trained, grouped)),
        against="dense, fp32",
        few=_FEW,
    )


def _trained(base: Config, title: str) -> Panel:
    """What training for 8 bits costs, with more seeds: it is less than what seeds differ by."""
    plain, trained = _plain_and_trained(base)
    return Panel(title, (plain, trained), contrasts=((trained.label, plain.label),))


def _plain_and_trained(base: Config) -> tuple[Arm, Arm]:
    return (
        _at(base, 0.9, "SDNN-10x, fp32"),
        _at(base, 0.9, "SDNN-10x, int8 trained", quantize="int8"),
    )


def _patterns(base: Config) -> Panel:
    arms = [dense(base, "dense")]
    contrasts = []
    # of every ten input channels as many as the budget would keep: what 2:4 is at 50 %
    for sparsity, n_of_m in ((0.8, "2:10"), (0.9, "1:10")):
        free = _at(base, sparsity, f"{sparsity:.0%}, unstructured")
        some = [
            _at(base, sparsity, f"{sparsity:.0%}, {pattern}", pattern=pattern)
            for pattern in ("1x4", n_of_m)
        ]
        arms += [free, *some]
        contrasts += [(arm.label, free.label) for arm in some]
    return Panel(
        "patterns",
        tuple(arms),
        note="The first convolution has one input channel, and is unstructured in all.",
        contrasts=tuple(contrasts),
        against="dense",
        few=_FEW,
    )


def _at(
    base: Config,
    sparsity: float,
    label: str,
    quantize: Quantize | None = None,
    pattern: str | None = None,
) -> Arm:
    return sdnn(base, sparsity, label, r0=sparsity, quantize=quantize, pattern=pattern)


def _lenet(scale: Scale) -> Config:
    if scale == "smoke":  # LeNet-5 needs larger images than digits of 8x8 pixels
        return replace(setting("digits", scale), width=0.625, budget="erk")
    base = replace(recipe("lenet-5"), budget="erk")
    if scale == "paper":
        return base
    return replace(base, name="lenet-5-small", train_size=2000, epochs=30, eval_every=30)


def _airnet(scale: Scale) -> Config:
    base = recipe("cifar10-airnet")
    if scale == "paper":
        return base
    return replace(
        base,
        name="cifar10-airnet-5k",
        whitened=False,  # as in the recorded results
        train_size=5000,
        epochs=30,
        dense=3,
        sparse=12,
        eval_every=30,
    )
