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
from skinny.training import Observer, Plan, Silent, Step

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

    def begin(self, plan: Plan) -> None:
        self.plan = plan
        self.began = time.monotonic()
        self.first = self._position(plan.first_epoch, plan.first_step)

    def _position(self, epoch: int, step: int) -> int:
        return epoch * self.plan.steps_per_epoch + step

    def rate_and_left(self, epoch: int, step: int) -> tuple[float, float]:
        spent = max(1e-9, time.monotonic() - self.began)
        done = self._position(epoch, step)
        per_step = spent / max(1, done - self.first)
        total = self._position(self.plan.config.epochs, 0)
        images_per_step = self.plan.images_per_epoch / self.plan.steps_per_epoch
        return images_per_step / per_step, (total - done) * per_step


class PlainLines(Silent):
    """A line per epoch, and one a minute within long epochs."""

    def __init__(self) -> None:
        self._clock = _Clock()
        self._printed = time.monotonic()

    def begin(self, plan: Plan) -> None:
        self._clock.begin(plan)
        print(f"{plan.config.run_name}: {plan.config.model} on {plan.config.data}")
        print(plan.timeline, flush=True)

    def step(self, step: Step) -> None:
        if time.monotonic() - self._printed > _SECONDS_BETWEEN_LINES:
            plan = self._clock.plan
            rate, left = self._clock.rate_and_left(step.epoch, step.step)
            loss = "" if step.loss is None else f"loss {step.loss:.4f}, "
            self._print(
                f"epoch {step.epoch + 1}/{plan.config.epochs}, step {step.step}/"
                f"{plan.steps_per_epoch}: {loss}{rate:,.0f} images/s, {_duration(left)} left"
            )

    def epoch(self, record: dict[str, Any]) -> None:
        _, left = self._clock.rate_and_left(record["epoch"] + 1, 0)
        self._print(
            f"{_epoch_line(record, self._clock.plan)}, "
            f"{record['images_per_second']:,.0f} images/s, {_duration(left)} left"
        )

    def note(self, text: str) -> None:
        self._print(text)

    def _print(self, line: str) -> None:
        self._printed = time.monotonic()
        print(line, flush=True)


class JsonLines(Silent):
    """One object per epoch on standard output; notes go to standard error."""

    def epoch(self, record: dict[str, Any]) -> None:
        print(json.dumps(record), flush=True)

    def note(self, text: str) -> None:
        print(text, file=sys.stderr, flush=True)


class LiveProgress(Silent):
    """The timeline with its spans, a bar, and the numbers of the moment."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._clock = _Clock()
        self._live: Live | None = None
        self._record: dict[str, Any] | None = None
        self._step: Step | None = None

    def begin(self, plan: Plan) -> None:
        self._clock.begin(plan)
        self._live = Live(
            console=self._console,
            refresh_per_second=4,
            transient=True,
            get_renderable=self._render,
        )
        self._live.start()

    def step(self, step: Step) -> None:
        self._step = step

    def epoch(self, record: dict[str, Any]) -> None:
        self._record = record

    def note(self, text: str) -> None:
        self._console.print(text, highlight=False)

    def end(self) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None

    def _render(self) -> Group:
        plan, step = self._clock.plan, self._step
        config = plan.config
        epoch, within = (plan.first_epoch, 0) if step is None else (step.epoch, step.step)
        done = epoch + within / plan.steps_per_epoch
        rate, left = self._clock.rate_and_left(epoch, within)
        width = min(self._console.width, 72)
        bar = Table.grid()  # on its own a bar ends without a new line
        bar.add_row(ProgressBar(config.epochs, done, width=width))
        sparse = step is not None and bool(step.sparsity)
        now = Text(
            f"epoch {min(epoch + 1, config.epochs)}/{config.epochs}"
            f"  step {within}/{plan.steps_per_epoch}  "
        )
        now.append(
            f"{step.phase} {step.sparsity:.1%}" if step and sparse else "dense",
            style=_SPARSE if sparse else _DENSE,
        )
        if step and step.loss is not None:
            now.append(f"  loss {step.loss:.4f}")
        parts: list[Any] = [
            Text(f"{config.run_name}: {config.model} on {config.data}", style="bold"),
            _timeline_bar(plan, done, width),
            bar,
            now,
            Text(f"{rate:,.0f} images/s  {_duration(left)} left" if within else ""),
        ]
        if self._record is not None:
            parts.append(Text(_epoch_line(self._record, plan), style="dim"))
        return Group(*parts)


def _timeline_bar(plan: Plan, done: float, width: int) -> Text:
    """One character per piece of the timeline: full blocks are sparse spans, light ones dense."""
    timeline: Timeline = plan.timeline
    unit = plan.steps_per_epoch if timeline.unit == "step" else 1
    bar = Text()
    for column in range(width):
        span = timeline.spans[timeline.index(int(column * timeline.total / width))]
        past = column * timeline.total / width < done * unit
        colour = (_SPARSE if span.sparsity else _DENSE) if past else _AHEAD
        bar.append("█" if span.sparsity else "▁", style=colour)
    return bar


def _epoch_line(record: dict[str, Any], plan: Plan) -> str:
    test = record["test_accuracy"]
    sparsity = f" {record['sparsity']:.1%}" if record["sparsity"] else ""
    return (
        f"epoch {record['epoch'] + 1}/{plan.config.epochs}: {record['phase']}{sparsity}, "
        f"loss {record['train_loss']:.4f}, training {record['train_accuracy']:.2%}"
        + (f", test {test:.2%}" if test is not None else "")
    )


def _duration(seconds: float) -> str:
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"
