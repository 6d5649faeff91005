import torch
from torch import nn

from skinny.data import ImageSet, MemoryBatches, Normalization
from skinny.training import evaluate


def test_counts_losses_and_errors_per_class():
    labels = torch.tensor([0, 0, 1, 2, 2, 2])
    images = torch.zeros(6, 1, 1, 1, dtype=torch.uint8)
    images[:, 0, 0, 0] = torch.tensor([0, 1, 1, 2, 2, 0])  # what the model will say
    batches = MemoryBatches(
        ImageSet(images, labels), batch_size=4, preprocessing=Normalization.of((0.0,), (1 / 255,))
    )

    class Says(nn.Module):
        def forward(self, x):
            assert not self.training
            return nn.functional.one_hot(x.flatten().round().long(), 3) * 10.0

    model = Says().train()
    result = evaluate(model, batches, 3)
    assert result.images == (2, 1, 3)
    assert result.errors == (1, 0, 1)
    assert result.accuracy == 4 / 6
    assert result.top5 == 1.0
    assert model.training
