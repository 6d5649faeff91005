"""The one training loop."""

import contextlib
import dataclasses
import math
import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.nn import functional as F

from skinny.errors import SkinnyError
from skinny.iht.controller import IHT
from skinny.iht.events import Event
from skinny.training import after, checkpoint, distributed, outcome, packed, precision
from skinny.training.config import Config
from skinny.training.evaluation import Evaluation, evaluate
from skinny.training.folder import RunFolder, Unwritten
from skinny.training.observer import Observer, Progress, RunInfo, Silent
from skinny.training.reinit import reinitialise
from skinny.training.schedule import factor_by_step
from skinny.training.session import Session, build

_LOOK_EVERY = 20  # steps between two looks at the loss: each makes a GPU wait


class DivergedError(SkinnyError):
    """The loss became infinite or NaN."""


@dataclass
class Position:
    """How far a training has come, and what it has measured in the epoch it is in."""

    epoch: int = 0
    step: int = 0  # steps done in this epoch
    images: int = 0
    loss: float = 0.0  # summed over images
    correct: float = 0.0
    seconds: float = 0.0
    mask_updates: list[dict[str, Any]] = field(default_factory=list)


def train(
    config: Config,
    folder: RunFolder,
    *,
    observer: Observer | None = None,
    device: str = "auto",
    data_dir: str | None = None,
    checkpoint_seconds: float = 600.0,
) -> dict[str, Any]:
    """Train what `config` describes in `folder`, from its last checkpoint if there is one.

    Returns the record of the outcome (see `outcome.py`). A checkpoint is written after every epoch,
    and within one when `checkpoint_seconds` have passed since the last. In a process group, every
    rank calls this; the first one writes and is observed.
    """
    ranks = distributed.ranks()
    watcher = (observer or Silent()) if ranks.writes else Silent()
    folder = folder if ranks.writes else Unwritten(folder.path)
    with folder:
        folder.check(config)
        if (done := ranks.from_first(folder.result)) is not None:
            watcher.note(f"{folder.path} is finished already")
            return done
        position = Position()
        session = build(
            config,
            device=device,
            data_dir=data_dir,
            on_event=lambda iht, event: _keep_event(iht, event, position, folder, watcher),
            ranks=ranks,
        )
        with _writing(folder):
            folder.claim(config)
        if ":" in config.model and ranks.writes:  # the user's own; all of ours can be packed
            packed.note_unpackable(session.model, session.dataset, watcher.note)
        _resume(session, position, folder, watcher)
        if position == Position() and precision.is_emulated(config.precision, session.device):
            watcher.note(
                f"this CPU only emulates {config.precision}; --precision fp32 would be faster"
            )
        watcher.begin(
            RunInfo(
                config,
                session.timeline,
                len(session.train_batches),
                session.train_batches.images,
                position.epoch,
                position.step,
                {name: weight.numel() for name, weight in session.iht.weights.items()},
            )
        )
        try:
            evaluation = None
            while position.epoch < config.epochs:
                evaluation = _epoch(session, position, folder, watcher, checkpoint_seconds)
            if evaluation is None:  # killed after the last epoch and before the result
                evaluation = _evaluate(session)
            session.iht.finish()
            return ranks.from_first(lambda: _conclude(session, evaluation, folder, watcher))
        finally:
            watcher.end()


@contextlib.contextmanager
def _writing(folder: RunFolder) -> Iterator[None]:
    """A full disk, or one that may not be written, in one sentence."""
    try:
        yield
    except OSError as error:
        raise SkinnyError(
            f"cannot write to {folder.path}: {error.strerror or error}; what was saved is whole: "
            "make room and run the same command again to go on"
        ) from error


