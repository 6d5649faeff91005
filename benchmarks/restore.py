"""AdamW after a restoration: does it matter what a restored weight's second moment is?

Digits (1,297 images to train on, 500 to test on, drawn anew by each seed), a network of
64-128-128-10 units, batch 64, 40 epochs of `sdnn` with its default spans, a cosine schedule,
weight decay 1e-2. The arms share initial weights and the order of images, and differ in one thing,
the second moment that a truncated weight has when it is restored:

  zero      nothing, while Adam's step count is old
  mean      the mean over the weights of its layer that were kept: what IHT does
  before    what it was when the weight was truncated, which takes a copy

Printed for each: test accuracy at the end; the training loss over the twenty steps that follow the
first restoration; and the furthest that a restored weight moved in one of them, in learning rates.
Means over seeds with 95 % intervals, and differences to `zero` paired by seed.
"""

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple
from unittest import mock

import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torch.nn import functional as F

from benchmarks.common import describe_machine
from skinny.experiments.statistics import Summary, paired, summarise
from skinny.iht import optimizer_state, timeline
from skinny.iht.controller import IHT

EPOCHS, BATCH, TEST, LOOK = 40, 64, 500, 20
ARMS = ("zero", "mean", "before")
SETTINGS = [(0.9, 1e-3), (0.9, 1e-2)]  # sparsity, learning rate


class Outcome(NamedTuple):
    accuracy: float
    loss: float  # mean over the steps after the first restoration
    furthest: float  # in learning rates


@contextmanager
def second_moment(arm: str) -> Iterator[None]:
    """Within, restored weights get what the arm says."""
    copies: dict[int, Tensor] = {}
    clear, refill = optimizer_state.clear, optimizer_state.refill

    def clear_with_copy(state: Mapping[str, Any], mask: Tensor) -> None:
        copies[id(state)] = state["exp_avg_sq"].clone()
        clear(state, mask)

    def refill_from_copy(state: Mapping[str, Any], mask: Tensor) -> None:
        state["exp_avg_sq"].copy_(torch.where(mask, state["exp_avg_sq"], copies[id(state)]))

    ways = {
        "zero": (clear, lambda state, mask: None),
        "mean": (clear, refill),
        "before": (clear_with_copy, refill_from_copy),
    }
    with (
        mock.patch.object(optimizer_state, "clear", ways[arm][0]),
        mock.patch.object(optimizer_state, "refill", ways[arm][1]),
    ):
        yield


def train(arm: str, seed: int, sparsity: float, lr: float) -> Outcome:
    torch.manual_seed(seed)
    images, labels = (torch.tensor(array) for array in load_digits(return_X_y=True))
    order = torch.randperm(len(images))
    x, y = images[order].float() / 16, labels[order]
    model = nn.Sequential(
        *(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 10))
    )
    optimizer = torch.optim.AdamW(model.parameters(), lr=lr, fused=True)
    line = timeline.sdnn(epochs=EPOCHS, sparsity=sparsity, r0=0.5)
    iht = IHT(model, optimizer, line, budget="uniform")
    losses: list[float] = []
    furthest = 0.0
    restored: dict[str, Tensor] = {}
    with second_moment(arm):
        for epoch in range(EPOCHS):
            event = iht.begin_epoch()
            if event and event.kind == "restored" and not losses:
                assert iht.masks is not None
                restored = {name: ~mask for name, mask in iht.masks.items()}
            rate = lr * (1 + math.cos(math.pi * epoch / EPOCHS)) / 2
            optimizer.param_groups[0]["lr"] = rate
            for batch in torch.randperm(len(x) - TEST).add(TEST).split(BATCH):
                before = {name: iht.weights[name].detach().clone() for name in restored}
                optimizer.zero_grad()
                loss = F.cross_entropy(model(x[batch]), y[batch])
                loss.backward()
                optimizer.step()
                if restored:
                    losses.append(float(loss.detach()))
                for name, where in restored.items():
                    moved = (iht.weights[name].detach() - before[name])[where].abs().max()
                    furthest = max(furthest, float(moved) / rate)
                if len(losses) >= LOOK:
                    restored = {}
    iht.finish()
    with torch.no_grad():
        right = model(x[:TEST]).argmax(1) == y[:TEST]
    return Outcome(100 * float(right.float().mean()), sum(losses) / len(losses), furthest)


def by_seed(outcomes: list[Outcome]) -> dict[int, float]:
    return {seed: outcome.accuracy for seed, outcome in enumerate(outcomes)}


def shown(values: Summary, digits: int) -> str:
    return f"{values.mean:.{digits}f} ({values.low:.{digits}f} to {values.high:.{digits}f})"


def main(seeds: int = 20) -> None:
    torch.set_num_threads(1)
    print(describe_machine("torch", "scikit-learn"))
    for sparsity, lr in SETTINGS:
        print(f"{sparsity:.0%} removed, learning rate {lr:g}, {seeds} seeds")
        runs = {arm: [train(arm, seed, sparsity, lr) for seed in range(seeds)] for arm in ARMS}
        for arm, outcomes in runs.items():
            accuracy, loss, furthest = (list(values) for values in zip(*outcomes, strict=True))
            print(
                f"  {arm}: accuracy {shown(summarise(accuracy), 2)} %, "
                f"loss after a restoration {shown(summarise(loss), 3)}, "
                f"furthest step {shown(summarise(furthest), 1)} learning rates"
            )
        for arm in ARMS[1:]:
            difference = paired(*(by_seed(runs[name]) for name in (arm, "zero")))
            assert difference is not None
            print(
                f"  {arm} against zero: {shown(difference, 2)} points, p = {difference.p:.4f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
