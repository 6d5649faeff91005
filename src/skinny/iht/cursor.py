"""How far a training has come along its timeline, and whether that is far enough."""

import weakref
from dataclasses import dataclass

from skinny.errors import SkinnyError
from skinny.iht.timeline import Span, Timeline


@dataclass
class Cursor:
    """Where in its timeline a training is. Holds no tensor, so that it may outlive the training."""

    timeline: Timeline
    position: int = 0  # epochs begun, or steps done
    index: int = -1  # of the span the training is in; -1 before it has begun
    owner: weakref.ref[object] | None = None  # the IHT

    @property
    def in_use(self) -> bool:
        return self.owner is not None and self.owner() is not None

    @property
    def span(self) -> Span | None:
        return self.timeline.spans[self.index] if self.index >= 0 else None

    def check_end(self) -> None:
        """An error unless the training came to the last span, from which on its budget holds."""
        line, last = self.timeline, self.timeline.spans[-1]
        if self.span is last:
            return
        skipped = " (steps that a loss scaler skips do not count)" * (line.unit == "step")
        end = f"sparse at {last.sparsity:.1%}" if last.sparsity else "dense"
        raise SkinnyError(
            f"the training ended after {self.position} of {line.total} {line.unit}s{skipped}, "
            f"before the last span ({end}) began with {line.unit} {last.start + 1}: "
            "train on, or give the timeline the length of the training"
        )
