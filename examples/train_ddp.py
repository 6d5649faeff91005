"""IHT under DistributedDataParallel: the same masks on all ranks, compared at every mask update.

    torchrun --nproc-per-node 2 examples/train_ddp.py

On many nodes, the same line on each of them (HOST is one of them):

    torchrun --nnodes 4 --nproc-per-node 8 --rdzv-backend c10d --rdzv-endpoint HOST:29500 \
        examples/train_ddp.py
"""

import os

import torch
import torch.distributed as dist
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

import skinny


def main(epochs: int = 12, images: int = 1797) -> dict[str, int]:
    gpu = torch.cuda.is_available()
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if gpu else torch.device("cpu")
    dist.init_process_group("nccl" if gpu else "gloo")
    digits = load_digits()
    x = torch.tensor(digits.data[:images] / 16, dtype=torch.float32)
    data = TensorDataset(x, torch.tensor(digits.target[:images]))
    sampler = DistributedSampler(data)
    loader = DataLoader(data, 64, sampler=sampler)
    model = nn.Sequential(nn.Linear(64, 100), nn.ReLU(), nn.Linear(100, 10)).to(device)
    model = nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)

    # 1: the model in its wrapper, by which IHT knows of the other ranks
    iht = skinny.IHT(model, optimizer, skinny.timeline.sdnn(epochs=epochs, sparsity=0.9))
    for epoch in range(epochs):
        iht.begin_epoch()  # 2: on every rank
        sampler.set_epoch(epoch)
        for inputs, targets in loader:
            optimizer.zero_grad()
            scores = model(inputs.to(device))
            nn.functional.cross_entropy(scores, targets.to(device)).backward()
            optimizer.step()
    kept = iht.finish()
    if dist.get_rank() == 0:
        print(kept)
    dist.destroy_process_group()
    return kept


if __name__ == "__main__":
    main()
