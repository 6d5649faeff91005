"""Saved states: does one fit this IHT, and should one have been loaded?"""

import json
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import Any

import torch
from torch import Tensor

from skinny.errors import SkinnyError
from skinny.iht import ranks
from skinny.iht.events import MaskUpdate

# Zeros that no mask explains: from this share of a layer on they are not there by chance.
_MANY_ZEROS = 0.05


def shapes(tensors: Mapping[str, Tensor]) -> dict[str, list[int]]:
    return {name: list(tensor.shape) for name, tensor in tensors.items()}


# A distributed checkpoint takes a state apart and is read into another one, value by value. So
# where weights are spread over ranks, a state has the same values throughout the training: zeros in
# place of tensors that do not exist yet, and one text for a list that grows.


def saved(
    tensors: Mapping[str, Tensor], weights: Mapping[str, Tensor], dtype: torch.dtype | None = None
) -> dict[str, Tensor]:
    """`tensors` for a checkpoint; there may be none."""
    if not tensors and _any_sharded(weights):
        return {n: torch.zeros_like(w, dtype=dtype).detach() for n, w in weights.items()}
    return dict(tensors)


def loaded(tensors: Mapping[str, Tensor], weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Copies of saved tensors, each where its weight is and spread over ranks as its weight is."""
    return {name: ranks.spread(value, weights[name]) for name, value in tensors.items()}


def gathered(state: Mapping[str, Any]) -> dict[str, Any]:
    """A state with whole tensors in place of shards, for a file that one rank writes. Every rank
    must come to it."""
    tensors: dict[str, Any] = {
        kind: {name: ranks.whole(tensor).cpu() for name, tensor in state[kind].items()}
        for kind in ("masks", "before")
    }
    if (quantizer := state["quantizer"]) is not None:
        trained = {name: ranks.whole(own).cpu() for name, own in quantizer["trained"].items()}
        tensors["quantizer"] = {**quantizer, "trained": trained}
    return {**state, **tensors}


def saved_history(history: Iterable[MaskUpdate], weights: Mapping[str, Tensor]) -> Any:
    records = [asdict(record) for record in history]
    return json.dumps(records) if _any_sharded(weights) else records


def loaded_history(saved: Any) -> list[MaskUpdate]:
    records = json.loads(saved) if isinstance(saved, str) else saved
    return [MaskUpdate(**record) for record in records]


def check_fits(state: Mapping[str, Any], ours: Mapping[str, Any]) -> None:
    """Refuse the state of an IHT that was made with other layers, another timeline or options.

    `ours` is a state of this IHT; all that `state` may differ in is how far the training has come.
    """
    # what states had not before there were such options
    state = {"pattern": None, "quantize": None, "quantizer": None, **state}
    missing = ours.keys() - state.keys()
    if missing:
        raise SkinnyError(f"this is not the state of an IHT: it has no {min(missing)!r}")
    if unknown := state.keys() - ours.keys():
        raise SkinnyError(
            f"this IHT state has {min(unknown)!r}, which this version does not know: update skinny"
        )
    for tensors in (state["masks"], state["before"]):
        named = shapes(tensors or {}) or ours["layers"]
        if state["layers"] != ours["layers"] or named != ours["layers"]:
            raise SkinnyError(
                f"this IHT state was made for other layers: {_apart(state, ours['layers'])}"
            )
    if state["unit"] != ours["unit"] or state["spans"] != ours["spans"]:
        raise SkinnyError(
            f"this IHT state was made with another timeline: it has {len(state['spans'])} spans in "
            f"{state['unit']}s, this IHT has {len(ours['spans'])} in {ours['unit']}s, or of other "
            "lengths or sparsities"
        )
    for option in ("budget", "pattern", "quantize", "score", "restore", "seed"):
        if state[option] != ours[option]:
            raise SkinnyError(
                f"this IHT state was made with {option}={state[option]!r}, but this IHT has "
                f"{option}={ours[option]!r}: make it with the same {option}"
            )
    for name, lowest in (("position", 0), ("span", -1), ("mask_updates", 0)):
        value = state[name]
        if type(value) is not int or value < lowest:
            raise SkinnyError(f"this is not the state of an IHT: its {name!r} is {value!r:.40}")
    if state["span"] >= len(ours["spans"]):
        raise SkinnyError(f"this IHT state is in span {state['span']}, which its timeline has not")


def _apart(state: Mapping[str, Any], own: Mapping[str, list[int]]) -> str:
    """How saved layers differ: in their names, or in the first one whose shape does."""
    for found in (state["layers"], shapes(state["masks"] or {}), shapes(state["before"] or {})):
        if found and list(found) != list(own):
            return f"it has {', '.join(found)}; the model has {', '.join(own)}"
        for name, shape in found.items():
            if shape != own[name]:
                return f"its {name} has the shape {shape}, the model's {own[name]}"
    return "their shapes differ"


def check_whole(
    masks: Mapping[str, Tensor], weights: Mapping[str, Tensor], update: MaskUpdate
) -> None:
    """Refuse masks that are not all there: one rank's shards, saved and loaded as if they were."""
    for name, mask in masks.items():
        here = ranks.local(mask)
        kept = int(here.count_nonzero())
        if ranks.is_sharded(mask):
            fits = here.shape == ranks.local(weights[name]).shape
            kept = ranks.total_of(weights[name], kept if fits else -mask.numel())[0]
        if kept != update.kept[name]:
            raise SkinnyError(
                f"the mask of {name} in this IHT state does not keep {update.kept[name]} weights, "
                "as it should: where a model is sharded, one rank's file does not hold the masks "
                "of all; save with torch.distributed.checkpoint, or in accelerate register "
                "skinny.integrations.accelerate.WholeState(iht)"
            )


def warn_of_a_past(
    weights: Mapping[str, Tensor], masks: Mapping[str, Tensor] | None, stepped: bool
) -> None:
    """Say so if a training that IHT takes for new looks like one that is resumed.

    Neither sign is proof: optimizers are warmed up (`stepped`), and sparse networks are fine-tuned.
    A layer that is all zero is one that somebody initialised so.
    """
    signs = ["the optimizer has taken steps before"] if stepped else []
    sparse = []
    for name, weight in weights.items():
        there = weight.numel() if masks is None else ranks.count_nonzero(masks[name])
        zero = there - ranks.count_nonzero(weight)
        if _MANY_ZEROS <= zero / weight.numel() < 1:
            sparse.append(name)
    if sparse:
        signs.append(f"many weights of {', '.join(sparse)} are zero and no mask says why")
    if signs:
        warnings.warn(
            f"IHT begins at the start of its timeline, but {' and '.join(signs)}: if this training "
            "is resumed, load IHT's state too (iht.load_state_dict); if it is a new one from a "
            "trained model, all is well",
            stacklevel=4,
        )


def _any_sharded(weights: Mapping[str, Tensor]) -> bool:
    return any(ranks.is_sharded(weight) for weight in weights.values())
