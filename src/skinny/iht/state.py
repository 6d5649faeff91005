"""Saved states: does one fit this IHT, and should one have been loaded?"""

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from skinny.errors import SkinnyError

# Zeros that no mask explains: from this share of a layer on they are not there by chance.
_MANY_ZEROS = 0.05


def shapes(tensors: Mapping[str, Tensor]) -> dict[str, list[int]]:
    return {name: list(tensor.shape) for name, tensor in tensors.items()}


def check_fits(state: Mapping[str, Any], ours: Mapping[str, Any]) -> None:
    """Refuse the state of an IHT that was made with other layers, another timeline or options.

    `ours` is a state of this IHT; all that `state` may differ in is how far the training has come.
    """
    missing = ours.keys() - state.keys()
    if missing:
        raise SkinnyError(f"this is not the state of an IHT: it has no {min(missing)!r}")
    for tensors in (state["masks"], state["before"]):
        named = shapes(tensors or {}) or ours["layers"]
        if state["layers"] != ours["layers"] or named != ours["layers"]:
            raise SkinnyError(
                f"this IHT state was made for other layers: it has {', '.join(state['layers'])}; "
                f"the model has {', '.join(ours['layers'])}"
            )
    if state["unit"] != ours["unit"] or state["spans"] != ours["spans"]:
        raise SkinnyError("this IHT state was made with another timeline")
    for option in ("budget", "score", "restore", "seed"):
        if state[option] != ours[option]:
            raise SkinnyError(
                f"this IHT state was made with {option}={state[option]!r}, but this IHT has "
                f"{option}={ours[option]!r}: make it with the same {option}"
            )


def signs_of_a_past(
    weights: Mapping[str, Tensor], masks: Mapping[str, Tensor] | None, stepped: bool
) -> list[str]:
    """Why a training that IHT takes for new looks like one that is resumed.

    Neither sign is proof: optimizers are warmed up (`stepped`), and sparse networks are fine-tuned.
    A layer that is all zero is one that somebody initialised so.
    """
    signs = ["the optimizer has taken steps before"] if stepped else []
    sparse = []
    for name, weight in weights.items():
        there = weight.numel() if masks is None else int(masks[name].count_nonzero())
        zero = there - int(weight.detach().count_nonzero())
        if _MANY_ZEROS <= zero / weight.numel() < 1:
            sparse.append(name)
    if sparse:
        signs.append(f"many weights of {', '.join(sparse)} are zero and no mask says why")
    return signs
