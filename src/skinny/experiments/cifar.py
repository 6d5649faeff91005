"""All of CIFAR-10 with a fast modern network."""

from dataclasses import replace

from skinny.experiments.arms import dense, sdnn
from skinny.experiments.experiment import Arm, Experiment, Panel
from skinny.experiments.settings import Scale, setting
from skinny.training import Config, recipe

_RATIOS = (2, 5, 10, 20)


def cifar10(data: str, scale: Scale) -> Experiment:
    """A fast network on all of CIFAR-10: dense, and 2 to 20 times smaller."""
    base = _setting(scale)
    skinny = [
        Arm(f"SDNN-{ratio}x", replace(base, method="sdnn", sparsity=1 - 1 / ratio))
        for ratio in _RATIOS
    ]
    return Experiment(
        "cifar10",
        "All of CIFAR-10",
        "What does a fast network keep that is trained on all images?",
        (
            Panel("airnet of half width", (dense(base), *skinny), against="dense"),
            *_nin(scale),
        ),
        seeds=tuple(range(2 if scale == "smoke" else 3)),
    )


def _nin(scale: Scale) -> tuple[Panel, ...]:
    """The paper's own network at a size that two cores can train."""
    if scale != "paper":
        return ()
    base = recipe("cifar10-nin")
    arms = (dense(base), sdnn(base, 0.5))
    return (Panel("NIN of half width", arms, against="dense", few=1),)


def _setting(scale: Scale) -> Config:
    base = recipe("cifar10-airnet")
    if scale == "paper":
        return base
    if scale == "small":
        return replace(base, name="cifar10-airnet-small", train_size=5000)
    return setting("cifar10", scale)  # airnet needs larger images than digits of 8x8 pixels
