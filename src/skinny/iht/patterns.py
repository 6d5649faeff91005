"""Masks with structure: groups of neighbouring input channels (1x4), or n of every m (2:4).

A group is m neighbouring input channels of one output, at the same position of the kernel. "1xM"
keeps or truncates whole groups, those of largest norm; "N:M" keeps the N largest of every M. A
layer whose input channels do not divide by M has no such groups and stays unstructured.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from skinny.errors import SkinnyError
from skinny.iht import ranks, threshold

Choose = Callable[[Tensor, int, Tensor | None], Tensor]  # k entries of a tensor, within a mask


@dataclass(frozen=True)
class Pattern:
    """keep: how many of a group's `size` weights stay; None where groups stay or go as one."""

    size: int
    keep: int | None = None

    def __str__(self) -> str:
        return f"1x{self.size}" if self.keep is None else f"{self.keep}:{self.size}"


@dataclass(frozen=True)
class Structured:
    """A layer's pattern, and the axis of its weight that is the input channels'."""

    pattern: Pattern
    axis: int


def parse(text: str) -> Pattern:
    """The pattern that "1x4", "2:4" and the like name."""
    found = re.fullmatch(r"(\d{1,4})([x:])(\d{1,4})", text) if isinstance(text, str) else None
    if found:
        first, size = int(found[1]), int(found[3])
        if found[2] == "x" and first == 1 < size:
            return Pattern(size)
        if found[2] == ":" and 1 <= first < size:
            return Pattern(size, first)
    raise SkinnyError(
        f"the pattern is {text!r}; allowed: 1xM with M of 2 and more (1x4: groups of four input "
        "channels), N:M with N below M (2:4: two of every four)"
    )


def fits(pattern: Pattern, weight: Tensor, axis: int, groups: int = 1) -> bool:
    """Do the input channels divide? Those of a group of a transposed convolution must by
    themselves; and no group may lie on two ranks."""
    whole = not (ranks.is_sharded(weight) and axis == 0)
    return whole and weight.shape[axis] // groups % pattern.size == 0


def counts(
    weights: Mapping[str, Tensor],
    structured: Mapping[str, Structured],
    sparsity: float,
    target: float,
) -> dict[str, int]:
    """The weights that layers keep of which N of every M stay: the pattern is their budget.

    Where a progressive timeline is on its way to the target, more of every M stay.
    """
    kept = {}
    for name, on in structured.items():
        keep, size = on.pattern.keep, on.pattern.size
        if keep is None:
            continue
        if abs(target - (1 - keep / size)) > 1e-6:
            raise SkinnyError(
                f"the pattern {on.pattern} is a sparsity of {1 - keep / size:.4g}, but the "
                f"timeline ends at {target:.4g}: give both the same"
            )
        of_every_group = max(keep, round((1 - sparsity) * size))
        kept[name] = weights[name].numel() // size * of_every_group
    return kept


def whole_groups(k: int, weight: Tensor, on: Structured | None) -> int:
    """The count nearest to k that a layer can keep: of groups that stay as one, at least one."""
    if on is None or on.pattern.keep is not None:
        return k
    size = on.pattern.size
    return size * min(weight.numel() // size, max(1, round(k / size)))


def group_mask(x: Tensor, k: int, on: Structured, within: Tensor | None, choose: Choose) -> Tensor:
    """True at k / size whole groups of x, chosen by their norm; `within` has whole groups too."""
    size, axis = on.pattern.size, on.axis
    allowed = None if within is None else _grouped(within, on).any(axis + 1)
    # in doubles: a square must neither overflow nor vanish
    norms = torch.linalg.vector_norm(_grouped(x, on), dim=axis + 1, dtype=torch.float64)
    shape = [*x.shape[:axis], x.shape[axis] // size, *x.shape[axis + 1 :]]
    if allowed is not None:
        allowed = ranks.like(allowed, x, shape)
    chosen = ranks.local(choose(ranks.like(norms, x, shape), k // size, allowed))
    return ranks.like(chosen.repeat_interleave(size, dim=axis), x)


def n_of_m_mask(keys: Tensor, keep: int, on: Structured, within: Tensor | None) -> Tensor:
    """True at the `keep` entries of every group with the largest keys (which are not negative),
    ties to the lower index."""
    axis, size = on.axis, on.pattern.size
    grouped = _grouped(keys, on)
    if within is not None:  # what is not allowed comes last, and is then taken away
        grouped = grouped.where(_grouped(within, on), grouped.new_full((), -1))
    shape = [1] * grouped.dim()
    shape[axis + 1] = size
    index = torch.arange(size, device=grouped.device).view(shape)
    before = torch.zeros(grouped.shape, dtype=torch.int16, device=grouped.device)
    for j in range(size):  # how many of its group are larger than an entry, or equal and earlier
        other = grouped.narrow(axis + 1, j, 1)
        before += (other > grouped) | ((other == grouped) & (index > j))
    mask = (before < keep).flatten(axis, axis + 1)
    if within is not None:
        mask &= ranks.local(within)
    return ranks.like(mask, keys)


def keys_for(x: Tensor, score: str, generator: torch.Generator | None) -> Tensor:
    """What an N:M pattern compares: magnitudes, or a random order of all entries."""
    if score == "random":
        return threshold.random_order(x, generator=generator)
    threshold.check(x, 0, None)
    return ranks.like(ranks.local(x.detach()).abs(), x)


def _grouped(x: Tensor, on: Structured) -> Tensor:
    shard = ranks.local(x.detach())
    grouped: Tensor = shard.unflatten(on.axis, (-1, on.pattern.size))  # a shard may have no rows
    return grouped
