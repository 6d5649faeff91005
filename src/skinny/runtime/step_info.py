"""What a step of an execution plan computes, in words and numbers."""

from dataclasses import dataclass


@dataclass(frozen=True)
class StepInfo:
    """What a step computes, for `profile`."""

    name: str
    op: str
    kernel: str
    # Multiplications and additions, those with zeros not counted: of one image in the programs of
    # an image engine, of the whole batch in a tensor program.
    operations: int = 0
    form: str = "generated"  # of what was made for it when the network was loaded, if anything was
