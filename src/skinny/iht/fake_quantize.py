"""Rounding to few bits, as floats: what the network of a packed file will compute with.

int8: q_w = clip(rint(w / s_c), -127, 127) for each output channel c, s_c = max |w[c]| / 127; for
the input of a layer, whose range is low <= 0 <= high, q_x = clip(rint(x / s) + z, 0, 255) with
s = (high - low) / 255 and z = rint(-low / s). Both come back as floats: s_c q_w and s (q_x - z).

codebook: each weight becomes the nearest of a few numbers, which are the means of the weights that
they stand for (k-means in one dimension). Zeros stay zero in both, so that masks hold.
"""

import torch
from torch import Tensor

_MOST = 127
_LEVELS = 255
_ROUNDS = 100


@torch.no_grad()
def int8_weight(weight: Tensor) -> Tensor:
    """s_c q_w of a weight [output channels, ...]; a channel that is all zero has s_c = 1."""
    rows = weight.flatten(1)
    scale = rows.abs().amax(1, keepdim=True) / _MOST
    scale = torch.where(scale > 0, scale, 1.0)
    return ((rows / scale).round().clamp(-_MOST, _MOST) * scale).view_as(weight)


def int8_input(x: Tensor, low: Tensor, high: Tensor) -> Tensor:
    """s (q_x - z) of an input x; its gradient is passed on where x is in the range, and is 0 where
    it is clipped. In float32, whatever x is in. low, high: float32 scalars around 0."""
    scale = (high - low) / _LEVELS
    scale = torch.where(scale > 0, scale, 1.0)
    zero = (-low / scale).round().to(torch.int32)
    rounded = torch.fake_quantize_per_tensor_affine(x.float(), scale, zero, 0, _LEVELS)
    return rounded.to(x.dtype)


@torch.no_grad()
def make_codebook(weight: Tensor, size: int) -> Tensor:
    """`size` numbers, in order, of small squared distance to the non-zero weights.

    They set out evenly between the least and the largest, so that large weights, which matter most
    and are few, have numbers of their own.
    """
    kept = weight[weight != 0].float()
    if not kept.numel():
        return torch.zeros(size, device=weight.device)
    steps = torch.linspace(0, 1, size, device=weight.device)
    codebook = torch.lerp(kept.min(), kept.max(), steps)
    for _ in range(_ROUNDS):
        moved = _means(kept, codebook)[0]
        if torch.equal(moved, codebook):
            break
        codebook = moved
    return codebook


@torch.no_grad()
def codebook_weight(weight: Tensor, codebook: Tensor) -> tuple[Tensor, Tensor]:
    """The weight with each non-zero entry replaced by its number of the codebook, and the codebook,
    each of whose numbers has moved to the mean of the entries that were nearest to it.

    When the entries have moved by a step along their gradients, a number thus moves by the mean of
    the steps of its entries.
    """
    kept = weight != 0
    moved, index = _means(weight[kept].float(), codebook)
    rounded = torch.zeros_like(weight)
    rounded[kept] = moved[index].to(weight.dtype)
    return rounded, moved


def _means(values: Tensor, codebook: Tensor) -> tuple[Tensor, Tensor]:
    """One round of Lloyd's algorithm: the codebook with each number at the mean of the values that
    are nearest to it, and these numbers' indices. A number that is nearest to none stays."""
    index = torch.bucketize(values, codebook[:-1] / 2 + codebook[1:] / 2)
    counts = torch.bincount(index, minlength=codebook.numel())
    sums = torch.bincount(index, weights=values.double(), minlength=codebook.numel())
    means = (sums / counts.clamp(min=1)).float()
    return torch.where(counts > 0, means, codebook), index
