"""How large an experiment is: the config that all of its runs start from, by data and scale.

paper   the paper's own setting, for GPUs
small   real data cut to what two cores do in about an hour per experiment: few images, so that
        there is something to overfit, and a narrow network
smoke   digits, in about a minute: proves the path and says nothing about the method
"""

from dataclasses import replace
from typing import Literal, NamedTuple

from skinny.errors import SkinnyError
from skinny.training import Config, recipe

Scale = Literal["paper", "small", "smoke"]


class Shape(NamedTuple):
    """What a data set asks of a network."""

    classes: int
    channels: int


SHAPES = {
    "cifar10": Shape(10, 3),
    "cifar100": Shape(100, 3),
    "mnist": Shape(10, 1),
    "fashion-mnist": Shape(10, 1),
    "imagenet": Shape(1000, 3),
    "imagenette": Shape(10, 3),
    "digits": Shape(10, 1),
}


def setting(data: str, scale: Scale) -> Config:
    """Dense training on `data` without augmentation: what the arms of an experiment vary.

    Every layer gets the same sparsity, as in the paper, whatever a recipe prefers.
    """
    if data not in SHAPES:
        raise SkinnyError(f"there is no setting for {data!r}; there are {', '.join(SHAPES)}")
    if scale == "smoke" or data == "digits":
        made = _digits(scale)
    else:
        made = _paper(data) if scale == "paper" else _small(data)
    return replace(made, method="dense", augment="none", budget="uniform")


def default_seeds(data: str, scale: Scale) -> tuple[int, ...]:
    """Enough to say something: an interval needs three, and MNIST's differences are small."""
    if scale == "smoke":
        return (0, 1)
    if scale == "small" and data in ("mnist", "fashion-mnist", "digits"):
        return (0, 1, 2, 3, 4)
    return (0, 1, 2)


def hold_out_size(config: Config) -> int:
    """How many images a search may look at: never test images."""
    if config.train_size is None:
        return 300 if config.data == "digits" else 5000
    return max(50, config.train_size // 2)


def _paper(data: str) -> Config:
    if data == "fashion-mnist":
        return replace(recipe("mnist-paper"), name="fashion-mnist-paper", data=data)
    return recipe(f"{data}-paper")


def _small(data: str) -> Config:
    if data in ("imagenet", "imagenette"):
        return recipe("imagenette-quick")
    grey = data in ("mnist", "fashion-mnist")
    return replace(
        recipe("mnist-quick" if grey else "cifar10-quick"),
        name=f"{data}-small",
        data=data,
        train_size=1000,
        width=0.5 if grey else 0.25,
        lr=0.05,  # as in the recorded results; `tuned` tries twice that
        eval_every=15,
    )


def _digits(scale: Scale) -> Config:
    """The demo's network: narrow and short for `smoke`, whole for the other scales."""
    whole = replace(recipe("demo"), name=f"digits-{scale}", method="dense")
    if scale != "smoke":
        return whole
    return replace(
        whole,
        train_size=100,
        width=0.25,
        dropout=0.0,
        epochs=5,
        dense=1,
        sparse=1,
        batch_size=32,
        eval_every=2,
    )
