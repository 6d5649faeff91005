"""Who this process is among those that train together, what its share is, and who writes.

`torchrun` starts the processes, on one machine or several, and tells each of them its rank. Without
it there is one process, to which all of this is the identity. Whatever takes values from other
ranks is a collective operation: every rank must come to it.
"""

import contextlib
import os
import signal
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.rendezvous import rendezvous

from skinny.data import CorruptImageWarning, Share
from skinny.errors import SkinnyError

_CPU = torch.device("cpu")
_Value = TypeVar("_Value")


@dataclass(frozen=True)
class Ranks:
    """This process, and how many there are; those of one machine are neighbours."""

    index: int = 0
    count: int = 1
    local_index: int = 0
    neighbours: int = 1

    @property
    def writes(self) -> bool:
        """Whether this rank writes the run folder, and tells how the training goes."""
        return self.index == 0

    @property
    def share(self) -> Share:
        return Share(self.index, self.count, self.neighbours)

    def total(self, *values: Tensor | float) -> list[float]:
        """The sum of each value over all ranks."""
        mine = [float(value) for value in values]
        if self.count == 1:
            return mine
        sums = torch.tensor(mine, dtype=torch.float64)
        dist.all_reduce(sums)
        found: list[float] = sums.tolist()
        return found

    def from_first(self, make: Callable[[], _Value]) -> _Value:
        """What `make` returns on the first rank, where alone it is called, on every rank."""
        if self.count == 1:
            return make()
        holder: list[Any] = [make() if self.index == 0 else None]
        dist.broadcast_object_list(holder, device=_CPU)
        value: _Value = holder[0]
        return value

    def gather(self, value: _Value) -> list[_Value]:
        """The value of every rank, in their order."""
        if self.count == 1:
            return [value]
        values: list[Any] = [None] * self.count
        dist.all_gather_object(values, value)
        return values

    @contextlib.contextmanager
    def first_on_machine(self) -> Iterator[None]:
        """One rank of each machine goes before its neighbours: it may write a cache for all."""
        if self.local_index:
            self.total(0)
        yield
        if not self.local_index:
            self.total(0)

    def replicate(self, model: nn.Module, device: torch.device) -> nn.Module:
        """The model as training calls it: its gradients become the mean over ranks."""
        if self.count == 1:
            return model
        if device.type != "cuda":
            return nn.parallel.DistributedDataParallel(model)
        torch.cuda.set_device(device)
        return nn.parallel.DistributedDataParallel(model, device_ids=[device])


def ranks() -> Ranks:
    """Of the process group, if this process is in one."""
    if not dist.is_initialized() or dist.get_world_size() == 1:
        return Ranks()
    return Ranks(
        dist.get_rank(),
        dist.get_world_size(),
        int(os.environ.get("LOCAL_RANK", "0")),
        int(os.environ.get("LOCAL_WORLD_SIZE", "1")),
    )


@contextlib.contextmanager
def joined() -> Iterator[Ranks]:
    """Be one of the processes that torchrun started; or the only one, where it started none.

    When one of them fails, all end, and one of them says why: whoever notices first. A rank that
    was killed can say nothing, and then the first to miss it does.
    """
    if "RANK" not in os.environ or os.environ.get("WORLD_SIZE") == "1" or dist.is_initialized():
        yield ranks()
        return
    backend = "cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo"
    try:
        store, index, count = next(rendezvous("env://"))
        dist.init_process_group(backend, store=store, rank=index, world_size=count)
    except (RuntimeError, ValueError) as error:
        reason = " ".join(str(error).split())
        raise SkinnyError(
            f"this process has a RANK, and cannot join the others: {reason:.300}"
        ) from error
    before = signal.signal(signal.SIGTERM, _end)
    try:
        with warnings.catch_warnings():
            if index:  # the first rank warns of all but what only one rank has seen
                warnings.simplefilter("ignore")
                warnings.simplefilter("default", CorruptImageWarning)
            yield ranks()
    except (Exception, KeyboardInterrupt, _EndedError) as error:
        # torchrun may end this rank too while it says what happened
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        if not _is_first(store, index):
            raise SystemExit(130 if isinstance(error, KeyboardInterrupt) else 1) from None
        if _misses_a_rank(error):
            raise SkinnyError(
                "another process of this training ended before it was done; what was saved is "
                "whole: run the same command again to go on"
            ) from error
        raise
    finally:
        signal.signal(signal.SIGTERM, before)
        dist.destroy_process_group()


class _EndedError(BaseException):
    """torchrun ends the other ranks when one has failed. Code that outlives any `Exception` (of a
    user's data set, of torch.export) must not outlive this one."""


def _end(*_: object) -> None:
    raise _EndedError


def _misses_a_rank(error: BaseException | None) -> bool:
    """Whether the error, or one that it came from, is that a process is gone.

    Gloo has no exception of its own, only a text that begins with one of its source files. The
    processes that load data are ended with their rank, which then hears of them first.
    """
    if error is None:
        return False
    text = str(error).lower() if isinstance(error, RuntimeError) else ""
    return (
        isinstance(error, _EndedError | dist.DistError)
        or "gloo" in text
        or "killed by signal: terminated" in text
        or _misses_a_rank(error.__cause__ or error.__context__)
    )


def _is_first(store: Any, index: int) -> bool:
    """Whether no rank has told of a failure yet. The store is torchrun's, and outlives a rank."""
    try:
        return bool(store.add("skinny failed", 1) == 1)
    except RuntimeError:
        return index == 0
