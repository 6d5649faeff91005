"""What a training looks like: live on a terminal, lines elsewhere, JSON for scripts."""

import json
import sys
import time
from typing import Any

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from skinny.iht.timeline import Timeline
from skinny.printable import printable
from skinny.training import Observer, Progress, RunInfo, Silent

_SECONDS_BETWEEN_LINES = 60.0
_DENSE, _SPARSE, _AHEAD = "blue", "yellow", "grey50"


def choose(*, quiet: bool, as_json: bool) -> Observer:
    if quiet:
        return Silent()
    if as_json:
        return JsonLines()
    console = Console()
    return LiveProgress(console) if console.is_terminal else PlainLines()


class _Clock:
    """Images per second and time left, from what this process has seen of the run."""

    def begin(self, info: RunInfo) -> None:
        self.info = info
        self.began = time.monotonic()
        self.first = self._position(info.first_epoch, info.first_step)

    def _position(self, epoch: int, step: int) -> int:
        return epoch * self.info.steps_per_epoch + step

    def rate_and_left(self, epoch: int, step: int) -> tuple[float, float]:
        spent = max(1e-9, time.monotonic() - self.began)
        done = self._position(epoch, step)
        per_step = spent / max(1, done - self.first)
        total = self._position(self.info.config.epochs, 0)
        images_per_step = self.info.images_per_epoch / self.info.steps_per_epoch
        return images_per_step / per_step, (total - done) * per_step


class PlainLines(Silent):
    """A line per epoch, and one a minute within long epochs."""

    def __init__(self) -> None:
        self._clock = _Clock()
        self._printed = time.monotonic()

    def begin(self, info: RunInfo) -> None:
        self._clock.begin(info)
        print(printable(f"{info.config.run_name}: {info.config.model} on {info.config.data}"))
        print(info.timeline, flush=True)

    def step(self, progress: Progress) -> None:
        if time.monotonic() - self._printed > _SECONDS_BETWEEN_LINES:
            info = self._clock.info
            rate, left = self._clock.rate_and_left(progress.epoch, progress.step)
            loss = "" if progress.loss is None else f"loss {progress.loss:.4f}, "
            self._print(
                f"epoch {progress.epoch + 1}/{info.config.epochs}, step {progress.step}/"
                f"{info.steps_per_epoch}: {loss}{rate:,.0f} images/s, {_duration(left)} left"
            )

    def epoch(self, record: dict[str, Any]) -> None:
        _, left = self._clock.rate_and_left(record["epoch"] + 1, 0)
        self._print(
            f"{_epoch_line(record, self._clock.info)}, "
            f"{record['images_per_second']:,.0f} images/s, {_duration(left)} left"
        )

    def note(self, text: str) -> None:
        self._print(printable(text))

    def _print(self, line: str) -> None:
        self._printed = time.monotonic()
        print(line, flush=True)


class JsonLines(Silent):
    """One object per epoch on standard output; notes go to standard error."""

    def epoch(self, record: dict[str, Any]) -> None:
        print(json.dumps(record), flush=True)

    def note(self, text: str) -> None:
        print(printable(text), file=sys.stderr, flush=True)


class LiveProgress(Silent):
    """The timeline with its spans, a bar, and the numbers of the moment."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._clock = _Clock()
        self._live: Live | None = None
        self._record: dict[str, Any] | None = None
        self._progress: Progress | None = None

    def begin(self, info: RunInfo) -> None:
        self._clock.begin(info)
        self._live = Live(
            console=self._console,
            refresh_per_second=4,
            transient=True,
            get_renderable=self._render,
        )
        self._live.start()

    def step(self, progress: Progress) -> None:
        self._progress = progress

    def epoch(self, record: dict[str, Any]) -> None:
        self._record = record

    def note(self, text: str) -> None:
        self._console.print(printable(text), highlight=False, markup=False)

    def end(self) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None

    def _render(self) -> Group:
        info, now = self._clock.info, self._progress
        config = info.config
        epoch, within = (info.first_epoch, 0) if now is None else (now.epoch, now.step)
        done = epoch + within / info.steps_per_epoch
        rate, left = self._clock.rate_and_left(epoch, within)
        width = min(self._console.width, 72)
        bar = Table.grid()  # on its own a bar ends without a new line
        bar.add_row(ProgressBar(config.epochs, done, width=width))
        sparse = now is not None and bool(now.sparsity)
        line = Text(
            f"epoch {min(epoch + 1, config.epochs)}/{config.epochs}"
            f"  step {within}/{info.steps_per_epoch}  "
        )
        line.append(
            f"{now.phase} {now.sparsity:.1%}" if now and sparse else "dense",
            style=_SPARSE if sparse else _DENSE,
        )
        if now and now.loss is not None:
            line.append(f"  loss {now.loss:.4f}")
        parts: list[Any] = [
            Text(printable(f"{config.run_name}: {config.model} on {config.data}"), style="bold"),
            _timeline_bar(info, done, width),
            bar,
            line,
            Text(f"{rate:,.0f} images/s  {_duration(left)} left" if within else ""),
        ]
        if self._record is not None:
            parts.append(Text(_epoch_line(self._record, info), style="dim"))
        return Group(*parts)


def _timeline_bar(info: RunInfo, done: float, width: int) -> Text:
    """One character per piece of the timeline: full blocks are sparse spans, light ones dense."""
    timeline: Timeline = info.timeline
    unit = info.steps_per_epoch if timeline.unit == "step" else 1
    bar = Text()
    for column in range(width):
        span = timeline.spans[timeline.index(int(column * timeline.total / width))]
        past = column * timeline.total / width < done * unit
        colour = (_SPARSE if span.sparsity else _DENSE) if past else _AHEAD
        bar.append("█" if span.sparsity else "▁", style=colour)
    return bar


def _epoch_line(record: dict[str, Any], info: RunInfo) -> str:
    test = record["test_accuracy"]
    sparsity = f" {record['sparsity']:.1%}" if record["sparsity"] else ""
    return (
        f"epoch {record['epoch'] + 1}/{info.config.epochs}: {record['phase']}{sparsity}, "
        f"loss {record['train_loss']:.4f}, training {record['train_accuracy']:.2%}"
        + (f", test {test:.2%}" if test is not None else "")
    )


def _duration(seconds: float) -> str:
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"
