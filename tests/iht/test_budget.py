from math import prod

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from skinny.errors import SkinnyError
from skinny.iht import budget

SHAPES = {"conv1.weight": (192, 3, 5, 5), "cccp1.weight": (160, 192, 1, 1), "fc.weight": (10, 160)}

shapes = st.dictionaries(
    st.text("abcdef", min_size=1, max_size=3),
    st.lists(st.integers(1, 30), min_size=2, max_size=4).map(tuple),
    min_size=1,
    max_size=6,
)
sparsities = st.floats(0, 0.999)


@given(st.integers(1, 10**9), sparsities)
def test_a_layer_keeps_the_rounded_share_and_never_nothing(n, sparsity):
    k = budget.keep_count(n, sparsity)
    assert 1 <= k <= n
    assert k == 1 or abs(k - (1 - sparsity) * n) <= 0.5 + 1e-6 * n


@pytest.mark.parametrize(
    ("n", "sparsity", "k"), [(10, 0.9, 1), (1000, 0.95, 50), (7, 0.0, 7), (3, 0.99, 1)]
)
def test_keep_count_by_example(n, sparsity, k):
    assert budget.keep_count(n, sparsity) == k


@given(shapes, sparsities)
def test_uniform_gives_every_layer_its_own_share(shapes, sparsity):
    counts = budget.uniform(shapes, sparsity)
    assert counts == {name: budget.keep_count(prod(s), sparsity) for name, s in shapes.items()}


@given(shapes, sparsities)
def test_erk_meets_the_total_exactly_and_overfills_no_layer(shapes, sparsity):
    sizes = {name: prod(shape) for name, shape in shapes.items()}
    total = budget.keep_count(sum(sizes.values()), sparsity)
    if total < len(shapes):
        with pytest.raises(SkinnyError, match="fewer than one for each"):
            budget.erk(shapes, sparsity)
        return
    counts = budget.erk(shapes, sparsity)
    assert sum(counts.values()) == total
    assert all(1 <= counts[name] <= sizes[name] for name in shapes)


def test_erk_density_follows_the_formula_where_no_layer_is_full():
    counts = budget.erk(SHAPES, 0.9)
    densities = {name: counts[name] / prod(SHAPES[name]) for name in SHAPES}
    raw = {name: sum(SHAPES[name]) / prod(SHAPES[name]) for name in SHAPES}
    a, b = "conv1.weight", "cccp1.weight"
    assert densities[a] / densities[b] == pytest.approx(raw[a] / raw[b], rel=0.01)


def test_erk_keeps_a_tiny_layer_dense_and_the_others_make_up_for_it():
    shapes = {"tiny": (2, 2), "big": (100, 100)}
    counts = budget.erk(shapes, 0.5)
    assert counts == {"tiny": 4, "big": 4998}


def test_global_keeps_the_largest_over_all_layers():
    weights = {"a": torch.tensor([[5.0, 4.0], [0.1, 0.2]]), "b": torch.tensor([[3.0, 0.3]])}
    assert budget.globally(weights, 0.5) == {"a": 2, "b": 1}


def test_global_leaves_no_layer_empty():
    weights = {"a": torch.full((10, 10), 5.0), "b": torch.full((2, 5), 0.001)}
    counts = budget.globally(weights, 0.9)
    assert counts == {"a": 10, "b": 1}


@pytest.mark.parametrize(
    ("rules", "expected"),
    [
        ({"conv1": 0.5}, {"conv1.weight": 7200, "cccp1.weight": 3072, "fc.weight": 160}),
        ({"*.weight": 0.0}, {"conv1.weight": 14400, "cccp1.weight": 30720, "fc.weight": 1600}),
        ({"fc": 17}, {"conv1.weight": 1440, "cccp1.weight": 3072, "fc.weight": 17}),
        (
            {"fc": 50, "*": 2000},  # what a later rule says of a layer that has one is not asked
            {"conv1.weight": 2000, "cccp1.weight": 2000, "fc.weight": 50},
        ),
        (
            {"c*": 0.5, "conv1": 0.1},  # the first match holds
            {"conv1.weight": 7200, "cccp1.weight": 15360, "fc.weight": 160},
        ),
    ],
)
def test_rules_by_pattern_override_the_sparsity(rules, expected):
    assert budget.per_layer(SHAPES, 0.9, rules) == expected


def test_a_rule_follows_a_progressive_timeline_in_proportion():
    halfway = budget.per_layer(SHAPES, 0.45, {"fc": 600, "conv1": 0.8}, progress=0.5)
    assert halfway["fc.weight"] == 1600 - 500
    assert halfway["conv1.weight"] == budget.keep_count(14400, 0.4)
    assert halfway["cccp1.weight"] == budget.keep_count(30720, 0.45)


@pytest.mark.parametrize(
    ("rules", "complaint"),
    [
        ({"conv9": 0.5}, r"'conv9' matches no prunable layer; there are: conv1.weight, cccp1"),
        ({"conv1": 1.0}, r"'conv1' is 1.0, but must lie in \[0, 1\)"),
        ({"conv1": -0.5}, r"'conv1' is -0.5"),
        ({"fc": 1601}, r"k = 1601 weights, but fc.weight has 1600"),
        ({"fc": 0}, r"k = 0 weights"),
        ({"fc": True}, r"'fc' is True"),
        ({"fc": "half"}, r"'fc' is 'half'"),
    ],
)
def test_an_impossible_rule_says_what_was_given_and_what_exists(rules, complaint):
    with pytest.raises(SkinnyError, match=complaint):
        budget.per_layer(SHAPES, 0.9, rules)


@pytest.mark.parametrize("sparsity", [1.0, -0.1, 2, float("nan")])
@pytest.mark.parametrize("allocate", [budget.uniform, budget.erk])
def test_a_sparsity_outside_its_range_is_refused(allocate, sparsity):
    with pytest.raises(SkinnyError, match=r"must lie in \[0, 1\)"):
        allocate(SHAPES, sparsity)
