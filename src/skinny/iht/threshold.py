"""Which entries of a tensor stay: the operator O_k of the paper, and its random counterpart.

O_k keeps exactly k entries: the largest magnitudes, and among equal ones those with the lower flat
index. Sorting would do, but a 37.7 M-weight layer deserves better: for floats that are not NaN, the
bit pattern without its sign is an integer that orders as the magnitude does, so the k-th largest is
found by counting its 16-bit digits, most significant first. That is linear in n whatever the
values are, works in pieces (so the only large allocations are the mask, and a flat copy where the
tensor is not contiguous), needs no index tensor, and gives the same answer on every device, since
counts do not depend on the order of summation.
"""

import functools
import math
from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from skinny.errors import SkinnyError
from skinny.iht import ranks

_BITS_OF = {
    torch.float16: torch.int16,
    torch.bfloat16: torch.int16,
    torch.float32: torch.int32,
    torch.float64: torch.int64,
}
_DIGIT = 16
_PIECE = 1 << 20  # entries looked at together: small enough for a cache, large enough for a GPU


def magnitude_mask(x: Tensor, k: int, within: Tensor | None = None) -> Tensor:
    """supp(x, k): True at the k entries of largest |x|, ties to the lower flat index.

    `within` (bool, shaped like `x`) restricts the choice to its True entries. The result is bool,
    on x's device, and has exactly k ones even where x has fewer than k non-zeros. If x is spread
    over ranks, so is the result, and it has k ones in all.
    """
    check(x, k, within)
    shard = ranks.local(x.detach())
    flat = shard.reshape(-1)  # a copy only where the memory format is not the logical one
    mask = torch.zeros(flat.numel(), dtype=torch.bool, device=flat.device)
    allowed = None if within is None else ranks.local(within)
    if k > 0:
        cut, ties = _kth_largest_key([x], k, [allowed])
        if ranks.is_sharded(x):  # ranks before this one have the lower indices
            tied_here = sum(int((keys == cut).sum()) for _, keys in _key_pieces(flat, allowed))
            ties = min(tied_here, max(0, ties - ranks.before(tied_here, x)))
        for start, keys in _key_pieces(flat, allowed):
            piece = mask[start : start + keys.numel()]
            torch.gt(keys, cut, out=piece)
            if ties:
                tied = (keys == cut).nonzero().view(-1)[:ties]
                piece[tied] = True
                ties -= tied.numel()
    return ranks.like(mask.view(shard.shape), x)


def random_mask(
    x: Tensor, k: int, within: Tensor | None = None, *, generator: torch.Generator | None = None
) -> Tensor:
    """True at k entries of x chosen uniformly at random, whatever their values.

    The choice is drawn on the CPU, so that one seed gives one mask on every device.
    """
    check(x, k, within)
    shard = ranks.local(x.detach())
    allowed = None if within is None else ranks.local(within).reshape(-1)
    here = shard.numel() if allowed is None else int(allowed.sum())
    first = ranks.before(here, x)  # candidates are numbered over all ranks, and drawn on each
    numbers = _shuffled(ranks.total_of(x, here)[0], generator)[:k].to(shard.device) - first
    numbers = numbers[(numbers >= 0) & (numbers < here)]
    chosen = numbers if allowed is None else allowed.nonzero().view(-1)[numbers]
    mask = torch.zeros(shard.numel(), dtype=torch.bool, device=shard.device)
    mask[chosen] = True
    return ranks.like(mask.view(shard.shape), x)


def random_order(x: Tensor, *, generator: torch.Generator | None = None) -> Tensor:
    """For each entry of x its place in a random order of all entries, drawn as above."""
    shard = ranks.local(x.detach())
    first = ranks.before(shard.numel(), x)
    order = _shuffled(x.numel(), generator)[first : first + shard.numel()]
    return ranks.like(order.to(shard.device).view(shard.shape), x)


def hard_threshold(x: Tensor, k: int) -> Tensor:
    """O_k(x): x with all but its k entries of largest magnitude set to zero."""
    return torch.where(magnitude_mask(x, k), x, x.new_zeros(()))


def random_threshold(x: Tensor, k: int, *, generator: torch.Generator | None = None) -> Tensor:
    """x with all but k entries, chosen at random, set to zero."""
    return torch.where(random_mask(x, k, generator=generator), x, x.new_zeros(()))


