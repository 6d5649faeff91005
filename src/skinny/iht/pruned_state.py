"""Checkpoints of models that other packages pruned, as plain ones."""

import re
from collections.abc import Mapping

import torch
from torch import Tensor

from skinny.errors import SkinnyError

_PRUNE = re.compile(r"(?P<name>.+)_(?P<kind>orig|mask)")
_PARAMETRIZED = re.compile(
    r"(?P<module>(?:.+\.)?)parametrizations\.(?P<tensor>[^.]+)\.(?P<kind>original|0\.mask)"
)
_NNCF = re.compile(r"__nncf_hooks\.post_hooks\.(?P<name>.+)__0\.\d+\.binary_mask")


def plain_state_dict(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The state_dict with masks applied, under the model's own names: pruned weights are 0.0.

    Understood are the masks of `torch.nn.utils.prune` (`weight_orig`, `weight_mask`), of torchao's
    sparsifiers (`parametrizations.weight.original` and `.0.mask`) and of NNCF (`__nncf_hooks`).
    Everything else is passed on.
    """
    values: dict[str, Tensor] = {}
    masks: dict[str, Tensor] = {}
    for key, tensor in state.items():
        name, is_mask = _read(key, state)
        (masks if is_mask else values)[name] = tensor
    for name, mask in masks.items():
        if name not in values or values[name].shape != mask.shape:
            raise SkinnyError(f"the mask of {name} has no weight of its shape in the state_dict")
        values[name] = torch.where(mask.bool(), values[name], 0)
    return values


def _read(key: str, state: Mapping[str, Tensor]) -> tuple[str, bool]:
    """The name in a plain state_dict, and whether what is stored is a mask."""
    if found := _PRUNE.fullmatch(key):
        name = found["name"]
        if f"{name}_orig" in state and f"{name}_mask" in state:
            return name, found["kind"] == "mask"
    if found := _PARAMETRIZED.fullmatch(key):
        if f"{key.removesuffix(found['kind'])}0.mask" not in state:
            raise SkinnyError(
                f"{key} is parametrised, and the state_dict has no mask for it: let the package "
                "that pruned it apply its masks (torch.ao.pruning: sparsifier.squash_mask()), then "
                "save it"
            )
        return found["module"] + found["tensor"], found["kind"] != "original"
    if found := _NNCF.fullmatch(key):
        return found["name"].replace(":", "."), True
    return key, False
