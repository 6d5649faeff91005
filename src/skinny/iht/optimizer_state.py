"""What an optimizer remembers of a weight that is truncated, and of one that is restored."""

from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor

from skinny.iht import masks as masking
from skinny.iht import ranks

# Running statistics of gradients by which an optimizer scales its updates (Adam's second moment
# and its relatives). They move no weight by themselves; all other state might.
_SCALES = {
    *("exp_avg_sq", "max_exp_avg_sq"),  # Adam, AdamW, NAdam, RAdam
    "exp_inf",  # Adamax
    *("square_avg", "acc_delta"),  # RMSprop, Adadelta
    "sum",  # Adagrad
    "step_size",  # Rprop
}


def clear(state: Mapping[str, Any], mask: Tensor) -> None:
    """Zero the state of truncated weights: a momentum that went on would move them off zero."""
    for _, value in _per_weight(state, mask):
        masking.apply_(value, mask)


@torch.no_grad()
def refill(state: Mapping[str, Any], mask: Tensor) -> None:
    """Give restored weights the scale their neighbours have: the mean over the layer's kept ones.

    Optimizers count steps per tensor, not per weight. A second moment that starts at zero under an
    old step count lets Adam move a restored weight by several times the learning rate; its own
    value from before the sparse span describes gradients of long ago, and would need a copy of
    every moment. First moments stay zero: a restored weight has no direction yet.
    """
    for name, value in _per_weight(state, mask):
        if name in _SCALES:
            here = ranks.local(value)
            kept = ranks.local(mask).to(here.device)
            both = torch.stack([here[kept].sum(dtype=torch.float32), kept.sum()])
            scale, count = ranks.total(both, value)
            here.masked_fill_(kept.logical_not(), (scale / count).to(here.dtype))


def has_stepped(state: Mapping[str, Any]) -> bool:
    """Did the optimizer update this weight before? Some make their state ahead of the first step or
    by a step that changes nothing, and plain SGD has none."""
    if float(state.get("step", 1)) == 0:
        return False
    tensors = [ranks.local(v) for n, v in state.items() if isinstance(v, Tensor) and n != "step"]
    return any(bool(tensor.any()) for tensor in tensors)


def _per_weight(state: Mapping[str, Any], mask: Tensor) -> Iterator[tuple[str, Tensor]]:
    """State with an entry for every weight. Quantised state has no entry that means zero."""
    for name, value in state.items():
        if isinstance(value, Tensor) and value.shape == mask.shape and value.is_floating_point():
            yield name, value
