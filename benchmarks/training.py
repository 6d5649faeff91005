"""What IHT adds to training: NIN on CIFAR-shaped data, batch 128, sparse and dense spans.

Contenders run one step each in turn: the plain loop, the same loop under IHT in a dense and in a
sparse span (90 %), and the same loop with the masks of torch.nn.utils.prune. An epoch is 391 such
steps and at most one mask update or restoration, whose cost is added to IHT's epochs.

What is added does not depend on the images and is far below the noise of a step that takes a
second, so a second race, on one tiny image, shows it by itself; the epoch that follows from it is
printed beside the one that was timed whole.

The same for a step of ResNet-50 and of a BERT of six layers, plain and in a sparse span. Last, what
a large model costs: attaching IHT to 100 M weights, and a mask update of 200 M, alone and beside
two busy processes. One part alone: python -m benchmarks.training large|nin|resnet|bert
"""

import copy
import resource
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from statistics import median

import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.utils import prune

from benchmarks.common import THREADS, describe_machine, interleave, report
from skinny.experiments.statistics import Summary, summarise
from skinny.iht import layers, masks, timeline
from skinny.iht.budget import uniform
from skinny.iht.controller import IHT
from skinny.models import nin_cifar

STEPS_PER_EPOCH = 391  # 50,000 images, batch 128
SPARSITY = 0.9
PLAIN, PRUNE = "plain loop", "torch.nn.utils.prune"
OURS = ("IHT, dense span", "IHT, sparse span")


def step_of(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> Callable[[], None]:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, weight_decay=1e-4)
    return lambda: one_step(model, optimizer, x, y)


def one_step(
    model: nn.Module, optimizer: torch.optim.Optimizer, x: torch.Tensor, y: torch.Tensor
) -> None:
    optimizer.zero_grad()
    F.cross_entropy(model(x), y).backward()
    optimizer.step()


def under_iht(
    model: nn.Module, line: timeline.Timeline, x: torch.Tensor, y: torch.Tensor
) -> Callable[[], None]:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, weight_decay=1e-4)
    IHT(model, optimizer, line, budget="uniform").begin_epoch()
    return lambda: one_step(model, optimizer, x, y)


def with_torch_prune(model: nn.Module) -> nn.Module:
    model = model.to(memory_format=torch.contiguous_format)  # it cannot prune channels-last weights
    for module in model.modules():
        if isinstance(module, nn.Conv2d):
            prune.l1_unstructured(module, "weight", amount=SPARSITY)
    return model.to(memory_format=torch.channels_last)


def race(
    plain: nn.Module, images: int, size: int, steps: int, rounds: int
) -> dict[str, list[float]]:
    """All contenders from the same weights on the same images, `steps` at a time."""
    x = torch.randn(images, 3, size, size).to(memory_format=torch.channels_last)
    y = torch.randint(0, 10, (images,))
    sparse = timeline.Timeline("sparse", "epoch", (timeline.Span(0, 10, SPARSITY),))
    contenders = {
        PLAIN: step_of(copy.deepcopy(plain), x, y),
        "IHT, dense span": under_iht(copy.deepcopy(plain), timeline.dense(epochs=10), x, y),
        "IHT, sparse span": under_iht(copy.deepcopy(plain), sparse, x, y),
        PRUNE: step_of(with_torch_prune(copy.deepcopy(plain)), x, y),
    }

    def several(step: Callable[[], None]) -> None:
        for _ in range(steps):
            step()

    return interleave({name: partial(several, step) for name, step in contenders.items()}, rounds)


Example = tuple[nn.Module, torch.Tensor, torch.Tensor]  # model, inputs, labels


def resnet50() -> Example:
    from transformers import ResNetConfig, ResNetForImageClassification

    model = ResNetForImageClassification(ResNetConfig(num_labels=1000))
    return Logits(model), torch.randn(8, 3, 224, 224), torch.randint(0, 1000, (8,))


def bert() -> Example:
    from transformers import BertConfig, BertForSequenceClassification

    model = BertForSequenceClassification(BertConfig(num_hidden_layers=6, num_labels=2))
    return Logits(model), torch.randint(0, 30000, (8, 128)), torch.randint(0, 2, (8,))


