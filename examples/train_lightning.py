"""IHT in Lightning: a callback.

    python examples/train_lightning.py

Needs skinny-nn[train,lightning].
"""

import torch
from lightning.pytorch import LightningModule, Trainer
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import skinny
from skinny.integrations.lightning import IHTCallback


class Digits(LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(64, 100), nn.ReLU(), nn.Linear(100, 10))
        self.example_input_array = torch.zeros(1, 64)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.net(x)

    def training_step(self, batch: list[torch.Tensor], _: int) -> torch.Tensor:
        x, y = batch
        return nn.functional.cross_entropy(self(x), y)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.AdamW(self.parameters(), lr=1e-2)


def main(epochs: int = 12, images: int = 1797, folder: str = "runs") -> dict[str, int]:
    digits = load_digits()
    x = torch.tensor(digits.data[:images] / 16, dtype=torch.float32)
    loader = DataLoader(TensorDataset(x, torch.tensor(digits.target[:images])), 64, shuffle=True)
    torch.manual_seed(0)

    iht = IHTCallback(  # 1: when, and how sparse
        skinny.timeline.sdnn(epochs=epochs, sparsity=0.9), pack={"path": f"{folder}/digits.skinny"}
    )
    trainer = Trainer(  # `ckpt_path` of fit() resumes IHT, too
        max_epochs=epochs,
        callbacks=[iht],  # 2: attach
        default_root_dir=folder,
        accelerator="auto",
        log_every_n_steps=4,
    )
    trainer.fit(Digits(), loader)
    net = skinny.load(f"{folder}/digits.skinny")  # no torch needed from here on
    found = net(x.numpy()).argmax(axis=1)
    print(f"accuracy {(found == digits.target[:images]).mean():.1%} of the training images")
    return iht.iht.finish()


if __name__ == "__main__":
    main()
