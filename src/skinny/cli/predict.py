"""`skinny predict`: what a packed model sees in image files."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import tyro

from skinny.cli.command_line import parse
from skinny.errors import SkinnyError
from skinny.printable import printable
from skinny.runtime import Classifier, load

_BATCH = 64


@dataclass(frozen=True)
class Predict:
    """Classify image files with a packed model. Images are brought to the size the model wants.

    Example: skinny predict digits.skinny five.png seven.png
    """

    model: tyro.conf.Positional[Path]
    """The packed model."""
    images: tyro.conf.Positional[tuple[Path, ...]]
    """Image files: JPEG, PNG, WebP, BMP, GIF or TIFF."""
    top: int = 1
    """How many classes to print for each image, the most likely first."""
    threads: int | None = None
    """Threads to compute with; all cores by default."""
    json: bool = False
    """Print JSON."""


def main(argv: list[str]) -> int:
    return run(parse(Predict, argv, "skinny predict"))


def run(arguments: Predict) -> int:
    if not arguments.images:
        raise SkinnyError("there are no images to classify; name one or more after the model")
    if arguments.top < 1:
        raise SkinnyError(f"--top {arguments.top} is not possible; it must be 1 or more")
    net = load(arguments.model, threads=arguments.threads)
    found = [_best(net, row, arguments.top) for row in _probabilities(net, arguments.images)]
    if arguments.json:
        records = [
            {
                "image": str(path),
                "classes": [{"label": label, "probability": p} for label, p in best],
            }
            for path, best in zip(arguments.images, found, strict=True)
        ]
        print(json.dumps(records))
        return 0
    names = [printable(path) for path in arguments.images]
    width = max(map(len, names))
    for name, best in zip(names, found, strict=True):
        classes = "  ".join(f"{printable(label)} {p:.1%}" for label, p in best)
        print(f"{name.ljust(width)}  {classes}")
    return 0


def _probabilities(net: Classifier, paths: tuple[Path, ...]) -> Iterator[np.ndarray]:
    """A row for each image; a batch at a time, however many there are."""
    for start in range(0, len(paths), _BATCH):
        yield from net.probabilities(paths[start : start + _BATCH])


def _best(net: Classifier, probabilities: np.ndarray, top: int) -> list[tuple[str, float]]:
    order = np.argsort(-probabilities, kind="stable")[:top]
    return [(net.label(int(index)), float(probabilities[index])) for index in order]
