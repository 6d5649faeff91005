import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from skinny.errors import SkinnyError
from skinny.experiments.statistics import bootstrap, equivalence, holm, paired, summarise

VALUES = st.lists(st.floats(-100, 100), min_size=2, max_size=12)


def by_seed(values):
    return dict(enumerate(values))


def test_a_summary_worked_by_hand():
    """1..5: mean 3, sd sqrt(2.5), t(4, 0.975) = 2.7764."""
    s = summarise([1, 2, 3, 4, 5])
    assert (s.n, s.mean) == (5, 3)
    assert s.sd == pytest.approx(math.sqrt(2.5))
    half = 2.7764451 * math.sqrt(2.5) / math.sqrt(5)
    assert (s.low, s.high) == pytest.approx((3 - half, 3 + half))


def test_students_sleep_data_gives_the_published_p_value():
    """Student (1908): extra hours of sleep of ten patients with two drugs; t = 4.0621."""
    first = [0.7, -1.6, -0.2, -1.2, -0.1, 3.4, 3.7, 0.8, 0.0, 2.0]
    second = [1.9, 0.8, 1.1, 0.1, -0.1, 4.4, 5.5, 1.6, 4.6, 3.4]
    d = paired(by_seed(second), by_seed(first))
    assert d.mean == pytest.approx(1.58)
    assert d.p == pytest.approx(0.002833, abs=1e-6)
    assert (d.low, d.high) == pytest.approx((0.7001142, 2.4598858))


@given(VALUES, VALUES)
def test_differences_are_those_of_scipys_paired_test(first, second):
    n = min(len(first), len(second))
    a, b = np.array(first[:n]), np.array(second[:n])
    d = paired(by_seed(first), by_seed(second))
    if np.std(a - b) <= 1e-9 * max(1e-9, np.abs(a - b).max()):
        return
    assert d.n == n
    assert d.p == pytest.approx(stats.ttest_rel(a, b).pvalue, rel=1e-6, abs=1e-9)


def test_only_seeds_that_both_have_are_compared():
    d = paired({0: 1.0, 1: 2.0, 2: 9.0}, {1: 1.5, 2: 8.0, 7: 0.0})
    assert (d.n, d.mean) == (2, 0.75)
    assert paired({0: 1.0}, {1: 1.0}) is None
    assert equivalence({0: 1.0}, {1: 1.0}, 1) is None


@pytest.mark.parametrize("differences", [[0.5], [0.5, 0.5, 0.5], [0.0, 0.0]])
def test_what_does_not_vary_says_nothing_about_chance(differences):
    first, second = by_seed(differences), by_seed([0.0] * len(differences))
    d = paired(first, second)
    assert d.mean == differences[0]
    assert math.isnan(d.p)
    assert math.isnan(d.low)
    assert math.isnan(equivalence(first, second, 1.0).p)
    assert all(map(math.isnan, bootstrap(differences)))


@given(VALUES, st.floats(0.01, 50))
def test_equivalence_is_the_ninety_percent_interval_inside_the_margin(differences, margin):
    first, second = by_seed(differences), by_seed([0.0] * len(differences))
    tost, interval = equivalence(first, second, margin), paired(first, second, 0.9)
    if math.isnan(tost.p):
        return
    slack = 1e-6 * (1 + interval.high - interval.low)
    inside = -margin < interval.low and interval.high < margin
    if abs(interval.low + margin) > slack and abs(interval.high - margin) > slack:
        assert (tost.p < 0.05) == inside
        assert (tost.p_worse < 0.05) == (interval.low > -margin)


def test_much_better_is_not_worse_but_not_equivalent_either():
    tost = equivalence(by_seed([5.0, 5.1, 4.9, 5.05]), by_seed([0.0] * 4), margin=1.0)
    assert tost.p_worse < 0.001
    assert tost.p > 0.99


@pytest.mark.parametrize("n", [3, 5, 10])
def test_intervals_cover_and_tests_err_as_often_as_they_say(n):
    """4,000 simulated studies without any difference."""
    rng = np.random.default_rng(n)
    covered = rejected = called_equivalent = 0
    studies = 4000
    for _ in range(studies):
        seed_effect = rng.normal(0, 5, n)  # shared by both: pairing must take it out
        a = by_seed(seed_effect + rng.normal(0, 1, n))
        b = by_seed(seed_effect + rng.normal(0, 1, n))
        d = paired(a, b)
        covered += d.low < 0 < d.high
        rejected += d.p < 0.05
        # at a true difference of exactly the margin, "equivalent" may be said in 5 % at most
        shifted = {seed: value + 1.0 for seed, value in a.items()}
        called_equivalent += equivalence(shifted, b, margin=1.0).p < 0.05
    assert covered / studies == pytest.approx(0.95, abs=0.012)
    assert rejected / studies == pytest.approx(0.05, abs=0.012)
    assert called_equivalent / studies <= 0.062


def test_bootstrap_intervals_cover_a_skewed_mean():
    rng = np.random.default_rng(0)
    covered = 0
    for i in range(200):
        low, high = bootstrap(rng.exponential(1, 40), resamples=500, seed=i)
        covered += low < 1 < high
    assert 0.88 < covered / 200 < 0.99


def test_bootstrap_is_repeatable():
    values = [1.1, 2.3, 4.9, 8.2, 3.7, 2.2, 9.8]
    assert bootstrap(values, seed=1) == bootstrap(values, seed=1)
    assert bootstrap(values, seed=1) != bootstrap(values, seed=2)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ([0.01, 0.04, 0.03, 0.005], [0.03, 0.06, 0.06, 0.02]),
        ([0.2], [0.2]),
        ([0.9, 0.8], [1.0, 1.0]),
        ([], []),
    ],
)
def test_holms_correction_worked_by_hand(given, expected):
    assert holm(given) == pytest.approx(expected)


def test_holm_passes_over_what_is_not_known():
    corrected = holm([0.01, float("nan"), 0.04])
    assert corrected[0] == pytest.approx(0.02)
    assert math.isnan(corrected[1])
    assert corrected[2] == pytest.approx(0.04)


@pytest.mark.parametrize(
    ("call", "complaint"),
    [
        (lambda: summarise([]), "at least one value"),
        (lambda: summarise([1, 2], confidence=95), "confidence is 95"),
        (lambda: equivalence({0: 1.0}, {0: 1.0}, margin=0), "margin is 0"),
    ],
)
def test_nonsense_is_refused(call, complaint):
    with pytest.raises(SkinnyError, match=complaint):
        call()
