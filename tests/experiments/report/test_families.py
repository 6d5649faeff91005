import dataclasses
import itertools
from types import SimpleNamespace

from skinny.experiments.report.families import families
from skinny.training import Config

BASE = Config(data="digits", model="lenet-300-100", epochs=12)


def joined(changes):
    """The indices of the arms on each line."""
    rows = [arm_row(dataclasses.replace(BASE, **change)) for change in changes]
    return {frozenset(map(rows.index, family)) for family in families(rows)}


def arm_row(config):
    return SimpleNamespace(arm=SimpleNamespace(config=config))


def at(sparsity, **changes):
    return {"sparsity": sparsity, **changes}


WARM = {"restore_warmup": 1.0}


def test_arms_that_differ_in_more_than_sparsity_are_on_other_lines():
    four = [at(0.9, **WARM), at(0.9), at(0.99), at(0.99, **WARM)]
    for order in itertools.permutations(range(4)):
        found = joined([four[i] for i in order])
        lines = {frozenset(order[i] for i in family) for family in found}
        assert lines == {frozenset({0, 3}), frozenset({1, 2})}


def test_low_sparsities_whose_default_is_the_target_are_on_lines_of_either_kind():
    direct = [at(0.5, r0=0.5), at(0.9, r0=0.9), at(0.99, r0=0.99)]
    assert joined(direct) == {frozenset({0, 1, 2})}
    assert joined([at(0.5), at(0.9), at(0.99)]) == {frozenset({0, 1, 2})}
    # a line is of one kind all the same
    assert joined([at(0.5), at(0.9), at(0.99, r0=0.99)]) == {frozenset({0, 1}), frozenset({2})}
    from_half = [at(0.1), at(0.5), at(0.7), at(0.9, r0=0.5), at(0.99, r0=0.5)]
    assert joined(from_half) == {frozenset(range(5))}
    assert joined([at(0.9, r0=0.6), at(0.99)]) == {frozenset({0}), frozenset({1})}


def test_a_line_has_one_arm_at_each_sparsity():
    twice = [at(0.9), at(0.99), at(0.9, seed=1)]
    assert joined(twice) == {frozenset({0, 1}), frozenset({2})}
