"""The experiments. Adding one is a function here and its name below."""

import math
from collections.abc import Callable
from dataclasses import replace

from skinny.errors import SkinnyError
from skinny.experiments import published, tuning
from skinny.experiments.arms import baselines, dense, scaled, sdnn, times
from skinny.experiments.cifar import cifar10
from skinny.experiments.experiment import Arm, Experiment, Panel
from skinny.experiments.lenet import lenet
from skinny.experiments.protocol import protocol
from skinny.experiments.published import Cited
from skinny.experiments.quantised import quantised
from skinny.experiments.settings import Scale, setting
from skinny.training import Config

_HALF = math.sqrt(1 / 2)
# A skinny network against a dense one that is nearer to it in size than the one it came from.
_OF_LIKE_SIZE = (("SDNN-2x", "NIN_1/2"), ("SDNN_2-2x", "NIN"))


def table1(data: str, scale: Scale) -> Experiment:
    """NIN and SDNN on CIFAR-10, without and with flips."""
    return Experiment(
        "table1",
        "Table 1: CIFAR-10",
        "Does a skinny NIN match or beat the dense one, and networks of other sizes?",
        _with_and_without_flips("cifar10", scale, published.CIFAR10_PLAIN, published.CIFAR10_FLIPS),
    )


def table2(data: str, scale: Scale) -> Experiment:
    """NIN and SDNN on CIFAR-100, without and with flips."""
    return Experiment(
        "table2",
        "Table 2: CIFAR-100",
        "The same where every class has a tenth of the images.",
        _with_and_without_flips(
            "cifar100", scale, published.CIFAR100_PLAIN, published.CIFAR100_FLIPS
        ),
    )


def table3(data: str, scale: Scale) -> Experiment:
    """NIN and SDNN on MNIST, without augmentation."""
    arms = _networks(setting("mnist", scale))
    return Experiment(
        "table3",
        "Table 3: MNIST",
        "The same on handwritten digits, where the paper uses no augmentation.",
        (Panel("without augmentation", arms, published.MNIST, contrasts=_OF_LIKE_SIZE),),
    )


def table4(data: str, scale: Scale) -> Experiment:
    """AlexNet dense, SDNN-2x and SDNN-4x: top-5 errors on ImageNet (small: on Imagenette)."""
    base = setting("imagenet", scale)
    if scale != "smoke":
        base = replace(base, augment="flip-crop")
    name = "AlexNet" if scale == "small" else "AlexNet (Caffe)"
    arms = (dense(base, name), sdnn(base, 0.5), sdnn(base, 0.75))
    if scale == "small":
        note = "Ten classes of ImageNet, AlexNet of half width."
        return Experiment(
            "table4",
            "Table 4 on Imagenette",
            "Does a skinny AlexNet match the dense one on photographs?",
            (
                Panel("top-1 error", arms, note=note),  # the harder one, of ten classes
                Panel("top-5 error", arms, note=note, measure="top5"),
            ),
            seeds=(0,),
        )
    return Experiment(
        "table4",
        "Table 4: ImageNet",
        "Does a skinny AlexNet beat the dense one on a large data set?",
        (Panel("top-5 error", arms, published.IMAGENET_TOP5, measure="top5"),),
    )


def figure1(data: str, scale: Scale) -> Experiment:
    """Accuracy against sparsity, from 0 to 0.9."""
    base = _analysed(data, scale)
    arms = [dense(base, "r = 0")]
    tenths = (1, 5, 9) if scale == "smoke" else range(1, 10)
    arms += [sdnn(base, r / 10, f"r = {r / 10}") for r in tenths]
    cited = published.FIGURE1 if data == "cifar10" else ()
    return Experiment(
        "figure1",
        f"Figure 1: accuracy against sparsity on {NAMES[base.data]}",
        "How many weights can go before accuracy does?",
        (Panel("all layers at the same sparsity r", tuple(arms), cited),),
    )


