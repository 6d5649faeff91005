"""IHT as a callback of Lightning's Trainer: Trainer(callbacks=[IHTCallback(timeline)])."""

from collections.abc import Mapping
from functools import partial
from typing import Any, Unpack

import skinny
from skinny.errors import SkinnyError
from skinny.iht import ranks
from skinny.iht import state as states
from skinny.iht.controller import IHT
from skinny.iht.events import Event
from skinny.iht.timeline import Timeline
from skinny.integrations import shared

try:
    from lightning.pytorch import Callback, LightningModule, Trainer
except ModuleNotFoundError:
    try:
        from pytorch_lightning import Callback, LightningModule, Trainer
    except ModuleNotFoundError as problem:
        raise SkinnyError(
            f"IHT in Lightning needs the module {problem.name!r}: "
            "pip install 'skinny-nn[lightning]'"
        ) from None


class IHTCallback(Callback):
    """Trains the LightningModule by iterative hard thresholding.

    IHT is attached where the training starts: models, optimizers and what a checkpoint holds of
    both are complete then. Epochs and steps are counted for you, whoever steps the optimizers
    (automatic or manual optimization), and `trainer.fit(model, ckpt_path=...)` goes on exactly
    where the checkpoint was saved.

    log_layers: log sparsity and change ratio of every layer too
    pack:       what `skinny.pack` is called with when the training is over, {"path": "m.skinny"};
                its example is the module's `example_input_array` unless given
    options:    of `skinny.IHT`: budget, pattern, quantize, include, exclude, score, restore,
                seed

    iht: the `skinny.IHT` of the latest training, None before the first
    """

    def __init__(
        self,
        timeline: Timeline,
        *,
        log_layers: bool = False,
        pack: Mapping[str, Any] | None = None,
        **options: Unpack[shared.Options],
    ) -> None:
        super().__init__()
        shared.check(options)
        self.iht: IHT | None = None
        self._timeline, self._options = timeline, options
        self._log_layers, self._pack = log_layers, pack
        self._loaded: Mapping[str, Any] = {}  # what a checkpoint holds, until IHT is attached
        self._epoch: int | None = None  # of the trainer: the latest that has begun
        self._log_is_due = False

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        self._loaded = {}  # Lightning restores states to evaluate, too

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        state = self._loaded
        if not state and trainer.global_step > 0:  # a second fit() goes on; its optimizers are new
            state = self.state_dict()
        if self.iht is not None:
            self.iht.detach()
        self._epoch = state.get("epoch")
        self.iht = IHT(
            trainer.model,  # in its wrapper, by which IHT knows of other ranks
            trainer.optimizers,
            self._timeline,
            on_event=partial(self._on_event, trainer),
            state=state.get("iht"),
            **self._options,
        )
        self._loaded = {}
        if self._pack is not None and any(map(ranks.is_sharded, self.iht.weights.values())):
            raise SkinnyError(
                "pack needs a model that is not sharded: load the checkpoint into one process "
                "after the training, and call skinny.pack there"
            )

    def on_train_epoch_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if trainer.current_epoch != self._epoch:  # else it had begun when a checkpoint was saved
            self._attached().begin_epoch()
            self._epoch = trainer.current_epoch

    def on_train_batch_start(self, trainer: Trainer, pl_module: LightningModule, *_: Any) -> None:
        # Lightning does not announce the epoch that follows a checkpoint of an epoch's last batch.
        self.on_train_epoch_start(trainer, pl_module)

    def on_train_batch_end(self, trainer: Trainer, *_: Any) -> None:
        if self._log_is_due:
            self._log_is_due = False
            found = shared.scalars(self._attached(), self._log_layers)
            for logger in trainer.loggers:
                logger.log_metrics(found, step=trainer.global_step)

    def on_train_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        # Through Lightning, so that file names of checkpoints can say it, too.
        self.log("iht/sparsity", self._attached().sparsity, sync_dist=True)

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        shared.finish(self._attached(), pl_module)
        if self._pack is not None and trainer.is_global_zero:
            skinny.pack(pl_module, **{"example": pl_module.example_input_array, **self._pack})

    def state_dict(self) -> dict[str, Any]:
        if self.iht is None:
            return dict(self._loaded)
        return {"iht": states.gathered(self.iht.state_dict()), "epoch": self._epoch}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self._loaded = state_dict

    def _on_event(self, trainer: Trainer, iht: IHT, event: Event) -> None:
        if event.kind == "pruning":
            return
        self._log_is_due = True
        if event.span is self._timeline.spans[-1] and event.kind == "pruned":
            for saver in trainer.checkpoint_callbacks:
                if hasattr(saver, "best_k_models"):  # the best so far do not meet the budget
                    saver.best_k_models.clear()
                    saver.best_model_path, saver.best_model_score = "", None

    def _attached(self) -> IHT:
        assert self.iht is not None
        return self.iht
