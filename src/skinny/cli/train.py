"""`skinny train`: a training run from a recipe and the flags that change it."""

import itertools
import json
import sys
from dataclasses import dataclass, replace
from pathlib import Path

import torch
import tyro
from rich.console import Console

from skinny import data
from skinny.cli import downloads, progress, summary
from skinny.cli.command_line import parse, take_name
from skinny.errors import SkinnyError
from skinny.training import Config, RunFolder, Several, figures, recipes, train
from skinny.training import config as configs
from skinny.training.distributed import Ranks, joined
from skinny.training.tensorboard import TensorBoard


@dataclass(frozen=True)
class Train:
    """Train a network by iterative hard thresholding, or by a baseline method.

    Running the same command again goes on where it stopped, or says that it is done. On several
    GPUs or machines: torchrun --nproc-per-node 8 -m skinny train ...

    Example: skinny train cifar10-quick --sparsity 0.95 --seed 1 --baseline
    """

    config: tyro.conf.OmitArgPrefixes[Config]
    runs: Path = Path("runs")
    """Where run folders are kept."""
    baseline: bool = False
    """Train the same network dense as well, with the same budget, and compare."""
    data_dir: Path | None = None
    """Where the data lies; else $SKINNY_DATA and the user's cache are searched."""
    device: str = "auto"
    """cpu, cuda, cuda:1, mps; auto takes the best there is."""
    threads: int | None = None
    """CPU threads; else PyTorch decides."""
    tensorboard: bool = False
    """Write losses, accuracies, sparsity and change ratio for TensorBoard, into the run folder."""
    tensorboard_layers: bool = False
    """The same, with the sparsity and change ratio of every layer."""
    plan: bool = False
    """Print the config and the timeline, and train nothing."""
    quiet: bool = False
    """No progress and no summary, only errors."""
    json: bool = False
    """One JSON object per epoch and one for the outcome, for scripts."""

    @property
    def data(self) -> str | None:
        return None if self.data_dir is None else str(self.data_dir)


def main(argv: list[str]) -> int:
    name = take_name(argv, "recipe", recipes.names())
    config = Config() if name is None else recipes.recipe(name)
    if _names_another(argv, "--model", config.model):  # whose options are not the recipe's
        config = configs.without_model_options(config)
    if _names_another(argv, "--method", config.method):  # which has spans of its own
        config = configs.without_spans(config)
    described = "\n".join(f"  {recipe}: {recipes.describe(recipe)}" for recipe in recipes.names())
    arguments = parse(
        Train,
        argv,
        f"skinny train {name or '[RECIPE]'}",
        default=Train(config),
        epilogue=f"Recipes:\n{described}",
        first_words=() if name else recipes.names(),
    )
    return run(arguments)


def _names_another(argv: list[str], flag: str, usual: str) -> bool:
    for word, following in itertools.pairwise([*argv, ""]):
        name, equals, value = word.partition("=")
        if name == flag:
            return (value if equals else following) != usual
    return False


def run(arguments: Train) -> int:
    with joined() as ranks:
        return _run(
            arguments if ranks.writes else replace(arguments, quiet=True, json=False), ranks
        )


def _run(arguments: Train, ranks: Ranks) -> int:
    config = configs.check(arguments.config)
    if arguments.threads is not None:
        if arguments.threads < 1:
            raise SkinnyError(f"threads is {arguments.threads}; it must be at least 1")
        torch.set_num_threads(arguments.threads)
    if arguments.plan and not ranks.writes:
        return 0
    if arguments.plan:
        print(configs.to_json(config))
        print(_timeline(config, arguments.data))
        return 0
    wanted = [config]
    if arguments.baseline and config.method != "dense":
        wanted.insert(0, configs.dense_baseline(config))
    with downloads.shown(quiet=arguments.quiet):
        folders = [_run_one(one, arguments, ranks) for one in wanted]
    if not arguments.quiet and not arguments.json:
        summary.show(folders, Console())
    return 0


def _timeline(config: Config, data_dir: str | None) -> str:
    """The spans as a table; to count steps the data must be at hand, and is not fetched for it."""
    if config.unit == "epoch":
        return str(configs.timeline(config, steps_per_epoch=1))
    try:
        dataset = data.load(config.data, data_dir=data_dir, download=False)
    except data.DataError as error:
        return f"the timeline counts steps, and how many there are is not known: {error}"
    images = config.train_size or len(dataset.train) - (config.val_size or 0)
    return str(configs.timeline(config, -(-images // config.batch_size)))


def _run_one(config: Config, arguments: Train, ranks: Ranks) -> RunFolder:
    folder = RunFolder(arguments.runs / config.run_name)
    observer = progress.choose(quiet=arguments.quiet, as_json=arguments.json)
    if (arguments.tensorboard or arguments.tensorboard_layers) and ranks.writes:
        writer = TensorBoard(folder.tensorboard, layers=arguments.tensorboard_layers)
        observer = Several(observer, writer)
    result = train(
        config,
        folder,
        observer=observer,
        device=arguments.device,
        data_dir=arguments.data,
    )
    if not ranks.writes:
        return folder
    try:
        figures.draw(folder)
    except SkinnyError as error:  # the run itself is whole
        print(f"skinny: no figures: {error}", file=sys.stderr)
    if arguments.json:
        print(json.dumps({"run": str(folder.path), "result": result}), file=sys.stdout, flush=True)
    return folder
