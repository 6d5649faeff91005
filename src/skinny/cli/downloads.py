"""What a download looks like: a line for each file, and on a terminal a bar below it."""

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

from skinny.printable import printable


@contextlib.contextmanager
def shown(*, quiet: bool = False, bars: bool = True) -> Iterator[None]:
    """Show on standard error what is downloaded meanwhile. No bars: inside another display."""
    from skinny.data.fetch import watching  # here, because it loads torch, and `--help` must not

    console = Console(stderr=True)
    bar = _Bar(console) if bars and not quiet and console.is_terminal else None

    def watch(url: str, path: Path, done: int, total: int) -> None:
        if not done and not quiet:
            if bar is not None:
                bar.end()  # that of an address that failed
            print(
                f"downloading {printable(url)} to {printable(path.parent)}",
                file=sys.stderr,
                flush=True,
            )
        if bar is not None:
            bar.show(path.name, done, total)

    with watching(watch):
        try:
            yield
        finally:
            if bar is not None:
                bar.end()


class _Bar:
    """The bar of one file at a time, gone when the file is there."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._progress: Progress | None = None

    def show(self, name: str, done: int, total: int) -> None:
        if self._progress is None:
            self._progress = Progress(
                TextColumn("{task.description}", markup=False),
                BarColumn(24),
                DownloadColumn(),
                TimeRemainingColumn(),
                console=self._console,
                transient=True,
            )
            self._progress.add_task(name, total=None)
            self._progress.start()
        for task in self._progress.task_ids:
            self._progress.update(task, completed=done, total=total or None)
        if done and done == total:
            self.end()

    def end(self) -> None:
        if self._progress is not None:
            self._progress.stop()
            self._progress = None
