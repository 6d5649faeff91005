"""How small NIN and AlexNet pack, pruned by magnitude at their initial weights: `skinny size`."""

import tempfile
from pathlib import Path

import torch

from benchmarks.common import describe_machine
from skinny import models
from skinny.cli import size
from skinny.export import pack
from skinny.iht import layers
from skinny.iht.threshold import hard_threshold

CASES = [("nin-cifar", 32, 10, (0.5, 0.9, 0.95)), ("alexnet", 227, 1000, (0.75,))]


def main() -> None:
    print(describe_machine("torch", "numpy"))
    with tempfile.TemporaryDirectory() as folder:
        for name, side, classes, sparsities in CASES:
            for sparsity in sparsities:
                torch.manual_seed(0)
                model = models.build(name, classes=classes, channels=3, image_size=(side, side))
                with torch.no_grad():
                    for weight in layers.prunable(model).values():
                        keep = max(1, round((1 - sparsity) * weight.numel()))
                        weight.copy_(hard_threshold(weight, keep))
                path = Path(folder) / f"{name}-{sparsity:.0%}.skinny"
                pack(model, path, example=torch.zeros(1, 3, side, side))
                size.main([str(path)])


if __name__ == "__main__":
    main()