def figure2(data: str, scale: Scale) -> Experiment:
    """Change ratio of neighbouring mask updates: spans of epochs against single steps."""
    base = _analysed(data, scale)
    arms = (
        dense(base),
        sdnn(base, 0.5, "multi-step", r0=0.5),
        sdnn(base, 0.5, "single-step", r0=0.5, unit="step", dense=1, sparse=1),
    )
    return Experiment(
        "figure2",
        f"Figure 2: change ratio on {NAMES[base.data]}",
        "How many weights change sides from one mask update to the next?",
        (
            Panel(
                "half of the weights removed",
                arms,
                note="The paper reports about 0.01 % at every single-step update, and large ratios "
                "early in training for multi-step updates.",
            ),
        ),
    )


def random(data: str, scale: Scale) -> Experiment:
    """Truncating random weights instead of small ones."""
    base = _analysed(data, scale)
    arms = (dense(base), sdnn(base, 0.5), sdnn(base, 0.5, "random thresholding", score="random"))
    return Experiment(
        "random",
        f"Random thresholding on {NAMES[base.data]}",
        "Does it matter which half of the weights is truncated?",
        (
            Panel(
                "half of the weights removed",
                arms,
                note="The paper reports that its networks diverge after random thresholding. A run "
                "whose loss becomes infinite is counted below as one without a result.",
                contrasts=(("SDNN-2x", "random thresholding"),),
            ),
        ),
    )


def progressive(data: str, scale: Scale) -> Experiment:
    """Sparsity that grows from mask update to mask update against the target at once."""
    base = _analysed(data, scale)
    arms = [dense(base)]
    sparsities = (0.8, 0.9, 0.95)
    for sparsity in sparsities:
        name = times(sparsity)
        arms += [
            sdnn(base, sparsity, f"{name}, progressive"),
            sdnn(base, sparsity, f"{name}, direct", r0=sparsity),
        ]
    return Experiment(
        "progressive",
        f"Progressive against direct thresholding on {NAMES[base.data]}",
        "Is it better to reach a high sparsity gradually?",
        (
            Panel(
                "80 %, 90 % and 95 % removed",
                tuple(arms),
                note="The paper reports that training may diverge when weights are truncated "
                "directly at 0.8 and above.",
                contrasts=tuple(
                    (f"{times(r)}, progressive", f"{times(r)}, direct") for r in sparsities
                ),
            ),
        ),
    )


def reinit(data: str, scale: Scale) -> Experiment:
    """Drawing the kept weights anew instead of keeping their values."""
    base = _analysed(data, scale)
    arms = [dense(base)]
    sparsities = (0.5, 0.9)
    for sparsity in sparsities:
        arms += [
            sdnn(base, sparsity),
            sdnn(base, sparsity, f"{times(sparsity)}, re-initialised", reinit=True),
        ]
    return Experiment(
        "reinit",
        f"Re-initialised weights on {NAMES[base.data]}",
        "Do the values of the kept weights matter, or only where they are?",
        (
            Panel(
                "kept weights keep their values, or are drawn anew",
                tuple(arms),
                note="The paper reports poor performance when they are drawn anew.",
                contrasts=tuple((times(r), f"{times(r)}, re-initialised") for r in sparsities),
            ),
        ),
    )


def baseline(data: str, scale: Scale) -> Experiment:
    """IHT against other ways to a small network, at 90 %, with equal budgets."""
    base = _analysed(data, scale)
    ours, others = sdnn(base, 0.9), baselines(base, 0.9)
    return Experiment(
        "baselines",
        f"Baselines on {NAMES[base.data]}",
        "What else gives a network of a tenth of the weights, and how good is it?",
        (
            Panel(
                "at 90 % sparsity",
                (dense(base), ours, *others),
                note="DSD ends dense and so keeps all weights. The greedy search comes on top of "
                "its equal share of epochs: it needs a dense network trained first, and looks at "
                "held-out training images only.",
                contrasts=tuple((ours.label, other.label) for other in others),
            ),
        ),
    )


