"""IHT in a loop of accelerate: attached to what `prepare` returns.

    python examples/train_accelerate.py
    accelerate launch --num-processes 8 examples/train_accelerate.py

Needs skinny-nn[train,transformers].
"""

import torch
from accelerate import Accelerator
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import skinny


def main(epochs: int = 12, images: int = 1797, folder: str = "runs/accelerate") -> dict[str, int]:
    digits = load_digits()
    x = torch.tensor(digits.data[:images] / 16, dtype=torch.float32)
    loader = DataLoader(TensorDataset(x, torch.tensor(digits.target[:images])), 64, shuffle=True)
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 100), nn.ReLU(), nn.Linear(100, 10))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    accelerator = Accelerator(gradient_accumulation_steps=2)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)

    iht = skinny.IHT(model, optimizer, skinny.timeline.sdnn(epochs=epochs, sparsity=0.9))  # 1
    accelerator.register_for_checkpointing(iht)  # `load_state` resumes it, too
    for _ in range(epochs):
        iht.begin_epoch()  # 2
        for inputs, targets in loader:
            with accelerator.accumulate(model):
                accelerator.backward(nn.functional.cross_entropy(model(inputs), targets))
                accelerator.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                optimizer.zero_grad()
    accelerator.save_state(folder)
    kept = iht.finish()
    accelerator.print(kept)
    return kept


if __name__ == "__main__":
    main()
