from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skinny.training import Config
from skinny.training.config import timeline
from skinny.training.schedule import factor, factor_by_step

schedules = st.sampled_from(["cosine", "step", "constant"])


@given(st.floats(0, 1), schedules, st.floats(0, 0.9))
def test_the_factor_stays_between_nothing_and_all(progress, schedule, warmup):
    assert 0 <= factor(progress, schedule, (0.5, 0.8), warmup) <= 1


@pytest.mark.parametrize(
    ("progress", "schedule", "warmup", "expected"),
    [
        (0.0, "cosine", 0.0, 1.0),
        (0.5, "cosine", 0.0, 0.5),
        (1.0, "cosine", 0.0, 0.0),
        (0.6, "cosine", 0.2, 0.5),
        (0.1, "constant", 0.2, 0.5),
        (0.9, "constant", 0.2, 1.0),
        (0.49, "step", 0.0, 1.0),
        (0.5, "step", 0.0, 0.1),
        (0.8, "step", 0.0, 0.01),
    ],
)
def test_factor_by_example(progress, schedule, warmup, expected):
    assert factor(progress, schedule, (0.5, 0.8), warmup) == pytest.approx(expected)


def test_one_schedule_spans_all_epochs_by_default():
    config = Config(epochs=8, dense=1, sparse=3)
    at = factor_by_step(config, timeline(config, 10), 10)
    rates = [at(step) for step in range(80)]
    assert rates == sorted(rates, reverse=True)


def test_it_can_restart_with_every_cycle():
    config = Config(epochs=8, dense=1, sparse=3, restart_lr=True)
    at = factor_by_step(config, timeline(config, 10), 10)
    assert at(39) < 0.01 < 0.99 < at(40)
    assert [at(step) for step in range(40)] == [at(step + 40) for step in range(40)]


@pytest.mark.parametrize("restart_lr", [False, True])
@pytest.mark.parametrize("schedule", ["cosine", "constant"])
def test_the_rate_can_rise_from_zero_wherever_weights_are_restored(restart_lr, schedule):
    plain = Config(epochs=12, dense=2, sparse=2, restart_lr=restart_lr, schedule=schedule)
    warmed = replace(plain, restore_warmup=1.5)
    before, after = (factor_by_step(c, timeline(c, 10), 10) for c in (plain, warmed))
    for step in range(120):
        restored = step >= 40  # the first dense span restores nothing
        risen = min(1, (step % 40 + 0.5) / 15) if restored else 1
        assert after(step) == pytest.approx(before(step) * risen), step
    assert after(40) < 0.05 < before(40)


@pytest.mark.parametrize("spans", [{}, {"dense": 1, "sparse": 3}, {"dense": 1, "sparse": 2}])
@pytest.mark.parametrize("unit", ["epoch", "step"])
def test_dense_training_can_restart_where_sdnn_does(spans, unit):
    skinny = Config(
        epochs=10, restart_lr=True, restore_warmup=0.5, unit=unit, sparsity=0.9, r0=0.8, **spans
    )
    dense = replace(skinny, method="dense")
    assert len(timeline(dense, 7).spans) == 1
    rates = [factor_by_step(c, timeline(c, 7), 7) for c in (skinny, dense)]
    assert [rates[0](step) for step in range(70)] == [rates[1](step) for step in range(70)]
    assert any(rates[1](step) < rates[1](step + 1) for step in range(69))


def test_restarts_follow_a_timeline_counted_in_steps():
    config = Config(epochs=2, dense=2, sparse=3, restart_lr=True, unit="step")
    at = factor_by_step(config, timeline(config, 10), 10)
    assert at(4) < at(5)
    assert at(5) == at(0)
