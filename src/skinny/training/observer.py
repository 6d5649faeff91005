"""What a training tells while it runs. How that looks is not the loop's business."""

from typing import Any, NamedTuple, Protocol

from skinny.iht.events import MaskUpdate
from skinny.iht.timeline import Timeline
from skinny.training.config import Config


class RunInfo(NamedTuple):
    """What is going to happen."""

    config: Config
    timeline: Timeline
    steps_per_epoch: int
    images_per_epoch: int
    first_epoch: int  # later than 0 when a run is resumed
    first_step: int  # within that epoch
    layers: dict[str, int]  # prunable layers and their sizes


class Progress(NamedTuple):
    """How far the training is after an optimizer step."""

    epoch: int
    step: int
    images: int
    loss: float | None  # mean over the epoch so far; None when it was not read from the device
    phase: str
    sparsity: float


class Observer(Protocol):
    def begin(self, info: RunInfo) -> None: ...
    def step(self, progress: Progress) -> None: ...
    def mask_update(self, update: MaskUpdate) -> None: ...
    def epoch(self, record: dict[str, Any]) -> None: ...
    def note(self, text: str) -> None: ...
    def end(self) -> None: ...


class Silent:
    """Tells nothing."""

    def begin(self, info: RunInfo) -> None: ...
    def step(self, progress: Progress) -> None: ...
    def mask_update(self, update: MaskUpdate) -> None: ...
    def epoch(self, record: dict[str, Any]) -> None: ...
    def note(self, text: str) -> None: ...
    def end(self) -> None: ...


class Several:
    """Tells several observers, one after the other."""

    def __init__(self, *observers: Observer) -> None:
        self._observers = observers

    def begin(self, info: RunInfo) -> None:
        for observer in self._observers:
            observer.begin(info)

    def step(self, progress: Progress) -> None:
        for observer in self._observers:
            observer.step(progress)

    def mask_update(self, update: MaskUpdate) -> None:
        for observer in self._observers:
            observer.mask_update(update)

    def epoch(self, record: dict[str, Any]) -> None:
        for observer in self._observers:
            observer.epoch(record)

    def note(self, text: str) -> None:
        for observer in self._observers:
            observer.note(text)

    def end(self) -> None:
        for observer in self._observers:
            observer.end()
