"""What many runs look like while they are trained: live on a terminal, lines elsewhere."""

import contextlib
import sys
from collections.abc import Iterator, Sequence

from rich.console import Console
from rich.markup import escape
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
)

from skinny.cli import downloads
from skinny.experiments.job import Event, Note, Outcome, Searching, Tell
from skinny.printable import printable


@contextlib.contextmanager
def choose(total: int, *, quiet: bool) -> Iterator[Tell]:
    """A function to tell events to, for as long as the runs last."""
    console = Console()
    with downloads.shown(quiet=quiet, bars=False):
        if quiet:
            yield lambda event: None
        elif console.is_terminal:
            with _Live(total, console) as live:
                yield _once(live.tell)
        else:
            yield _once(_Lines(total).tell)


def conclude(outcomes: Sequence[Outcome]) -> int:
    """Name on standard error what failed; the exit code.

    That a run diverged is a result, which is counted; running it again would not change it.
    """
    diverged = sum(outcome.status == "diverged" for outcome in outcomes)
    if diverged:
        print(f"skinny: {diverged} of {len(outcomes)} runs diverged", file=sys.stderr)
    failed = [outcome for outcome in outcomes if outcome.status == "failed"]
    for outcome in failed:
        reason = " ".join((outcome.error or "").split())
        name = outcome.job.path.name
        print(f"skinny: {printable(f'{name} failed: {reason}')}", file=sys.stderr)
    if failed:
        print(
            f"skinny: {len(failed)} of {len(outcomes)} runs failed; the same command tries them "
            "again",
            file=sys.stderr,
        )
    return 1 if failed else 0


def _once(tell: Tell) -> Tell:
    """Tells the same note once: what is true of a machine, every job says."""
    said: set[str] = set()

    def to(event: Event) -> None:
        if isinstance(event, Note):
            if event.text in said:
                return
            said.add(event.text)
        tell(event)

    return to


class _Lines:
    """A line for every run that is over."""

    def __init__(self, total: int) -> None:
        self._total, self._over = total, 0

    def tell(self, event: Event) -> None:
        if isinstance(event, Outcome):
            self._over += 1
            print(f"[{self._over}/{self._total}] {_line(event)}", flush=True)
        elif isinstance(event, Searching):
            print(_searching(event), flush=True)
        elif isinstance(event, Note):
            print(printable(event.text), flush=True)


class _Live:
    """A bar for the grid and one for every run that is being trained."""

    def __init__(self, total: int, console: Console) -> None:
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            console=console,
        )
        self._all = self._progress.add_task("[bold]runs", total=total)
        self._tasks: dict[str, TaskID] = {}

    def __enter__(self) -> "_Live":
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def tell(self, event: Event) -> None:
        name = event.job.path.name
        if isinstance(event, Outcome):
            if name in self._tasks:
                self._progress.remove_task(self._tasks.pop(name))
            self._progress.advance(self._all)
            self._progress.console.print(escape(_line(event)), highlight=False)
            return
        if isinstance(event, Searching):
            self._progress.console.print(_searching(event), highlight=False)
            return
        if isinstance(event, Note):
            self._progress.console.print(escape(printable(event.text)), highlight=False)
            return
        if name not in self._tasks:
            self._tasks[name] = self._progress.add_task(
                escape(printable(name)), total=event.job.config.epochs
            )
        self._progress.update(self._tasks[name], completed=event.done)


def _searching(event: Searching) -> str:
    config = event.job.config
    return f"searching the layers to prune to {config.sparsity:.0%}, seed {config.seed}"


def _line(outcome: Outcome) -> str:
    config = outcome.job.config
    what = f"{config.method} {config.sparsity:.0%}" if config.sparsity else config.method
    told = f"{outcome.job.path.name} ({what}, seed {config.seed}): {outcome.status}"
    if outcome.accuracy is not None:
        told += f", accuracy {outcome.accuracy:.2%}"
    if outcome.error is not None:
        told += f": {' '.join(outcome.error.split())}"
    return printable(told)
