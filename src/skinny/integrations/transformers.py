"""IHT in Hugging Face's Trainer: trainer.add_callback(IHTCallback(trainer, timeline)).

Its state is a file of its own in each checkpoint folder. What the Trainer would save for a callback
(`ExportableState`) becomes JSON, in which masks have no place; safetensors holds them, and reading
it executes nothing.
"""

import functools
import hashlib
import json
import operator
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Unpack

import torch
from torch import Tensor

from skinny.errors import SkinnyError
from skinny.files import atomic_write
from skinny.iht import state as states
from skinny.iht.controller import IHT
from skinny.iht.events import Event
from skinny.iht.timeline import Timeline
from skinny.integrations import shared

try:
    from safetensors import SafetensorError, safe_open
    from safetensors.torch import save
    from transformers import Trainer, TrainerCallback, TrainerControl, TrainerState
    from transformers import TrainingArguments as Arguments
    from transformers.trainer_utils import PREFIX_CHECKPOINT_DIR
except ModuleNotFoundError as problem:
    raise SkinnyError(
        f"IHT in transformers needs the module {problem.name!r}: "
        "pip install 'skinny-nn[transformers]'"
    ) from None

FILE = "iht.safetensors"


class IHTCallback(TrainerCallback):
    """Trains the Trainer's model by iterative hard thresholding.

    IHT is attached where the training begins: model, optimizer and what a checkpoint holds of both
    are complete then. Epochs and steps are counted for you, sparsity and change ratio go through
    `trainer.log`, and `trainer.train(resume_from_checkpoint=...)` goes on exactly where the
    checkpoint was saved.

    log_layers: log sparsity and change ratio of every layer too
    options:    of `skinny.IHT`: budget, pattern, quantize, include, exclude, score, restore,
                seed

    iht: the `skinny.IHT` of the latest training, None before the first
    """

    def __init__(
        self,
        trainer: Trainer,
        timeline: Timeline,
        *,
        log_layers: bool = False,
        **options: Unpack[shared.Options],
    ) -> None:
        shared.check(options)
        self.iht: IHT | None = None
        self._trainer, self._timeline, self._options = trainer, timeline, options
        self._log_layers, self._log_is_due = log_layers, False
        self._within_epoch = False  # resumed there: the Trainer begins this epoch once more

    def on_train_begin(
        self, args: Arguments, state: TrainerState, control: TrainerControl, **_: Any
    ) -> None:
        saved = _saved(args, state) if state.global_step > 0 else None
        self._within_epoch = saved is not None and state.epoch % 1 != 0
        if self.iht is not None:
            self.iht.detach()
        self.iht = IHT(
            self._trainer.model_wrapped,  # in its wrapper, by which IHT knows of other ranks
            self._trainer.optimizer,
            self._timeline,
            on_event=self._on_event,
            state=saved,
            **self._options,
        )

    def on_epoch_begin(
        self, args: Arguments, state: TrainerState, control: TrainerControl, **_: Any
    ) -> None:
        if not self._within_epoch:
            self._attached().begin_epoch()
        self._within_epoch = False

    def on_step_end(
        self, args: Arguments, state: TrainerState, control: TrainerControl, **_: Any
    ) -> None:
        if self._log_is_due:
            self._log_is_due = False
            self._log(control, shared.scalars(self._attached(), self._log_layers))

    def on_epoch_end(
        self, args: Arguments, state: TrainerState, control: TrainerControl, **_: Any
    ) -> None:
        self._log(control, {"iht/sparsity": self._attached().sparsity})

    def on_save(
        self, args: Arguments, state: TrainerState, control: TrainerControl, **_: Any
    ) -> None:
        iht = states.gathered(self._attached().state_dict())  # on every rank
        if args.should_save:
            _save(iht, _folder(args, state), _training(state))

    def on_train_end(
        self, args: Arguments, state: TrainerState, control: TrainerControl, **_: Any
    ) -> None:
        shared.finish(self._attached(), self._trainer.model)

    def _on_event(self, iht: IHT, event: Event) -> None:
        self._log_is_due = event.kind != "pruning"
        if event.span is self._timeline.spans[-1] and event.kind == "pruned":
            state = self._trainer.state  # the best so far does not meet the budget
            state.best_metric = state.best_global_step = state.best_model_checkpoint = None

    def _log(self, control: TrainerControl, found: Mapping[str, float]) -> None:
        should_log = control.should_log  # of the loss, which would be taken for logged
        self._trainer.log(dict(found))
        control.should_log = should_log

    def _attached(self) -> IHT:
        assert self.iht is not None
        return self.iht


def _folder(args: Arguments, state: TrainerState) -> Path:
    return Path(args.output_dir, f"{PREFIX_CHECKPOINT_DIR}-{state.global_step}")


def _training(state: TrainerState) -> str:
    """By which a checkpoint is told from one of another training at the same step."""
    known = json.dumps([state.global_step, state.log_history], sort_keys=True)
    return hashlib.sha256(known.encode()).hexdigest()


def _save(state: Mapping[str, Any], folder: Path, training: str) -> None:
    if not folder.is_dir():  # of a hyperparameter search, which does not resume
        warnings.warn(f"IHT saves no state: there is no checkpoint folder {folder}", stacklevel=2)
        return
    tensors, rest = _apart(state)
    named = {json.dumps(path): tensor for path, tensor in tensors.items()}
    with atomic_write(folder / FILE) as file:
        file.write(save(named, {"state": json.dumps(rest), "training": training}))


def _apart(state: Mapping[str, Any]) -> tuple[dict[tuple[str, ...], Tensor], dict[str, Any]]:
    """The tensors of a state by the keys that lead to them, and the rest, which is JSON."""
    tensors: dict[tuple[str, ...], Tensor] = {}
    rest: dict[str, Any] = {}
    for name, value in state.items():
        if isinstance(value, Tensor):  # a copy: safetensors has no two names for one
            tensors[name,] = value.clone(memory_format=torch.contiguous_format)
        elif isinstance(value, Mapping):
            inner, rest[name] = _apart(value)
            tensors |= {(name, *path): tensor for path, tensor in inner.items()}
        else:
            rest[name] = value
    return tensors, rest


def _saved(args: Arguments, state: TrainerState) -> dict[str, Any]:
    """The state of IHT in the checkpoint that is resumed; the Trainer does not say which it is."""
    folders = [_folder(args, state)]
    if args.resume_from_checkpoint:
        folders.insert(0, Path(args.resume_from_checkpoint))
    for folder in folders:
        if (folder / FILE).is_file():
            found, training = _load(folder / FILE)
            if training == _training(state):
                return found
    raise SkinnyError(
        f"the training is resumed at step {state.global_step}, and there is no state of IHT for it "
        f"({FILE}) in {' or '.join(map(str, folders))}: if the checkpoint is in another folder, "
        "give that to TrainingArguments(resume_from_checkpoint=...) too; if it was saved without "
        "IHT, begin a new training with its weights"
    )


def _load(path: Path) -> tuple[dict[str, Any], str]:
    try:
        with safe_open(path, "pt") as file:
            metadata = file.metadata()
            state: dict[str, Any] = json.loads(metadata["state"])
            for key in file.keys():  # noqa: SIM118 (it has no __iter__)
                *outer, name = json.loads(key)
                functools.reduce(operator.getitem, outer, state)[name] = file.get_tensor(key)
            return state, metadata["training"]
    except (SafetensorError, KeyError, TypeError, ValueError) as problem:
        raise SkinnyError(f"{path} is damaged or no state of IHT: {problem}") from problem
