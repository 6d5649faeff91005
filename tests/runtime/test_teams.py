"""How many threads a call is worth."""

from itertools import pairwise

import pytest

from skinny.runtime.step_info import StepInfo
from skinny.runtime.teams import nanoseconds, worth


def linear(inputs: int, outputs: int) -> StepInfo:
    return StepInfo("layer", "linear", "deltas", 2 * inputs * outputs // 10)


@pytest.mark.parametrize(
    ("sizes", "threads"),
    [((32, 64, 64, 1), 1), ((784, 300, 100, 10), 1), ((784, 1024, 1024, 10), 2)],
)
def test_small_networks_run_on_one_thread(sizes, threads):
    steps = [linear(*pair) for pair in pairwise(sizes)]
    assert worth(nanoseconds(steps), 2) == threads


def test_a_batch_is_worth_the_threads_that_one_sample_is_not():
    work = nanoseconds([linear(784, 300)])
    assert worth(work, 8) == 1
    assert worth(1000 * work, 8) == 8


def test_many_small_steps_are_not_shared():
    """Waiting for each other after each takes longer than half of such a step."""
    steps = [StepInfo("layer", "conv", "sparse", 300_000)] * 150
    assert worth(nanoseconds(steps), 2, len(steps)) == 1
    assert worth(nanoseconds(steps), 2) == 2
    large = [StepInfo("layer", "conv", "sparse", 3_000_000)] * 50
    assert worth(nanoseconds(large), 4, len(large)) == 4


@pytest.mark.parametrize("work", [0.0, 1.0, 1e30])
@pytest.mark.parametrize("threads", [1, 2, 1024])
def test_there_is_always_a_thread_and_never_more_than_allowed(work, threads):
    assert 1 <= worth(work, threads) <= threads
