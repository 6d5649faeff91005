"""`skinny demo`: the whole method on a small data set, against the dense network."""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from rich.console import Console
from rich.table import Table

from skinny.cli import grid_progress, summary
from skinny.cli.command_line import parse
from skinny.experiments.processes import Processes
from skinny.experiments.store import Store
from skinny.experiments.sweep import sweep
from skinny.files import atomic_write
from skinny.training import Config, RunFolder, figures, recipe
from skinny.training import config as configs

SPARSITIES = (0.0, 0.5, 0.9)
SEEDS = (0, 1, 2)


@dataclass(frozen=True)
class Demo:
    """Train the digits network dense and by iterative hard thresholding, and compare.

    The same network, the same number of epochs, three seeds each, one training per core.
    Takes a minute or two.

    Example: skinny demo --runs /tmp/demo
    """

    runs: Path = Path("runs/demo")
    """Where the run folders and the picture are kept."""
    epochs: int = recipe("demo").epochs
    """Epochs for every network, dense and sparse alike."""


def main(argv: list[str]) -> int:
    return run(parse(Demo, argv, "skinny demo"))


def run(arguments: Demo) -> int:
    console = Console(highlight=False)
    shared = dataclasses.replace(recipe("demo"), epochs=arguments.epochs)
    wanted = {
        sparsity: [_config(shared, sparsity, seed) for seed in SEEDS] for sparsity in SPARSITIES
    }
    for of_one in wanted.values():
        configs.check(of_one[0])
    every = [config for of_one in wanted.values() for config in of_one]
    console.print(
        f"[bold]Handwritten digits[/bold]: {len(every)} trainings of {shared.epochs} epochs each: "
        f"dense, and by iterative hard thresholding at 50% and 90% sparsity, {len(SEEDS)} seeds.\n"
        "The timeline at 90%:"
    )
    console.print(str(configs.timeline(wanted[SPARSITIES[-1]][0], 1)), style="dim")
    store = Store(arguments.runs)
    with grid_progress.choose(len(every), quiet=False) as tell:
        outcomes = sweep(every, store, executor=Processes(), tell=tell)
    if any(outcome.accuracy is None for outcome in outcomes):
        return grid_progress.conclude(outcomes) or 1
    done = {
        sparsity: [RunFolder(store.path(config)) for config in of_one]
        for sparsity, of_one in wanted.items()
    }
    last = done[SPARSITIES[-1]][0]
    figures.draw(last)
    picture = arguments.runs / "demo.png"
    _draw(done, picture)
    console.print(_table(done))
    console.print(_verdict(done), soft_wrap=True)
    console.print(
        f"\nLook next at\n  {picture}: this comparison as a picture\n"
        f"  {last.figures}: learning curves, sparsity and weights of one run\n"
        "  skinny train --help: your own data, network, sparsity and timeline\n"
        "  README.md and docs/method.md: how it works, and in your own loop in two lines",
        soft_wrap=True,
        markup=False,
    )
    return 0


def _config(shared: Config, sparsity: float, seed: int) -> Config:
    method: configs.Method = "sdnn" if sparsity else "dense"
    return dataclasses.replace(shared, method=method, sparsity=sparsity, seed=seed)


def _label(sparsity: float) -> str:
    return f"SDNN {sparsity:.0%}" if sparsity else "dense"


def _accuracies(folders: Sequence[RunFolder]) -> list[float]:
    return [_result(folder)["test_accuracy"] for folder in folders]


def _result(folder: RunFolder) -> dict[str, Any]:
    result = folder.result()
    assert result is not None  # all runs are over when results are looked at
    return result


def _table(done: dict[float, list[RunFolder]]) -> Table:
    size = sum(weight["size"] for weight in _result(done[0.0][0])["weights"].values())
    title = f"Same network of {size:,} weights, same epochs"
    table = Table("network", title=title, title_justify="left")
    for column in ("test accuracy", "each seed", "weights kept", "size on disk"):
        table.add_column(column, justify="right")
    for sparsity, folders in done.items():
        accuracies = _accuracies(folders)
        result = _result(folders[0])
        table.add_row(
            _label(sparsity),
            f"{mean(accuracies):.2%} ± {100 * stdev(accuracies):.2f}",
            " ".join(f"{100 * accuracy:.1f}" for accuracy in accuracies),
            summary.weights_kept(result),
            summary.size_on_disk(result),
        )
    return table


def _verdict(done: dict[float, list[RunFolder]]) -> str:
    """What the numbers say, whichever way they fall; three seeds are an impression, not a proof."""
    test_images = sum(_result(done[0.0][0])["test_images"])
    dense = _accuracies(done[0.0])
    lines = []
    for sparsity, folders in done.items():
        if sparsity:
            pairs = zip(_accuracies(folders), dense, strict=True)
            difference = mean(mine - theirs for mine, theirs in pairs)
            images = difference * test_images
            lines.append(
                f"{_label(sparsity)}: {100 * difference:+.2f} points against dense, on average "
                f"{abs(images):.1f} of {test_images} test images "
                + ("better" if difference > 0 else "worse" if difference < 0 else "apart")
            )
    return "\n".join(lines)


def _draw(done: dict[float, list[RunFolder]], path: Path) -> None:
    from matplotlib.figure import Figure

    figure = Figure((9, 3.6), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=(2, 3))
    for place, folders in enumerate(done.values()):
        accuracies = [100 * accuracy for accuracy in _accuracies(folders)]
        beside = [place + 0.08 * (seed - (len(SEEDS) - 1) / 2) for seed in range(len(accuracies))]
        left.plot(beside, accuracies, "o", color="0.6")
        left.plot([place - 0.2, place + 0.2], [mean(accuracies)] * 2, color="#e45756", lw=2.5)
    left.set_xticks(range(len(done)), [_label(sparsity) for sparsity in done])
    left.set_xlim(-0.5, len(done) - 0.5)
    left.set_ylabel("test accuracy, %")
    left.set_title("each seed, and their mean", loc="left", fontsize="medium")
    sparsest = done[SPARSITIES[-1]][0]
    epochs = sparsest.metrics()
    figures.shade(right, figures.spans_in_epochs(sparsest.config(), epochs), len(epochs))
    for sparsity, folders in done.items():
        metrics = folders[0].metrics()
        right.plot(
            [record["epoch"] + 1 for record in metrics],
            [100 * record["test_accuracy"] for record in metrics],
            label=_label(sparsity),
        )
    right.set_ylim(bottom=80)
    right.set_xlabel("epoch (shaded: sparse spans)")
    right.set_title("while training, seed 0", loc="left", fontsize="medium")
    right.legend(loc="lower right")
    with atomic_write(path) as file:
        figure.savefig(file, dpi=130, format="png")
