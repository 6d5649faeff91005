"""Which arms a line joins: those that differ in nothing but sparsity."""

import dataclasses
from collections.abc import Iterable

from skinny.experiments.comparison import Row
from skinny.iht.timeline import default_r0
from skinny.training import Config
from skinny.training.config import canonical


def families(rows: Iterable[Row]) -> list[list[Row]]:
    """Each has one arm at each sparsity: another of the same sparsity begins its own."""
    found: list[list[Row]] = []
    for row in rows:
        family = next((members for members in found if _fits(row, members)), None)
        if family is None:
            found.append([row])
        else:
            family.append(row)
    return found


def _fits(row: Row, members: Iterable[Row]) -> bool:
    own, others = row.arm.config, [member.arm.config for member in members]
    at_another_sparsity = own.sparsity not in {other.sparsity for other in others}
    alike = all(_common(own) == _common(other) for other in others)
    starts = [found for found in map(_starts, (own, *others)) if found]
    return at_another_sparsity and alike and (not starts or bool(frozenset.intersection(*starts)))


def _common(config: Config) -> Config:
    plain = canonical(config)
    layers = ("own",) if plain.layers else ()
    return dataclasses.replace(plain, sparsity=0.0, r0=None, layers=layers, seed=0, name="any")


def _starts(config: Config) -> frozenset[float | str]:
    """The first sparsity and how it may be chosen; nothing where all ways lead to the target."""
    r0, default = canonical(config).r0, default_r0(config.sparsity)
    first = default if r0 is None else r0
    if first == default == config.sparsity:
        return frozenset()
    by_default = {"default"} if r0 is None else set[str]()
    at_once = {"target"} if first == config.sparsity else set[str]()
    return frozenset({first} | by_default | at_once)
