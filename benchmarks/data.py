"""What a batch for NIN on CIFAR-10 costs (normalise, flip, crop), against a training step."""

from collections.abc import Iterator

import torch
from torch import Tensor

from benchmarks.common import THREADS, describe_machine, interleave, report
from benchmarks.training import step_of
from skinny.data import ImageSet, MemoryBatches, Normalization
from skinny.models import nin_cifar


def main(rounds: int = 10) -> None:
    torch.set_num_threads(THREADS)
    draw = torch.Generator().manual_seed(0)
    images = torch.randint(0, 256, (50_000, 3, 32, 32), dtype=torch.uint8, generator=draw)
    labels = torch.randint(0, 10, (50_000,), generator=draw)
    batches = MemoryBatches(
        ImageSet(images, labels),
        batch_size=128,
        preprocessing=Normalization.of((0.49, 0.48, 0.45), (0.25, 0.24, 0.26)),
        augment="flip-crop",
        shuffle=True,
        channels_last=True,
    )

    def forever() -> Iterator[tuple[Tensor, Tensor]]:
        epoch = 0
        while True:
            yield from batches.epoch(epoch)
            epoch += 1

    source = forever()
    x, y = next(source)
    model = nin_cifar().to(memory_format=torch.channels_last).train()
    seconds = interleave(
        {"training step": step_of(model, x, y), "batch": lambda: next(source)}, rounds
    )
    print(describe_machine("torch"))
    print(report("batch 128 of CIFAR-10 (wanted: below 0.03x)", seconds, "training step"))


if __name__ == "__main__":
    main()
