"""How many threads a call is worth."""

from collections.abc import Iterable

from skinny.runtime.step_info import StepInfo

# Rough: an operation of a layer that reads its weights for one vector, and
# of a layer that uses them many times; and what any step takes.
_NS_LINEAR, _NS_OTHER, _NS_STEP = 0.15, 0.02, 200.0
# Waking a thread costs some microseconds, and more where other processes want the cores: each
# thread must have this much to do.
_NS_OF_A_THREAD = 20_000.0
# After a step that they share threads wait for each other, and what one wrote moves to the others'
# caches: each thread must have this much to do in a step.
_NS_OF_A_SHARE = 4_000.0


def nanoseconds(steps: Iterable[StepInfo]) -> float:
    """About how long one thread computes the steps for one sample."""
    return sum(
        _NS_STEP + step.operations * (_NS_LINEAR if step.op == "linear" else _NS_OTHER)
        for step in steps
    )


def worth(work: float, threads: int, shared_steps: int = 0) -> int:
    """How many of `threads` to use for `work` nanoseconds. They share the work of `shared_steps`
    steps, or none: each computes samples of its own."""
    least = max(_NS_OF_A_THREAD, shared_steps * _NS_OF_A_SHARE)
    return max(1, min(threads, int(work / least)))
