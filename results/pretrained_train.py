"""examples/prune_pretrained.py with a record of each arm: how it was trained, accuracy and bytes.

    python results/pretrained_train.py --images IMAGENETTE --seed 1 --into FOLDER

Arms that have a record are not trained again, so that a training that was stopped can go on, and
several processes can share the arms (`--arms`). Trials, which choose settings, are trained on fewer
photographs (`--per-class`) and judged by training photographs that are held out (`--held-out`).
"""

import json
import sys
from dataclasses import dataclass
from pathlib import Path

import torch
import tyro
from torch import Tensor

import skinny
from skinny.files import atomic_write
from skinny.iht.timeline import Timeline

sys.path.insert(0, str(Path(__file__).parents[1] / "examples"))
import prune_pretrained as example


@dataclass(frozen=True)
class Options(example.Options):
    per_class: int | None = None  # photographs of each class to train on; unless given, all
    held_out: int = 0  # training photographs of each class to judge by, instead of all in val
    progressive: bool = False  # IHT's sparsity rises from cycle to cycle


def main(options: Options) -> None:
    train, test = read_splits(options)
    arms = timelines(options.epochs * (len(train[1]) // example.BATCH), options.progressive)
    arms, state = example.select(arms, options.arms), example.weights()
    options.into.mkdir(parents=True, exist_ok=True)
    settings = {
        "photographs": [len(train[1]), len(test[1])],
        "epochs": options.epochs,
        "rate": options.rate,
        "seed": options.seed,
        "progressive": options.progressive,
    }
    for name, timeline in arms.items():
        file, record = (options.into / f"{name}.{kind}" for kind in ("skinny", "json"))
        if record.exists():  # of a training that was stopped, or of another process
            if not settings.items() <= json.loads(record.read_text()).items():
                raise SystemExit(
                    f"{record} has other settings than {settings}: give another --into"
                )
            continue
        torch.manual_seed(options.seed)
        model = example.pretrained(state)
        example.fine_tune(model, timeline, options.rate, *train)
        example.pack(model, file)
        accuracy = example.accuracy(model, *test)
        write_record(record, settings | {"accuracy": accuracy, "bytes": file.stat().st_size})


def timelines(steps: int, progressive: bool) -> dict[str, Timeline]:
    """Those of the example; progressive: IHT begins at the default r0."""
    arms = example.timelines(steps)
    if progressive:
        for sparsity in example.SPARSITIES:
            arms[f"iht-{sparsity}"] = skinny.timeline.sdnn(steps=steps, sparsity=sparsity)
    return arms


def read_splits(options: Options) -> tuple[tuple[Tensor, Tensor], tuple[Tensor, Tensor]]:
    """What to train on, and what to judge by: the first of a class are those held out."""
    held, many = options.held_out, options.per_class
    trained = slice(held, None if many is None else held + many)
    split, judged = ("train", slice(held)) if held else ("val", slice(None))
    return (
        example.read_images(options.images / "train", trained),
        example.read_images(options.images / split, judged),
    )


def write_record(path: Path, found: dict[str, object]) -> None:
    print(path.stem, found, flush=True)
    with atomic_write(path, "w") as out:
        json.dump(found, out, indent=1)


if __name__ == "__main__":
    main(tyro.cli(Options, description=__doc__))
