"""IHT in a training loop of your own: two lines.

    python examples/train_loop.py

Needs skinny-nn[train].
"""

import torch
from sklearn.datasets import load_digits
from torch import nn

import skinny


def main(epochs: int = 12, images: int = 1797) -> dict[str, int]:
    digits = load_digits()
    x = torch.tensor(digits.data[:images] / 16, dtype=torch.float32)
    y = torch.tensor(digits.target[:images])
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 100), nn.ReLU(), nn.Linear(100, 10))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)

    timeline = skinny.timeline.sdnn(epochs=epochs, sparsity=0.9)
    iht = skinny.IHT(model, optimizer, timeline)  # 1: attach
    for _ in range(epochs):
        iht.begin_epoch()  # 2: prunes or restores when it is time
        for batch in torch.randperm(len(x)).split(64):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(x[batch]), y[batch]).backward()
            optimizer.step()
    kept = iht.finish()  # an error if the budget does not hold
    print(kept, f"accuracy {(model(x).argmax(1) == y).float().mean():.1%} of the training images")
    return kept


if __name__ == "__main__":
    main()
