"""A network of the zoo: how it is made, small for the tests and full for the benchmark."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from skinny.iht.threshold import random_threshold

Inputs = dict[str, Tensor]


@dataclass(frozen=True)
class Network:
    """make(**tiny) is the network of the tests, make(**full) the one whose speed is measured.

    inputs: (batch, size) -> inputs by name, where size is an image's side or a sequence's length.
    dynamic: sizes beside the batch that stay free; `other` is then a further size to run with.
    """

    name: str
    make: Callable[..., nn.Module]
    inputs: Callable[[int, int], Inputs]
    size: tuple[int, int]  # tiny, full
    tiny: Mapping[str, Any] = field(default_factory=dict)
    full: Mapping[str, Any] = field(default_factory=dict)
    dynamic: Mapping[str, Mapping[int, str]] = field(default_factory=dict)
    other: int = 0


def noise(*shape: int) -> Tensor:
    """Noise in which samples and channels differ in their mean, so that networks that average over
    everything still tell samples apart."""
    return torch.randn(shape) + 2 * torch.randn(*shape[:2], *[1] * (len(shape) - 2))


def build(network: Network, *, full: bool = False) -> nn.Module:
    """The network in eval mode, its weights at random such that outputs are of order 1 and depend
    on the input. Every second matrix of the tiny one is 90 % sparse, all of the full one are."""
    torch.manual_seed(0)
    model = network.make(**(network.full if full else network.tiny))
    randomize(model, every=1 if full else 2)
    settle_batch_norms(model, network.inputs(4 if full else 16, network.size[full]))
    return model.eval()


def randomize(model: nn.Module, every: int) -> None:
    """Matrices are scaled by what they sum over, so that signals keep their size; one in `every`
    becomes sparse; biases and norms get values of their own, so that nothing is right because it
    is zero or one."""
    generator = torch.Generator().manual_seed(1)
    normalised = any("norm" in type(module).__name__.lower() for module in model.modules())
    gain = 1.0 if normalised else 2.0
    count = 0
    with torch.no_grad():
        for name, weight in model.named_parameters():
            noise = torch.randn(weight.shape, generator=generator)
            sums = weight[0].numel() if weight.dim() else 1
            if sums == 1 or "norm" in name.lower():
                weight.copy_(0.1 * noise + (weight.mean() > 0.5))
            elif "embed" in name.lower() and weight.dim() == 2:
                weight.copy_(noise)
            else:
                # weight norm divides by the norms of rows, which must not be zero
                large = sums >= 16 and "parametrizations" not in name
                sparse = large and count % every == 0
                count += large
                if sparse:
                    noise = random_threshold(noise, weight.numel() // 10, generator=generator)
                weight.copy_(noise * (gain / (sums / 10 if sparse else sums)) ** 0.5)


def settle_batch_norms(model: nn.Module, inputs: Inputs) -> None:
    """The statistics of batch norms as training would leave them."""
    norms = [m for m in model.modules() if isinstance(m, nn.modules.batchnorm._BatchNorm)]
    for norm in norms:
        norm.momentum = 1.0
        norm.train()
    if norms:
        with torch.no_grad():
            model(**inputs)
    for norm in norms:  # a channel that never varies would be rounding errors, blown up
        norm.running_var[norm.running_var < 1e-3] = 1