def count_largest(tensors: Sequence[Tensor], k: int) -> list[int]:
    """How many of the k largest magnitudes over all tensors lie in each of them.

    Ties go to the earlier tensor. The counts sum to k.
    """
    for x in tensors:
        check(x, 0, None)
    if not 0 <= k <= (total := sum(x.numel() for x in tensors)):
        raise SkinnyError(f"cannot keep k = {k} of {total} entries: k must lie in [0, {total}]")
    if k == 0:
        return [0] * len(tensors)
    dtype = _common_dtype(tensors)
    cut, ties = _kth_largest_key(tensors, k, [None] * len(tensors))
    counts = []
    for x in tensors:
        larger = tied = 0
        for _, keys in _key_pieces(ranks.local(x), None, dtype):
            larger += int((keys > cut).sum())
            tied += int((keys == cut).sum())
        larger, tied = ranks.total_of(x, larger, tied)
        taken = min(tied, ties)
        ties -= taken
        counts.append(larger + taken)
    return counts


def _shuffled(count: int, generator: torch.Generator | None) -> Tensor:
    """0 to count - 1 in random order, drawn where the generator lives."""
    device = None if generator is None else generator.device
    return torch.randperm(count, generator=generator, device=device)


def check(x: Tensor, k: int, within: Tensor | None) -> None:
    """Refuse what cannot be thresholded, a k that is impossible, and values that have no order."""
    if x.dtype not in _BITS_OF:
        allowed = ", ".join(str(dtype).removeprefix("torch.") for dtype in _BITS_OF)
        raise SkinnyError(f"cannot threshold a tensor of {x.dtype}; allowed: {allowed}")
    if within is not None and (within.shape != x.shape or within.dtype != torch.bool):
        raise SkinnyError(
            f"`within` must be a bool tensor of shape {tuple(x.shape)}, "
            f"not {within.dtype} of shape {tuple(within.shape)}"
        )
    candidates = x.numel() if within is None else ranks.count_nonzero(within)
    if isinstance(k, bool) or not isinstance(k, int):
        raise SkinnyError(f"k is {k!r}; it must be a whole number")
    if not 0 <= k <= candidates:
        raise SkinnyError(
            f"cannot keep k = {k} of {candidates} entries: k must lie in [0, {candidates}]"
        )
    # A sum is NaN or infinite if any entry is; it may also overflow, hence the second, slow look.
    shard, bad = ranks.local(x.detach()), 0
    if not math.isfinite(float(shard.sum())):
        bad = int((~shard.isfinite()).sum())
    if bad := ranks.total_of(x, bad)[0]:
        raise SkinnyError(f"cannot threshold: {bad} of {x.numel()} entries are NaN or infinite")


def _common_dtype(tensors: Sequence[Tensor]) -> torch.dtype:
    return functools.reduce(torch.promote_types, (x.dtype for x in tensors))


def _key_pieces(
    x: Tensor, within: Tensor | None, dtype: torch.dtype | None = None
) -> Iterator[tuple[int, Tensor]]:
    """(start, keys) over the flat tensor: integers that order as the magnitudes do.

    Entries outside `within` get key 0 and all others a key above it.
    """
    flat = x.detach().reshape(-1)
    allowed = None if within is None else within.reshape(-1)
    bits = _BITS_OF[dtype or x.dtype]
    sign_off = torch.iinfo(bits).max
    for start in range(0, flat.numel(), _PIECE):
        piece = flat[start : start + _PIECE].to(dtype or x.dtype)
        keys = piece.view(bits).bitwise_and(sign_off)
        if allowed is not None:
            keys.add_(1).mul_(allowed[start : start + _PIECE])
        yield start, keys


def _kth_largest_key(
    tensors: Sequence[Tensor], k: int, within: Sequence[Tensor | None]
) -> tuple[int, int]:
    """The k-th largest key over all tensors, and how many entries equal to it belong to the k.

    `within` has this rank's shards; counts are summed over ranks, so that all find the same key.
    """
    dtype = _common_dtype(tensors)
    key_bits = torch.iinfo(_BITS_OF[dtype]).bits
    prefix = 0  # the digits found so far
    for shift in range(key_bits - _DIGIT, -1, -_DIGIT):
        counts = torch.zeros(1 << _DIGIT, dtype=torch.int64)
        for x, allowed in zip(tensors, within, strict=True):
            here = counts.new_zeros(1 << _DIGIT, device=x.device)
            for _, keys in _key_pieces(ranks.local(x), allowed, dtype):
                if shift + _DIGIT < key_bits:  # those with the digits found so far, without them
                    keys = keys[keys >> (shift + _DIGIT) == prefix]
                    keys &= (1 << (shift + _DIGIT)) - 1
                here += torch.bincount(keys >> shift, minlength=1 << _DIGIT)
            counts += ranks.total(here, x).cpu()
        at_least = counts.flip(0).cumsum(0).flip(0)  # [d]: entries whose digit is d or larger
        digit = int((at_least >= k).nonzero().max())
        k -= int(at_least[digit] - counts[digit])
        prefix = prefix << _DIGIT | digit
    return prefix, k
