"""`skinny eval`: test a finished run again."""

import dataclasses
import json
from dataclasses import dataclass
from pathlib import Path

import tyro

from skinny import data
from skinny.cli import downloads
from skinny.cli.command_line import parse
from skinny.training import evaluate, load_run
from skinny.training.session import choose_device


@dataclass(frozen=True)
class Eval:
    """Test the network of a finished run on its test images.

    Example: skinny eval runs/demo-1a2b3c4d
    """

    run: tyro.conf.Positional[Path]
    """The run folder."""
    model: str | None = None
    """The run's own model, package.module:function, if it is not one of Skinny's: its code is
    imported from the current directory or Python's path, and only if you name it here."""
    data: str | None = None
    """The same for the run's data, if they are a package.module:function."""
    data_dir: Path | None = None
    """Where the data lies; else $SKINNY_DATA and the user's cache are searched."""
    device: str = "auto"
    """cpu, cuda, cuda:1, mps; auto takes the best there is."""
    json: bool = False
    """Print JSON, with images and errors per class."""


def main(argv: list[str]) -> int:
    return run(parse(Eval, argv, "skinny eval"))


def run(arguments: Eval) -> int:
    data_dir = None if arguments.data_dir is None else str(arguments.data_dir)
    with downloads.shown():
        trained = load_run(
            arguments.run, data_dir=data_dir, model=arguments.model, data=arguments.data
        )
    device = choose_device(arguments.device)
    batches = data.test_batches(
        trained.dataset, batch_size=256, device=device, whiten=trained.config.whiten
    )
    result = evaluate(trained.model.to(device), batches, len(trained.dataset.classes))
    if arguments.json:
        print(json.dumps(dataclasses.asdict(result)))
    else:
        print(
            f"accuracy {result.accuracy:.2%}, top-5 {result.top5:.2%}, loss {result.loss:.4f}, "
            f"{sum(result.errors)} of {sum(result.images)} images wrong"
        )
    return 0
