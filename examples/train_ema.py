"""An average of the weights (EMA) that meets the budget, and two optimizers: Muon and AdamW.

    python examples/train_ema.py

Needs skinny-nn[train].
"""

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

import skinny


def main(epochs: int = 12, images: int = 1797) -> dict[str, int]:
    digits = load_digits()
    x = torch.tensor(digits.data[:images] / 16, dtype=torch.float32)
    y = torch.tensor(digits.target[:images])
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 100), nn.ReLU(), nn.Linear(100, 10))
    average = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.95))
    matrices = [p for p in model.parameters() if p.dim() == 2]
    others = [p for p in model.parameters() if p.dim() != 2]
    optimizers = [torch.optim.Muon(matrices, lr=1e-2), torch.optim.AdamW(others, lr=1e-2)]

    iht = skinny.IHT(model, optimizers, skinny.timeline.sdnn(epochs=epochs, sparsity=0.9))
    for _ in range(epochs):
        iht.begin_epoch()
        for batch in torch.randperm(len(x)).split(64):
            nn.functional.cross_entropy(model(x[batch]), y[batch]).backward()
            for optimizer in optimizers:
                optimizer.step()
                optimizer.zero_grad()
            average.update_parameters(model)
    before = sum(int(p.count_nonzero()) for p in average.module.parameters() if p.dim() == 2)
    kept = iht.apply_to(average)  # the masks changed on the way: without this it is dense
    print(f"the average had {before} weights, and has {sum(kept.values())}")
    assert kept == iht.finish()
    return kept


if __name__ == "__main__":
    main()
