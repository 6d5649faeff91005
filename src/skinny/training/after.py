"""A network rounded to int8 when its training is over: what training for int8 is compared with."""

import itertools

import torch
from torch import nn

from skinny.data import Batches
from skinny.iht import input_range
from skinny.iht.fake_quantize import int8_weight
from skinny.iht.input_range import Ranges
from skinny.training.session import Session

_IMAGES = 1024  # of the training, by which ranges are calibrated


@torch.no_grad()
def calibrate(model: nn.Module, batches: Batches) -> Ranges:
    """The least and the largest input of each layer over training images, in evaluation mode."""
    seen: Ranges = {}

    def look(name: str, x: torch.Tensor) -> None:
        low, high = seen.get(name, (0.0, 0.0))
        seen[name] = (min(low, float(x.min())), max(high, float(x.max())))

    hooks = [
        layer.register_forward_pre_hook(lambda _, args, name=f"{path}.weight": look(name, args[0]))
        for path, layer in model.named_modules()
        if isinstance(layer, input_range.LAYERS)
    ]
    was_training = model.training
    model.eval()
    try:
        for x, _ in itertools.islice(batches.epoch(0), -(-_IMAGES // batches.size(0))):
            model(x)
    finally:
        model.train(was_training)
        for hook in hooks:
            hook.remove()
    return {name.lstrip("."): both for name, both in seen.items()}


@torch.no_grad()
def quantise(session: Session) -> None:
    """Round the weights of the layers that were calibrated, and their inputs from here on."""
    ranges = session.ranks.from_first(lambda: calibrate(session.model, session.train_batches))
    for name in ranges:
        weight = session.model.get_parameter(name)
        weight.copy_(int8_weight(weight))
    session.take_ranges(ranges)