class Logits(nn.Module):
    """A model of `transformers` as a function to its logits."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        logits: torch.Tensor = self.model(x).logits
        return logits


def other(name: str, make: Callable[[], Example], rounds: int = 16) -> None:
    sparse = timeline.Timeline("sparse", "epoch", (timeline.Span(0, 10, SPARSITY),))
    plain, x, y = make()
    pruned = copy.deepcopy(plain)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "IHT thresholds .* leaves dense")  # the embedding
        contenders = {
            PLAIN: step_of(plain.train(), x, y),
            "IHT, sparse span": under_iht(pruned.train(), sparse, x, y),
        }
    seconds = interleave(contenders, rounds)
    print(report(f"one training step of {name} (wanted: at most 1.03x)", seconds, PLAIN))
    ratio = median(ours / alone for alone, ours in zip(*seconds.values(), strict=True))
    print(f"  median of the ratios of each round: {ratio:.3f}x")


def large_model(millions: int) -> tuple[nn.Module, torch.optim.Optimizer]:
    model = nn.Sequential(*(nn.Linear(1000, 1000, bias=False) for _ in range(millions)))
    return model, torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)


def peak_megabytes() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def attaching() -> None:
    model, optimizer = large_model(100)
    line = timeline.oneshot(epochs=2, sparsity=SPARSITY)
    before, start = peak_megabytes(), time.perf_counter()
    IHT(model, optimizer, line)
    seconds, memory = time.perf_counter() - start, peak_megabytes() - before
    print(
        f"attaching to 100 M weights: {seconds:.2f} s (wanted: under 2), "
        f"{memory:.0f} MB (wanted: at most the 100 of one mask)"
    )


def mask_update(busy: int) -> float:
    """Seconds of a mask update of 200 M weights beside `busy` processes that do nothing else."""
    model, optimizer = large_model(200)
    iht = IHT(model, optimizer, timeline.oneshot(epochs=2, sparsity=SPARSITY, dense=1))
    iht.begin_epoch()
    others = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(busy)]
    try:
        start = time.perf_counter()
        iht.begin_epoch()
        return time.perf_counter() - start
    finally:
        for other in others:
            other.kill()
            other.wait()


def added_to_a_step(seconds: dict[str, list[float]], name: str, steps: int = 10) -> Summary:
    """Seconds more than the plain loop, round by round: a slow moment hits both alike."""
    pairs = zip(seconds[name], seconds[PLAIN], strict=True)
    return summarise([(ours - plain) / steps for ours, plain in pairs])


def large() -> None:
    attaching()  # first: memory is measured by the highest so far
    print(
        f"a mask update of 200 M weights: {mask_update(busy=0):.1f} s alone (wanted: under 4), "
        f"{mask_update(busy=2):.1f} s beside two busy processes (wanted: under 8)"
    )


def nin(rounds: int = 16) -> None:
    plain = nin_cifar().to(memory_format=torch.channels_last).train()
    weights = layers.prunable(plain)
    counts = uniform({name: tuple(w.shape) for name, w in weights.items()}, SPARSITY)
    seconds = race(plain, images=128, size=32, steps=1, rounds=rounds)
    update = median(interleave({"threshold": lambda: masks.build(weights, counts)}, 5)["threshold"])
    print(report("one training step of NIN, batch 128", seconds, PLAIN))
    added = race(plain, images=1, size=8, steps=10, rounds=60)
    print(report("the same weights and one tiny image, ten steps", added, PLAIN))
    print("added to every step, whatever its images (paired by round, 95 % interval of the mean)")
    extra = {name: added_to_a_step(added, name) for name in (*OURS, PRUNE)}
    for name, cost in extra.items():
        print(f"  {name}: {1e3 * cost.mean:.2f} ms ({1e3 * cost.low:.2f} to {1e3 * cost.high:.2f})")
    step = median(seconds[PLAIN])
    print("one epoch with its mask update, against the plain loop (wanted: at most 1.03x)")
    for name in OURS:
        direct = (STEPS_PER_EPOCH * median(seconds[name]) + update) / STEPS_PER_EPOCH / step
        known = 1 + (extra[name].mean + update / STEPS_PER_EPOCH) / step
        print(f"  {name}: {direct:.3f}x timed whole, {known:.4f}x from what is added to a step")
    sparse = STEPS_PER_EPOCH * (step + extra["IHT, sparse span"].mean) + update
    pruned = STEPS_PER_EPOCH * (step + extra[PRUNE].mean)
    print(
        "one epoch of a sparse span against torch.nn.utils.prune (wanted: below 1x): "
        f"{median(seconds['IHT, sparse span']) / median(seconds[PRUNE]):.3f}x timed whole, "
        f"{sparse / pruned:.4f}x from what is added to a step"
    )


PARTS: dict[str, Callable[[], None]] = {
    "large": large,
    "nin": nin,
    "resnet": lambda: other("ResNet-50, batch 8", resnet50),
    "bert": lambda: other("BERT, 6 layers, 8 x 128", bert),
}


def main(chosen: Sequence[str] = ()) -> None:
    torch.set_num_threads(THREADS)
    torch.manual_seed(0)
    print(describe_machine("torch", "transformers"))
    for name in chosen or PARTS:
        PARTS[name]()


if __name__ == "__main__":
    main(sys.argv[1:])