def _resume(session: Session, position: Position, folder: RunFolder, watcher: Observer) -> None:
    """Go on from the last checkpoint, if there is one."""

    def restore(state: dict[str, Any]) -> dict[str, Any]:
        session.load_state(state["session"])
        vars(position).update(vars(_checked(Position(**state["position"]), session)))
        return state

    def find() -> dict[str, Any] | None:
        state = checkpoint.load(folder.checkpoints, watcher.note, restore, set_aside=True)
        if len(folder.metrics()) < position.epoch:
            raise SkinnyError(
                f"{folder.metrics_file} is damaged: it lacks epochs that the checkpoint has; "
                "remove the run folder to start afresh"
            )
        with _writing(folder):
            folder.keep_metrics(position.epoch)
        return state

    state = session.ranks.from_first(find)
    if state is None:
        return
    if not session.ranks.writes:
        restore(state)
    where = f"epoch {position.epoch + 1}" + (f", step {position.step}" if position.step else "")
    watcher.note(f"going on in {folder.path} from {where}")


def _checked(position: Position, session: Session) -> Position:
    """ValueError or TypeError unless the training can be there."""
    epochs, steps = session.config.epochs, len(session.train_batches)
    if not (0 <= position.epoch <= epochs and 0 <= position.step < steps):
        raise ValueError(
            f"it is of epoch {position.epoch}, step {position.step}; there are {epochs} of {steps}"
        )
    for name, default in vars(Position()).items():
        value = getattr(position, name)
        if type(value) is not type(default) or (default == 0 and not 0 <= value < math.inf):
            raise ValueError(f"its {name} is {value!r:.40}")
    return position


def _save(session: Session, position: Position, folder: RunFolder) -> None:
    state = {"session": session.state(), "position": dataclasses.asdict(position)}
    with _writing(folder):
        folder.save_checkpoint(state)


def _conclude(
    session: Session, evaluation: Evaluation, folder: RunFolder, watcher: Observer
) -> dict[str, Any]:
    with _writing(folder):
        return outcome.conclude(session, evaluation, folder, watcher.note)


def _epoch(
    session: Session,
    position: Position,
    folder: RunFolder,
    watcher: Observer,
    checkpoint_seconds: float,
) -> Evaluation | None:
    """Train the epoch `position` is in to its end, record it, and move on to the next."""
    config, iht, ranks = session.config, session.iht, session.ranks
    if position.step == 0:
        _begin_epoch(session)
    steps = len(session.train_batches)
    rate_factor = factor_by_step(config, session.timeline, steps)
    # This rank's sums since the last look, on the device; a look moves those of all ranks to
    # `position` in full precision.
    loss_sum = torch.zeros((), device=session.device)
    correct = torch.zeros((), device=session.device)
    began, spent_before = time.monotonic(), position.seconds
    saved = began
    session.replica.train()
    for x, y in session.train_batches.epoch(position.epoch, position.step):
        factor = rate_factor(position.epoch * steps + position.step)
        for group in session.optimizer.param_groups:
            group["lr"] = config.lr * group["multiple"] * factor
        images = session.train_batches.size(position.step)  # of all ranks
        loss, scores = _step(session, x, y, weight=len(y) * ranks.count / images)
        loss_sum += loss * len(y)
        correct += (scores.argmax(dim=1) == y).sum()
        position.step += 1
        position.images += images
        mean, overdue = None, 0.0
        if (
            position.step % _LOOK_EVERY == 0
            or position.step == steps
            or session.device.type == "cpu"
        ):
            overdue = ranks.writes and time.monotonic() - saved > checkpoint_seconds
            more_loss, more_correct, overdue = ranks.total(loss_sum, correct, overdue)
            position.loss += more_loss
            position.correct += more_correct
            loss_sum.zero_()
            correct.zero_()
            mean = position.loss / position.images
            _check_loss(mean, position, folder)
        watcher.step(
            Progress(
                position.epoch,
                position.step,
                position.images,
                mean,
                iht.span.phase if iht.span else "dense",
                iht.sparsity,
            )
        )
        if overdue and position.step < steps:
            saved = time.monotonic()
            position.seconds = spent_before + saved - began
            _save(session, position, folder)
    seconds = spent_before + time.monotonic() - began
    last = position.epoch == config.epochs - 1
    if last and config.quantize == "int8-after":
        after.quantise(session)
    due = last or (position.epoch + 1) % config.eval_every == 0
    evaluation = _evaluate(session) if due else None
    record = _record(session, position, evaluation, seconds)
    with _writing(folder):
        folder.add_metrics(record)
    vars(position).update(vars(Position(epoch=position.epoch + 1)))
    _save(session, position, folder)
    watcher.epoch(record)
    return evaluation


