"""How many weights each layer may keep: k_l for every layer l, from one sparsity.

Every function here is pure and returns {layer: k}. Sparsity is the fraction *removed*; a layer of n
weights at sparsity s keeps k = round((1 - s) n), and never fewer than one.
"""

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from math import prod

from torch import Tensor

from skinny.errors import SkinnyError
from skinny.iht.threshold import count_largest

Shapes = Mapping[str, tuple[int, ...]]
Names = Mapping[str, Sequence[str]]
Rules = Mapping[str, float | int]  # name pattern -> a sparsity (float) or a count k (int)


def check_sparsity(sparsity: float, what: str = "sparsity") -> float:
    try:
        possible = not isinstance(sparsity, bool) and 0.0 <= sparsity < 1.0
    except TypeError:  # no number
        possible = False
    if not possible:
        raise SkinnyError(
            f"{what} is {sparsity!r}, but must lie in [0, 1): it is the fraction of weights removed"
        )
    return float(sparsity)


def keep_count(n: int, sparsity: float) -> int:
    """k = round((1 - sparsity) n), at least 1."""
    return max(1, round((1.0 - check_sparsity(sparsity)) * n))


def uniform(shapes: Shapes, sparsity: float) -> dict[str, int]:
    """The same sparsity in every layer, as in the paper."""
    return {name: keep_count(prod(shape), sparsity) for name, shape in shapes.items()}


def per_layer(
    shapes: Shapes,
    sparsity: float,
    rules: Rules,
    progress: float = 1.0,
    names: Names | None = None,
) -> dict[str, int]:
    """Layers that match a rule follow it, all others take `sparsity`.

    A pattern is a shell glob over layer names (`names`: all that a layer answers to, if there are
    more than its own); the first rule that matches a layer holds. While a
    progressive timeline is on its way (`progress` < 1), a rule's layer has that share of the
    removals its rule asks for.
    """
    by_layer = resolve_rules(shapes, rules, names)
    counts = {}
    for name, shape in shapes.items():
        n, rule = prod(shape), by_layer.get(name)
        if rule is None:
            counts[name] = keep_count(n, sparsity)
        elif isinstance(rule, int):
            counts[name] = n - round(progress * (n - rule))
        else:
            counts[name] = keep_count(n, progress * rule)
    return counts


def erk(shapes: Shapes, sparsity: float) -> dict[str, int]:
    """Erdős-Rényi-Kernel: density of layer l proportional to sum(shape_l) / prod(shape_l).

    Wide layers become sparser than narrow ones. A layer whose share would exceed its size stays
    dense and the others make up for it. The counts sum to round((1 - sparsity) N).
    """
    sizes = {name: prod(shape) for name, shape in shapes.items()}
    total = _total_count(sizes, sparsity)
    full: set[str] = set()
    while True:
        rest = {name: float(sum(shapes[name])) for name in shapes if name not in full}
        left = total - sum(sizes[name] for name in full)
        scale = left / sum(rest.values()) if rest else 0.0
        over = {name for name, weight in rest.items() if scale * weight > sizes[name]}
        if not over:
            break
        full |= over
    shares = {name: float(sizes[name]) if name in full else scale * rest[name] for name in shapes}
    return _round_to_total(shares, sizes, total)


def globally(weights: Mapping[str, Tensor], sparsity: float) -> dict[str, int]:
    """One threshold over all layers: layer l keeps its share of the largest magnitudes overall.

    A layer that would lose everything keeps one weight, at the cost of the layer that keeps most:
    a network with an empty layer is a constant.
    """
    sizes = {name: weight.numel() for name, weight in weights.items()}
    total = _total_count(sizes, sparsity)
    counts = dict(zip(weights, count_largest(list(weights.values()), total), strict=True))
    for name in [name for name, count in counts.items() if count == 0]:
        counts[max(counts, key=counts.__getitem__)] -= 1
        counts[name] = 1
    return counts


def counts(
    budget: str | Rules,
    weights: Mapping[str, Tensor],
    sparsity: float,
    progress: float,
    names: Names,
) -> dict[str, int]:
    """By the budget that a user chose: the name of a function here, or rules for single layers."""
    if not weights:
        return {}
    if budget == "global":
        return globally(weights, sparsity)
    shapes = {name: tuple(weight.shape) for name, weight in weights.items()}
    if not isinstance(budget, str):
        return per_layer(shapes, sparsity, budget, progress, names)
    return erk(shapes, sparsity) if budget == "erk" else uniform(shapes, sparsity)


def matches(name: str, pattern: str) -> bool:
    """Does a glob match a parameter, by its own name or by that of the layer it belongs to?"""
    return fnmatchcase(name, pattern) or fnmatchcase(name.rpartition(".")[0], pattern)


def resolve_rules(
    shapes: Shapes, rules: Rules, names: Names | None = None
) -> dict[str, float | int]:
    """{layer: its rule} for the layers that have one; an impossible rule is an error."""
    resolved: dict[str, float | int] = {}
    aliases = names or {name: (name,) for name in shapes}
    for pattern, rule in rules.items():
        touched = [name for name in shapes if any(matches(n, pattern) for n in aliases[name])]
        if not touched:
            raise SkinnyError(
                f"the budget rule {pattern!r} matches no prunable layer; there are: "
                + ", ".join(shapes)
            )
        if isinstance(rule, bool) or not isinstance(rule, int | float):
            raise SkinnyError(
                f"the budget rule {pattern!r} is {rule!r}; give a sparsity in [0, 1) "
                "or a whole number k of weights to keep"
            )
        if isinstance(rule, float):
            check_sparsity(rule, f"the budget rule {pattern!r}")
        for name in touched:
            if name in resolved:
                continue
            n = prod(shapes[name])
            if isinstance(rule, int) and not 1 <= rule <= n:
                raise SkinnyError(
                    f"the budget rule {pattern!r} keeps k = {rule} weights, "
                    f"but {name} has {n}: k must lie in [1, {n}]"
                )
            resolved[name] = rule
    return resolved


def _total_count(sizes: Mapping[str, int], sparsity: float) -> int:
    total = keep_count(sum(sizes.values()), sparsity)
    if total < len(sizes):
        raise SkinnyError(
            f"sparsity {sparsity} keeps {total} of {sum(sizes.values())} weights: "
            f"fewer than one for each of the {len(sizes)} layers"
        )
    return total


def _round_to_total(
    shares: Mapping[str, float], sizes: Mapping[str, int], total: int
) -> dict[str, int]:
    """Whole counts that sum to `total`: floors, and the rest to the largest fractions."""
    counts = {name: min(sizes[name], max(1, int(share))) for name, share in shares.items()}
    by_fraction = sorted(shares, key=lambda name: int(shares[name]) - shares[name])
    while (missing := total - sum(counts.values())) != 0:
        sign = 1 if missing > 0 else -1
        for name in by_fraction if sign > 0 else reversed(by_fraction):
            if missing and 1 <= counts[name] + sign <= sizes[name]:
                counts[name] += sign
                missing -= sign
    return counts
