"""Thresholding all of AlexNet's 61 M weights, against one pass of torch.abs and torch.kthvalue."""

import torch

from benchmarks.common import THREADS, describe_machine, interleave, report
from skinny.iht import layers, masks
from skinny.iht.budget import uniform
from skinny.models import alexnet

SPARSITY = 0.75


def main(rounds: int = 5) -> None:
    torch.set_num_threads(THREADS)
    torch.manual_seed(0)
    weights = {name: w.detach() for name, w in layers.prunable(alexnet()).items()}
    counts = uniform({name: tuple(w.shape) for name, w in weights.items()}, SPARSITY)

    def kthvalue() -> None:
        for name, weight in weights.items():
            torch.kthvalue(weight.abs().flatten(), weight.numel() - counts[name] + 1)

    seconds = interleave(
        {
            "torch.abs + torch.kthvalue": kthvalue,
            "skinny, exact masks": lambda: masks.build(weights, counts),
        },
        rounds,
    )
    print(describe_machine("torch"))
    total = sum(weight.numel() for weight in weights.values())
    print(report(f"{total:,} weights (wanted: at most 3x)", seconds, "torch.abs + torch.kthvalue"))


if __name__ == "__main__":
    main()
