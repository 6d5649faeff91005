"""A training as scalars for TensorBoard (extra `tensorboard`): an observer beside the others."""

import os
from typing import Any

from skinny.errors import SkinnyError
from skinny.iht.events import MaskUpdate
from skinny.training.observer import Progress, RunInfo, Silent

_EVERY = 20  # steps between two losses within an epoch


class TensorBoard(Silent):
    """Writes event files below `folder`; steps are optimizer steps since the training began.

    layers: sparsity and change ratio of every layer too.
    """

    def __init__(self, folder: str | os.PathLike[str], *, layers: bool = False) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ModuleNotFoundError as error:
            raise SkinnyError(
                f"writing for TensorBoard needs the package {error.name}: "
                "pip install 'skinny-nn[tensorboard]'"
            ) from None
        self._open, self._folder, self._layers = SummaryWriter, os.fspath(folder), layers
        self._writer: SummaryWriter | None = None

    def begin(self, info: RunInfo) -> None:
        self._info = info
        done = self._steps(info.first_epoch, info.first_step)
        # what a run that was killed wrote after its last checkpoint is trained again
        self._writer = self._open(self._folder, purge_step=done + 1 if done else None)

    def step(self, progress: Progress) -> None:
        if progress.loss is not None and progress.step % _EVERY == 0:
            at = self._steps(progress.epoch, progress.step)
            self._write(at, {"loss/train within the epoch": progress.loss})

    def mask_update(self, update: MaskUpdate) -> None:
        at = update.at if self._info.timeline.unit == "step" else self._steps(update.at, 0)
        self._write(at, {"change ratio": update.change_ratio})
        if self._layers:
            self._write(at, _by_layer("change ratio", update.change or {}))

    def epoch(self, record: dict[str, Any]) -> None:
        at = self._steps(record["epoch"] + 1, 0)
        scalars = {
            "loss/train": record["train_loss"],
            "loss/test": record["test_loss"],
            "accuracy/train": record["train_accuracy"],
            "accuracy/test": record["test_accuracy"],
            "sparsity": record["sparsity"],
            "learning rate": record["lr"],
            "images per second": record["images_per_second"],
        }
        self._write(at, scalars)
        if self._layers:
            self._write(at, _by_layer("sparsity", record["layers"]))
        if self._writer is not None:
            self._writer.flush()

    def end(self) -> None:
        if self._writer is not None:
            self._writer.close()

    def _steps(self, epochs: int, steps: int) -> int:
        return epochs * self._info.steps_per_epoch + steps

    def _write(self, at: int, scalars: dict[str, float | None]) -> None:
        assert self._writer is not None
        for tag, value in scalars.items():
            if value is not None:
                self._writer.add_scalar(tag, value, at)


def _by_layer(what: str, values: dict[str, float]) -> dict[str, float | None]:
    return {f"{what} of layers/{name}": value for name, value in values.items()}
