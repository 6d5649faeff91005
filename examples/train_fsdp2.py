"""IHT on a model sharded by FSDP2: exactly k of the whole tensor, though each rank has some rows.

    torchrun --nproc-per-node 2 examples/train_fsdp2.py

On many nodes, the same line on each of them (HOST is one of them):

    torchrun --nnodes 4 --nproc-per-node 8 --rdzv-backend c10d --rdzv-endpoint HOST:29500 \
        examples/train_fsdp2.py
"""

import os

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from sklearn.datasets import load_digits
from torch import nn
from torch.distributed.checkpoint.state_dict import get_state_dict
from torch.distributed.fsdp import fully_shard
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

import skinny


def main(epochs: int = 12, images: int = 1797, folder: str = "runs/fsdp2") -> dict[str, int]:
    kind = "cuda" if torch.cuda.is_available() else "cpu"
    if kind == "cuda":
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl" if kind == "cuda" else "gloo")
    digits = load_digits()
    x = torch.tensor(digits.data[:images] / 16, dtype=torch.float32)
    data = TensorDataset(x, torch.tensor(digits.target[:images]))
    sampler = DistributedSampler(data)
    loader = DataLoader(data, 64, sampler=sampler)
    torch.manual_seed(0)  # the same weights on all ranks, of which each keeps its rows
    model = nn.Sequential(nn.Linear(64, 100), nn.ReLU(), nn.Linear(100, 10)).to(kind)
    mesh = dist.init_device_mesh(kind, (dist.get_world_size(),))
    for layer in (model[0], model[2], model):
        fully_shard(layer, mesh=mesh)  # shard, then make the optimizer, then attach
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)

    iht = skinny.IHT(model, optimizer, skinny.timeline.sdnn(epochs=epochs, sparsity=0.9))  # 1
    for epoch in range(epochs):
        iht.begin_epoch()  # 2: on every rank
        sampler.set_epoch(epoch)
        for inputs, targets in loader:
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(inputs.to(kind)), targets.to(kind)).backward()
            optimizer.step()
    kept = iht.finish()
    weights, moments = get_state_dict(model, optimizer)
    dcp.save({"model": weights, "optimizer": moments, "iht": iht}, checkpoint_id=folder)
    if dist.get_rank() == 0:
        print(kept)
    dist.destroy_process_group()
    return kept


if __name__ == "__main__":
    main()
