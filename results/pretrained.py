"""MobileNetV2 with its ImageNet weights, pruned: what examples/prune_pretrained.py wrote."""

import json
from pathlib import Path
from typing import Any, NamedTuple

METHODS = {
    "dense": "dense",
    "iht": "IHT",
    "gradual": "gradual pruning",
    "oneshot": "one-shot pruning",
}
_SEEN = """\
Imagenette's validation photographs are mostly training images of ImageNet, which the published \
weights have seen: accuracies are those of fine-tuning and pruning, not of generalisation to new \
images."""


class Packed(NamedTuple):
    """A network in one file: what judged it, and milliseconds of an image."""

    result: dict[str, Any]  # accuracy, bytes; in fp32 also photographs, epochs, rate
    milliseconds: float

    @property
    def cells(self) -> str:
        result = self.result
        return (
            f"{100 * result['accuracy']:.1f} | {result['bytes'] / 1000:,.0f} | "
            f"{self.milliseconds:.2f}"
        )


class Arm(NamedTuple):
    method: str
    sparsity: float  # 0 is dense
    fp32: Packed
    int8: Packed

    @property
    def label(self) -> str:
        return f"{METHODS[self.method]}, {self.sparsity:.0%}" if self.sparsity else "dense"


def read(folder: Path) -> tuple[list[Arm], dict[str, Any]]:
    """The arms, by sparsity and method, and times.json. All must have been trained alike."""
    times = json.loads((folder / "times.json").read_text("utf-8"))

    def packed(name: str) -> Packed:
        result = json.loads((folder / f"{name}.json").read_text("utf-8"))
        return Packed(result, times["milliseconds"][f"Skinny, {name}"])

    arms = []
    for path in folder.glob("*-int8.json"):
        name = path.stem.removesuffix("-int8")
        method, _, sparsity = name.partition("-")
        arms.append(Arm(method, float(sparsity or 0), packed(name), packed(path.stem)))
    alike = {(arm.fp32.result["epochs"], *arm.fp32.result["photographs"]) for arm in arms}
    if len(alike) != 1:
        raise ValueError(f"{folder}: arms of different epochs or photographs: {alike}")
    return sorted(arms, key=lambda arm: (arm.sparsity, [*METHODS].index(arm.method))), times


def section(folder: Path) -> str:
    arms, times = read(folder)
    fp32, bf16 = (times["milliseconds"][f"OpenVINO, dense, {kind}"] for kind in ("fp32", "bf16"))
    best = [
        max((arm for arm in arms if arm.sparsity == sparsity), key=lambda arm: _accuracy(arm))
        for sparsity in sorted({arm.sparsity for arm in arms} - {0.0})
    ]
    epochs, (train, test) = (arms[0].fp32.result[key] for key in ("epochs", "photographs"))
    rows = [f"| {arm.label} | {arm.fp32.cells} | {arm.int8.cells} |" for arm in arms]
    return "\n".join(
        [
            "## A network people use",
            "",
            f"MobileNetV2 with its ImageNet weights, fine-tuned for {epochs} epochs on the "
            f"{train:,} training photographs of Imagenette (128 pixels, seed 0) dense, or pruned "
            "on the way by iterative hard thresholding, gradual pruning and one-shot pruning; the "
            "depthwise layers, 3 % of the weights, stay dense. Top-1 accuracy on the "
            f"{test:,} validation photographs, one run of each: differences of a point mean "
            f"little. Most accurate: {'; '.join(arm.label for arm in best)}. {_SEEN} "
            f"{_rates(folder / 'rates')}",
            "",
            "int8: the same networks, packed once more to compute in 8-bit integers, with the "
            "ranges of 500 training photographs. Milliseconds are those of one image, medians of "
            f"{times['rounds']} rounds ({times['machine']}). OpenVINO takes {fp32:.2f} ms in fp32 "
            f"and {bf16:.2f} ms in bf16, its default where the processor has it, for the dense "
            "network.",
            "",
            "```sh",
            "into=results/records/pretrained",
            "python examples/prune_pretrained.py train --images IMAGENETTE --into $into",
            "python examples/prune_pretrained.py int8 --images IMAGENETTE --folder $into",
            "python examples/prune_pretrained.py time --folder $into  # alone on its machine",
            "```",
            "",
            "| network | accuracy, % | kB | ms | int8: accuracy, % | int8: kB | int8: ms |",
            "| --- | ---: | ---: | ---: | ---: | ---: | ---: |",
            *rows,
            "",
        ]
    )


def _accuracy(arm: Arm) -> float:
    return float(arm.fp32.result["accuracy"])


def _rates(folder: Path) -> str:
    """How the learning rates were chosen: */{arm}.json of trainings judged by held-out images."""
    tried: dict[tuple[int, ...], dict[str, list[str]]] = {}
    for path in sorted(folder.glob("*/*.json")):
        found = json.loads(path.read_text("utf-8"))
        length = (*found["photographs"], found["epochs"])
        said = f"{100 * found['accuracy']:.1f} % with {found['rate']}"
        method, _, sparsity = path.stem.partition("-")
        method = f"{METHODS[method]} at {float(sparsity):.0%}"
        tried.setdefault(length, {}).setdefault(method, []).append(said)
    trials = "; ".join(
        f"{epochs} epochs on {train:,} photographs, judged by {test}: "
        + ", ".join(f"{method} {' and '.join(said)}" for method, said in methods.items())
        for (train, test, epochs), methods in sorted(tried.items())
    )
    return (
        "Methods have the better of two learning rates by other training photographs, one run of "
        f"each: {trials}. The last two were judged by the validation photographs; the trials at "
        "70 % were made after them, and 80 % has the rate they led to. Where nothing was tried, "
        "the learning rate is 0.003."
    )


def readme_rows(folder: Path) -> list[str]:
    """As in readme.py. One run of each says nothing of chance."""
    dense, *arms = read(folder)[0]
    rows = []
    for arm in arms:
        errors = [f"{100 - 100 * _accuracy(one):.2f}" for one in (arm, dense)]
        sizes = [f"{one.fp32.result['bytes'] / 1000:,.0f}" for one in (arm, dense)]
        left = f"{1 - arm.sparsity:.0%}, depthwise layers dense"
        cells = ["MobileNetV2, Imagenette", arm.label, left, *errors, "1"]
        rows.append(f"| {' | '.join(cells)} | {sizes[0]} ({sizes[1]}) | one seed |")
    return rows