def _begin_epoch(session: Session) -> None:
    """Prune or restore where a span begins, and do what the config asks for at such a moment."""
    with warnings.catch_warnings():
        # a resumed run has loaded IHT's state, and weights that begin as identities are mostly zero
        warnings.filterwarnings("ignore", "IHT begins at the start of its timeline")
        event = session.iht.begin_epoch()
    if event is None:
        return
    if event.kind == "pruned" and session.config.reinit:
        reinitialise(session)
    if event.kind == "restored" and session.config.reset_momentum:
        session.optimizer.state.clear()


def _keep_event(
    iht: IHT, event: Event, position: Position, folder: RunFolder, watcher: Observer
) -> None:
    """Keep what a mask update did for the epoch's record, and what the weights were before it."""
    update = event.update
    if event.kind == "pruned":
        position.mask_updates.append(
            {"at": update.at, "target": update.target, "change_ratio": update.change_ratio}
        )
        watcher.mask_update(update)
    elif event.kind == "pruning" and iht.timeline.unit == "epoch":
        assert iht.masks is not None
        layers = outcome.histograms(iht.weights, iht.masks)
        with _writing(folder):
            folder.write_histograms({"epoch": position.epoch, "layers": layers})


def _step(
    session: Session, x: torch.Tensor, y: torch.Tensor, weight: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """One forward, backward and update; the loss and the scores [n, classes], detached.

    weight: of this rank in the mean over ranks, 1 where all have equally many images.
    """
    session.optimizer.zero_grad(set_to_none=True)
    with session.autocast():
        scores = session.replica(x)
        loss = F.cross_entropy(scores, y, label_smoothing=session.config.label_smoothing)
    session.scaler.scale(loss * weight).backward()
    session.scaler.step(session.optimizer)
    session.scaler.update()
    return loss.detach(), scores.detach()


def _evaluate(session: Session) -> Evaluation:
    classes = len(session.dataset.classes)
    return evaluate(session.forward, session.test_batches, classes, session.ranks)


def _check_loss(mean: float, position: Position, folder: RunFolder) -> None:
    if mean - mean != 0:  # NaN or infinite
        error = DivergedError(
            f"the loss became {mean} in epoch {position.epoch + 1}, step {position.step}: "
            f"try a lower --lr or some --warmup (the checkpoint before it is in {folder.path})"
        )
        folder.write_diverged(str(error))
        raise error


def _record(
    session: Session,
    position: Position,
    evaluation: Evaluation | None,
    seconds: float,
) -> dict[str, Any]:
    """One line of metrics.jsonl."""
    span = session.iht.span
    assert span is not None
    return {
        "epoch": position.epoch,
        "steps": position.step,
        "phase": span.phase,
        "sparsity": session.iht.sparsity,
        "layers": session.iht.layer_sparsity(),
        "lr": max(group["lr"] for group in session.optimizer.param_groups),
        "train_loss": position.loss / position.images,
        "train_accuracy": position.correct / position.images,
        "test_loss": None if evaluation is None else evaluation.loss,
        "test_accuracy": None if evaluation is None else evaluation.accuracy,
        "mask_updates": position.mask_updates,
        "images_per_second": position.images / max(seconds, 1e-9),
        "seconds": seconds,
    }
