"""MobileNetV2 with its ImageNet weights, pruned: what examples/prune_pretrained.py wrote."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from skinny.experiments.statistics import Difference, holm, paired

METHODS = {
    "dense": "dense",
    "iht": "IHT",
    "gradual": "gradual pruning",
    "oneshot": "one-shot pruning",
}
_ALPHA = 0.05
_SEEN = """\
Imagenette's validation photographs are mostly training images of ImageNet, which the published \
weights have seen: accuracies are those of fine-tuning and pruning, not of generalisation to new \
images."""


class Packed(NamedTuple):
    """A network in one file: what judged it with each seed, and milliseconds of an image."""

    results: dict[int, dict[str, Any]]  # accuracy, bytes; in fp32 also photographs, epochs, rate
    milliseconds: float  # of the first seed

    @property
    def accuracies(self) -> dict[int, float]:
        """Per cent, by seed."""
        return {seed: 100 * found["accuracy"] for seed, found in self.results.items()}

    @property
    def accuracy(self) -> float:
        return float(np.mean([*self.accuracies.values()]))

    @property
    def kilobytes(self) -> float:
        return float(np.mean([found["bytes"] / 1000 for found in self.results.values()]))

    @property
    def cells(self) -> str:
        spread = np.std([*self.accuracies.values()], ddof=1)
        return (
            f"{self.accuracy:.1f} ± {spread:.1f} | {self.kilobytes:,.0f} | {self.milliseconds:.2f}"
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
    folders = {int(path.name.removeprefix("seed-")): path for path in folder.glob("seed-*")}
    first = folders[0]
    times = json.loads((first / "times.json").read_text("utf-8"))

    def packed(name: str) -> Packed:
        files = {seed: folders[seed] / f"{name}.json" for seed in sorted(folders)}
        found = {seed: json.loads(file.read_text("utf-8")) for seed, file in files.items()}
        return Packed(found, times["milliseconds"][f"Skinny, {name}"])

    arms = []
    for path in first.glob("*-int8.json"):
        name = path.stem.removesuffix("-int8")
        method, _, sparsity = name.partition("-")
        arms.append(Arm(method, float(sparsity or 0), packed(name), packed(path.stem)))
    results = [found for arm in arms for found in arm.fp32.results.items()]
    alike = {(found["epochs"], found["rate"], *found["photographs"]) for _, found in results}
    if len(alike) != 1 or any(found["seed"] != seed for seed, found in results):
        raise ValueError(f"{folder}: arms of different settings, or seeds in each other's folders")
    return sorted(arms, key=lambda arm: (arm.sparsity, [*METHODS].index(arm.method))), times


def section(folder: Path) -> str:
    arms, times = read(folder)
    fp32, bf16 = (times["milliseconds"][f"OpenVINO, dense, {kind}"] for kind in ("fp32", "bf16"))
    seeds = [*arms[0].fp32.results]
    found = arms[0].fp32.results[seeds[0]]
    epochs, (train, test) = (found[key] for key in ("epochs", "photographs"))
    rows = [f"| {arm.label} | {arm.fp32.cells} | {arm.int8.cells} |" for arm in arms]
    return "\n".join(
        [
            "## A network people use",
            "",
            f"MobileNetV2 with its ImageNet weights, fine-tuned for {epochs} epochs on the "
            f"{train:,} training photographs of Imagenette (128 pixels) dense, or pruned "
            "on the way by iterative hard thresholding, gradual pruning and one-shot pruning; the "
            "depthwise layers, 3 % of the weights, stay dense. IHT thresholds to the target in "
            "every cycle (`r0`): the network is trained already. Top-1 accuracy on the "
            f"{test:,} validation photographs, means and standard deviations over {len(seeds)} "
            f"seeds. {_best(arms)} {_against(arms)} {_SEEN} {_trials(folder / 'trials.jsonl')}",
            "",
            "int8: the same networks, packed once more to compute in 8-bit integers, with the "
            "ranges of 500 training photographs. Milliseconds are those of one image, seed 0, "
            f"medians of {times['rounds']} rounds ({times['machine']}). OpenVINO takes "
            f"{fp32:.2f} ms in fp32 and {bf16:.2f} ms in bf16, its default where the processor has "
            "it, for the dense network.",
            "",
            "```sh",
            "into=results/records/pretrained",
            f"for seed in {' '.join(map(str, seeds))}; do",
            "  python examples/prune_pretrained.py train --images IMAGENETTE --seed $seed \\",
            "    --into $into/seed-$seed",
            "  python examples/prune_pretrained.py int8 --images IMAGENETTE "
            "--folder $into/seed-$seed",
            "done",
            "python examples/prune_pretrained.py time --folder $into/seed-0  # alone on a machine",
            "```",
            "",
            "| network | accuracy, % | kB | ms | int8: accuracy, % | int8: kB | int8: ms |",
            "| --- | ---: | ---: | ---: | ---: | ---: | ---: |",
            *rows,
            "",
        ]
    )


def _best(arms: Iterable[Arm]) -> str:
    pruned = [arm for arm in arms if arm.sparsity]
    best = [
        max((arm for arm in pruned if arm.sparsity == each), key=lambda arm: arm.fp32.accuracy)
        for each in sorted({arm.sparsity for arm in pruned})
    ]
    return f"Highest means: {'; '.join(arm.label for arm in best)}."


def _against(arms: Iterable[Arm]) -> str:
    """IHT against the other methods at equal sparsity, paired by seed."""
    found = {(arm.method, arm.sparsity): arm.fp32.accuracies for arm in arms}
    told: dict[str, Difference] = {}
    for (method, sparsity), values in found.items():
        if sparsity and method != "iht":
            difference = paired(found["iht", sparsity], values)
            assert difference is not None
            told[f"{METHODS[method]}, {sparsity:.0%}"] = difference
    sure = _corrected(told)
    points = [difference.mean for difference in told.values()]
    names = ", ".join(label for label, p in sure.items() if p < _ALPHA) or "none"
    return (
        f"IHT's means differ from the others' by {min(points):+.1f} to {max(points):+.1f} points; "
        f"significantly (paired by seed, p < {_ALPHA}, Holm) from those of: {names}."
    )


def _corrected(differences: Mapping[str, Difference]) -> dict[str, float]:
    """p values, corrected for their number."""
    p = holm([difference.p for difference in differences.values()])
    return dict(zip(differences, p, strict=True))


def _trials(file: Path) -> str:
    """How r0 and the learning rate were chosen, by held-out photographs."""
    trials = [json.loads(line) for line in file.read_text("utf-8").splitlines()]
    lengths: dict[str, dict[str, list[float]]] = {}
    for trial in trials:
        train, test = trial["photographs"]
        length = f"{trial['epochs']} epochs on {train:,} photographs, judged by {test}"
        what = METHODS[trial["method"]] + {None: "", "target": " at once"}[trial["r0"]]
        if trial["method"] == "iht" and trial["r0"] is None:
            what += " from the default r0"
        said = f"{what} at {trial['sparsity']:.0%} with {trial['rate']}"
        accuracies = lengths.setdefault(length, {}).setdefault(said, [])
        accuracies.append(100 * trial["accuracy"])
    told = "; ".join(
        f"{length}: "
        + ", ".join(f"{what} {_percent(values)}" for what, values in accuracies.items())
        for length, accuracies in lengths.items()
    )
    return (
        "r0 and the learning rate, which is the same in all arms, were chosen by other training "
        f"photographs: {told} (from the default r0: the example without its `r0`; trials have "
        "`--held-out 50`, `--per-class` and `--epochs`). Before, IHT from the default r0 had been "
        "judged by the validation photographs, with one seed, and lost to both other methods: that "
        "called for the trials at once."
    )


def _percent(values: list[float]) -> str:
    seeds = f" (n = {len(values)})" if len(values) > 1 else ""
    return f"{np.mean(values):.1f} %{seeds}"


def readme_rows(folder: Path) -> list[str]:
    """As in readme.py."""
    dense, *arms = read(folder)[0]
    differences = {}
    for arm in arms:
        difference = paired(arm.fp32.accuracies, dense.fp32.accuracies)
        assert difference is not None
        differences[arm.label] = difference
    corrected = _corrected(differences)
    rows = []
    for arm in arms:
        errors = [f"{100 - one.fp32.accuracy:.2f}" for one in (arm, dense)]
        sizes = [f"{one.fp32.kilobytes:,.0f}" for one in (arm, dense)]
        difference = differences[arm.label]
        verdict = "better" if difference.mean > 0 else "worse"
        cells = [
            "MobileNetV2, Imagenette",
            arm.label,
            f"{1 - arm.sparsity:.0%}, depthwise layers dense",
            *errors,
            str(difference.n),
            f"{sizes[0]} ({sizes[1]})",
            verdict if corrected[arm.label] < _ALPHA else "undecided",
        ]
        rows.append(f"| {' | '.join(cells)} |")
    return rows
