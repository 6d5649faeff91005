"""Batch normalisation over the whole batch, though each rank sees only its share.

With the statistics of shares, what a network learns would depend on the number of processes.
(`torch.nn.SyncBatchNorm` is for GPUs only, and replaces modules.)
"""

from functools import partial
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm


def synchronise(model: nn.Module) -> None:
    """Let the batch norms of a model use the statistics of all ranks while they are trained."""
    for module in model.modules():
        if isinstance(module, _BatchNorm) and not isinstance(module, nn.SyncBatchNorm):
            forward = torch.compiler.disable(partial(_forward, module))
            module.forward = forward  # type: ignore[method-assign]


class _Sum(torch.autograd.Function):
    """The sum over ranks. Its gradient is one too, since the loss of every rank depends on it."""

    @staticmethod
    def forward(ctx: Any, values: Tensor) -> Tensor:
        total = values.clone()
        dist.all_reduce(total)
        return total

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        total = gradient.clone()
        dist.all_reduce(total)
        return total


def _forward(module: _BatchNorm, x: Tensor) -> Tensor:
    """(x - mean) / sqrt(variance + eps) * weight + bias for each channel of x [n, c, ...]."""
    if not module.training:
        y: Tensor = type(module).forward(module, x)
        return y
    module._check_input_dim(x)
    over = [dim for dim in range(x.ndim) if dim != 1]
    per_channel = [1, -1, *[1] * (x.ndim - 2)]
    values = x.float()
    count = values.new_tensor([x.numel() / x.shape[1]])
    sums: Tensor = _Sum.apply(torch.cat([values.sum(over), count]))
    count, mean = sums[-1:], sums[:-1] / sums[-1:]
    centred = values - mean.view(per_channel)
    variance: Tensor = _Sum.apply(centred.square().sum(over)) / count
    if module.track_running_stats:
        _track(module, mean.detach(), variance.detach() * count / (count - 1).clamp(min=1))
    scale = (variance + module.eps).rsqrt()
    if module.affine:
        scale = scale * module.weight
        return (centred * scale.view(per_channel) + module.bias.view(per_channel)).to(x.dtype)
    return (centred * scale.view(per_channel)).to(x.dtype)


@torch.no_grad()
def _track(module: _BatchNorm, mean: Tensor, unbiased_variance: Tensor) -> None:
    """Running averages, exponential with `momentum`; without one, of all batches alike."""
    assert module.num_batches_tracked is not None
    assert module.running_mean is not None
    assert module.running_var is not None
    module.num_batches_tracked.add_(1)
    momentum = module.momentum
    factor = 1.0 / float(module.num_batches_tracked) if momentum is None else momentum
    module.running_mean.lerp_(mean, factor)
    module.running_var.lerp_(unbiased_variance, factor)
