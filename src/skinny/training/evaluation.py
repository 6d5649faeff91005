"""How good a model is on a set of images."""

from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional as F

from skinny.data import Batches
from skinny.training.distributed import Ranks


@dataclass(frozen=True)
class Evaluation:
    """Averages over all images; errors per class are counts."""

    loss: float
    accuracy: float
    top5: float
    images: tuple[int, ...]  # per class
    errors: tuple[int, ...]  # per class


@torch.no_grad()
def evaluate(
    model: nn.Module, batches: Batches, classes: int, ranks: Ranks | None = None
) -> Evaluation:
    """Cross-entropy, top-1 and top-5 accuracy in evaluation mode; the mode is put back after.

    ranks: those that have a share of the batches each; without them, this process has all.
    """
    was_training = model.training
    model.eval()
    try:
        seen = loss = top5 = 0.0
        images = torch.zeros(classes, dtype=torch.int64)
        errors = torch.zeros(classes, dtype=torch.int64)
        for x, y in batches.epoch(0):
            scores = model(x).float()  # [n, classes]
            loss += float(F.cross_entropy(scores, y, reduction="sum"))
            best = scores.topk(min(5, classes), dim=1).indices  # [n, 5], best first
            wrong = best[:, 0] != y
            top5 += float((best == y[:, None]).any(dim=1).sum())
            images += torch.bincount(y, minlength=classes).cpu()
            errors += torch.bincount(y[wrong], minlength=classes).cpu()
            seen += len(y)
    finally:
        model.train(was_training)
    seen, loss, top5, *counts = (ranks or Ranks()).total(
        seen, loss, top5, *images.tolist(), *errors.tolist()
    )
    wrong_in_all = sum(counts[classes:])
    return Evaluation(
        loss=loss / seen,
        accuracy=(seen - wrong_in_all) / seen,
        top5=top5 / seen,
        images=tuple(map(int, counts[:classes])),
        errors=tuple(map(int, counts[classes:])),
    )
