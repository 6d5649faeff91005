"""What a step of an execution plan computes, in words and numbers."""

from dataclasses import dataclass


@dataclass(frozen=True)
class StepInfo:
    """What a step computes, for `profile`."""

    name: str
    op: str
    kernel: str
    operations: int = 0  # multiplications and additions of one image, those with zeros not counted
