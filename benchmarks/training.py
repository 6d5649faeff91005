"""What IHT adds to training: NIN on CIFAR-shaped data, batch 128, sparse and dense spans.

Contenders run one step each in turn: the plain loop, the same loop under IHT in a dense and in a
sparse span (90 %), and the same loop with the masks of torch.nn.utils.prune. An epoch is 391 such
steps and at most one thresholding or restoration, whose cost is added to IHT's epochs.

What is added is far below the noise of a step that takes a second, so a second race, on one tiny
image, shows it by itself.
"""

import copy
from collections.abc import Callable
from functools import partial
from statistics import median

import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.utils import prune

from benchmarks.common import THREADS, describe_machine, interleave, report
from skinny.iht import layers, masks, timeline
from skinny.iht.budget import uniform
from skinny.iht.controller import IHT
from skinny.models import nin_cifar

STEPS_PER_EPOCH = 391  # 50,000 images, batch 128
SPARSITY = 0.9


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
    IHT(model, optimizer, line).begin_epoch()
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
        "plain loop": step_of(copy.deepcopy(plain), x, y),
        "IHT, dense span": under_iht(copy.deepcopy(plain), timeline.dense(epochs=10), x, y),
        "IHT, sparse span": under_iht(copy.deepcopy(plain), sparse, x, y),
        "torch.nn.utils.prune": step_of(with_torch_prune(copy.deepcopy(plain)), x, y),
    }

    def several(step: Callable[[], None]) -> None:
        for _ in range(steps):
            step()

    return interleave({name: partial(several, step) for name, step in contenders.items()}, rounds)


def main(rounds: int = 16) -> None:
    torch.set_num_threads(THREADS)
    torch.manual_seed(0)
    plain = nin_cifar().to(memory_format=torch.channels_last).train()
    seconds = race(plain, images=128, size=32, steps=1, rounds=rounds)
    added = race(plain, images=1, size=8, steps=10, rounds=40)
    weights = layers.prunable(plain)
    counts = uniform({name: tuple(w.shape) for name, w in weights.items()}, SPARSITY)
    thresholding = min(
        interleave({"threshold": lambda: masks.build(weights, counts)}, 5)["threshold"]
    )
    print(describe_machine("torch"))
    print(report("one training step of NIN, batch 128", seconds, "plain loop"))
    print("one epoch with its thresholding, against the plain loop (wanted: at most 1.03x)")
    for name in ("IHT, dense span", "IHT, sparse span"):
        by = {
            pick.__name__: (STEPS_PER_EPOCH * pick(seconds[name]) + thresholding)
            / (STEPS_PER_EPOCH * pick(seconds["plain loop"]))
            for pick in (median, min)
        }
        print(f"  {name}: {by['median']:.3f}x by medians, {by['min']:.3f}x by the best rounds")
    sparse, pruned = seconds["IHT, sparse span"], seconds["torch.nn.utils.prune"]
    print(
        "sparse span against torch.nn.utils.prune (wanted: below 1x): "
        f"{median(sparse) / median(pruned):.3f}x by medians, "
        f"{min(sparse) / min(pruned):.3f}x by the best rounds"
    )
    print(report("the same weights and one tiny image, ten steps", added, "plain loop"))
    for name in ("IHT, dense span", "IHT, sparse span", "torch.nn.utils.prune"):
        extra = 100 * (median(added[name]) - median(added["plain loop"]))
        print(f"  {name} adds {extra:.2f} ms to a step of any size (by medians)")


if __name__ == "__main__":
    main()
