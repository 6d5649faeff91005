"""`skinny sweep`: every combination of some config fields, for several seeds."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro

from skinny.cli import grid_progress
from skinny.cli.command_line import UsageError, parse, take_name
from skinny.errors import SkinnyError
from skinny.experiments.cluster import Cluster
from skinny.experiments.grid import grid, parse_axis
from skinny.experiments.job import Executor
from skinny.experiments.processes import Processes
from skinny.experiments.store import Store
from skinny.experiments.sweep import Serial, sweep
from skinny.training import Config, recipes


@dataclass(frozen=True)
class Workers:
    """Where and how runs are trained."""

    runs: Path = Path("runs")
    """Where run folders are kept."""
    records: tuple[Path, ...] = ()
    """Files that skinny record made; their runs are not trained again."""
    executor: Literal["processes", "serial", "ray"] = "processes"
    """Processes of this machine, this very process (for debugging), or a Ray cluster."""
    processes: int | None = None
    """Worker processes; else one per core or per GPU."""
    threads: int = 1
    """CPU threads of each."""
    device: str = "auto"
    """cpu, cuda, cuda:1, mps; auto takes the best there is."""
    data_dir: Path | None = None
    """Where the data lies; else $SKINNY_DATA and the user's cache are searched."""
    quiet: bool = False
    """No progress, only errors."""

    @property
    def data(self) -> str | None:
        return None if self.data_dir is None else str(self.data_dir)

    def store(self) -> Store:
        return Store.open(self.runs, self.records)

    def make(self) -> Executor:
        if self.executor == "serial":
            return Serial(self.device, self.data)
        if self.executor == "ray":
            return Cluster(self.threads, self.device, self.data)
        return Processes(self.processes, self.threads, self.device, self.data)


@dataclass(frozen=True)
class Sweep:
    """Train every combination of some config fields, for several seeds, in parallel.

    Running the same command again trains what is missing. A run that fails is reported and the
    rest go on; the exit code is then 1.

    Example: skinny sweep demo --set method=sdnn,oneshot --set sparsity=0.8,0.9 --seeds 0 1 2
    """

    workers: tyro.conf.OmitArgPrefixes[Workers]
    set_: Annotated[tyro.conf.UseAppendAction[tuple[str, ...]], tyro.conf.arg(name="set")] = ()
    """FIELD=VALUE,VALUE,...: values of a config field (see skinny train --help); repeatable."""
    seeds: tuple[int, ...] = (0,)
    """Every combination is trained with each of these."""
    plan: bool = False
    """Print the runs, and train nothing."""
    json: bool = False
    """One JSON object per run, for scripts."""


def main(argv: list[str]) -> int:
    name = take_name(argv, "recipe", recipes.names())
    arguments = parse(
        Sweep,
        argv,
        f"skinny sweep {name or '[RECIPE]'}",
        default=Sweep(Workers()),
        epilogue=f"Recipes: {', '.join(recipes.names())}.",
        first_words=() if name else recipes.names(),
    )
    return run(recipes.recipe(name) if name else Config(), arguments)


def run(base: Config, arguments: Sweep) -> int:
    if not arguments.set_ and len(arguments.seeds) < 2:
        raise UsageError(
            "say what to vary, with --set FIELD=VALUE,VALUE or with several --seeds; "
            "skinny train trains a single run"
        )
    axes = {}
    for text in arguments.set_:
        field, values = parse_axis(text)
        if field in axes or field == "seed":
            instead = "use --seeds" if field == "seed" else "it is given twice"
            raise SkinnyError(f"--set {text}: {instead}")
        axes[field] = values
    configs = grid(base, axes, arguments.seeds)
    workers = arguments.workers
    if arguments.plan:
        for config in configs:
            varied = ", ".join(f"{field} {getattr(config, field)}" for field in (*axes, "seed"))
            print(f"{workers.runs / config.run_name}: {varied}")
        return 0
    with grid_progress.choose(len(configs), quiet=workers.quiet or arguments.json) as tell:
        outcomes = sweep(
            configs,
            workers.store(),
            executor=workers.make(),
            tell=tell,
            check_data=workers.executor != "ray",
            data_dir=workers.data,
        )
    if arguments.json:
        for outcome in outcomes:
            print(
                json.dumps(
                    {
                        "run": str(outcome.job.path),
                        "status": outcome.status,
                        "test_accuracy": outcome.accuracy,
                        "error": outcome.error,
                    }
                )
            )
    return grid_progress.conclude(outcomes)