def tuned(data: str, scale: Scale) -> Experiment:
    """The baselines again, each method with settings of its own, chosen on held-out images."""
    base = _analysed(data, scale)
    ours = sdnn(base, 0.9)
    others = [arm for arm in baselines(base, 0.9) if not arm.greedy]
    lr, decay = base.lr, base.weight_decay
    grid = {"lr": (lr, 2 * lr)}
    if scale != "smoke":
        grid["weight_decay"] = (decay, decay / 4)
    return Experiment(
        "tuned",
        f"Methods tuned one by one on {NAMES[base.data]}",
        "Do the settings that all share favour one method?",
        (
            Panel(
                "at 90 % sparsity",
                tuple(tuning.tuned(arm, grid) for arm in (dense(base), ours, *others)),
                note="Every arm has the settings, of one grid for all, with which its network "
                "was most accurate on training images that were held out. Chosen were:",
                contrasts=tuple((ours.label, other.label) for other in others),
                against="dense",
            ),
        ),
    )


_EXPERIMENTS: dict[str, Callable[[str, Scale], Experiment]] = {
    "table1": table1,
    "table2": table2,
    "table3": table3,
    "table4": table4,
    "figure1": figure1,
    "figure2": figure2,
    "random": random,
    "progressive": progressive,
    "reinit": reinit,
    "baselines": baseline,
    "tuned": tuned,
    "lenet": lenet,
    "protocol": protocol,
    "cifar10": cifar10,
    "quantised": quantised,
}
NAMES = {
    "cifar10": "CIFAR-10",
    "cifar100": "CIFAR-100",
    "mnist": "MNIST",
    "fashion-mnist": "Fashion-MNIST",
    "imagenet": "ImageNet",
    "imagenette": "Imagenette",
    "digits": "digits",
}
FIXED_DATA = {
    "table1": "cifar10",
    "table2": "cifar100",
    "table3": "mnist",
    "table4": "imagenet",
    "lenet": "mnist",
    "protocol": "mnist",
    "cifar10": "cifar10",
    "quantised": "mnist",
}


def names() -> tuple[str, ...]:
    return tuple(_EXPERIMENTS)


def describe(name: str) -> str:
    return (_EXPERIMENTS[name].__doc__ or "").splitlines()[0]


def experiment(name: str, data: str, scale: Scale) -> Experiment:
    """An experiment by its name; a table has its own data, the others take `data`."""
    if name not in _EXPERIMENTS:
        raise SkinnyError(f"there is no experiment {name!r}; there are {', '.join(names())}, all")
    return _EXPERIMENTS[name](FIXED_DATA.get(name, data), scale)


def _analysed(data: str, scale: Scale) -> Config:
    """The setting of the paper's section 4.2: with the augmentation its data is given there."""
    base = setting(data, scale)
    return replace(base, augment="flip") if data.startswith("cifar") and scale != "smoke" else base


def _networks(base: Config) -> tuple[Arm, ...]:
    double, half = scaled(base, 2), scaled(base, _HALF)
    return (
        dense(base, "NIN"),
        dense(base, "NIN_1/2", width=half),
        dense(base, "NIN_2", width=double),
        sdnn(base, 0.5),
        sdnn(base, 0.9),
        sdnn(base, 0.95),
        sdnn(base, 0.5, times(0.5, "SDNN_2"), width=double),
    )


def _with_and_without_flips(
    data: str, scale: Scale, plain: tuple[Cited, ...], flips: tuple[Cited, ...]
) -> tuple[Panel, ...]:
    base = setting(data, scale)
    return (
        Panel("without augmentation", _networks(base), plain, published.SWAPPED, _OF_LIKE_SIZE),
        Panel(
            "with flips",
            _networks(replace(base, augment="flip")),
            flips,
            published.SWAPPED,
            _OF_LIKE_SIZE,
        ),
    )
