"""The ranges of layers' inputs: observed while training, and what inputs are rounded by."""

import contextlib
from collections.abc import Iterable, Iterator, Mapping

import torch
import torch.distributed as dist
from torch import Tensor, nn

from skinny.iht.fake_quantize import int8_input

Ranges = dict[str, tuple[float, float]]  # by the name of the layer's weight

LAYERS = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d)  # whose kernels compute in int8
_PACE = 0.05  # of the average over batches


class InputRange:
    """A forward pre-hook of one layer: rounds its input to 8 bits, by a range that it averages over
    the batches of the training.

    A batch is rounded by the range of the batches before it (the first one by its own), and what it
    adds to the range waits for `follow`, which is called once a step. So a forward pass that is
    done again, for activation checkpointing, gives the same; and several ranks agree on a range.
    """

    def __init__(self, known: tuple[float, float] | Tensor | None = None) -> None:
        self.active = False
        self.range = None if known is None else torch.as_tensor(known, dtype=torch.float32)  # [2]
        self.seen: Tensor | None = None  # [2]: of the batches since the last step

    @property
    def known(self) -> tuple[float, float] | None:
        if self.range is None:
            return None
        low, high = self.range.tolist()
        return low, high

    def __call__(self, module: nn.Module, args: tuple[Tensor, ...]) -> tuple[Tensor, ...] | None:
        if not self.active or not args:
            return None
        x = args[0]
        if module.training:
            self._look_at(x.detach())
        if self.range is None:  # neither trained nor calibrated
            return None
        low, high = self.range.to(x.device)
        return (int8_input(x, low, high), *args[1:])

    def _look_at(self, x: Tensor) -> None:
        low, high = torch.aminmax(x)
        now = torch.stack([low.clamp(max=0), high.clamp(min=0)]).float()
        if self.seen is None:
            self.seen = now
        else:
            self.seen = _union(self.seen.to(now.device), now)
        if self.range is None:
            self.range = now

    def follow(self, first: bool) -> None:
        """Take what the batches since the last step add to the average; at the first, take all."""
        if self.seen is not None:
            assert self.range is not None
            pace = 1.0 if first else _PACE
            self.range = torch.lerp(self.range.to(self.seen.device), self.seen, pace)
            self.seen = None


def of_layer(layer: nn.Module) -> InputRange | None:
    hooks = layer._forward_pre_hooks.values()
    return next((hook for hook in hooks if isinstance(hook, InputRange)), None)


def attach(model: nn.Module, ranges: Mapping[str, tuple[float, float]]) -> None:
    """Round the inputs of these layers from here on; their ranges stay."""
    for name, known in ranges.items():
        hook = InputRange(known)
        hook.active = True
        model.get_submodule(name.rpartition(".")[0]).register_forward_pre_hook(hook)


def find(model: nn.Module) -> Ranges:
    """The ranges that are rounded by, of a model that was trained so; none of any other."""
    found: Ranges = {}
    for path, layer in model.named_modules():
        hook = of_layer(layer)
        if hook is not None and hook.active and (known := hook.known) is not None:
            found[f"{path}.weight".lstrip(".")] = known
    return found


@contextlib.contextmanager
def paused(model: nn.Module) -> Iterator[None]:
    """Within it inputs are not rounded, and ranges stay what they are."""
    hooks = [hook for layer in model.modules() if (hook := of_layer(layer)) is not None]
    active = [hook for hook in hooks if hook.active]
    for hook in active:
        hook.active = False
    try:
        yield
    finally:
        for hook in active:
            hook.active = True


def agree(hooks: Iterable[InputRange], group: dist.ProcessGroup, device: torch.device) -> None:
    """Let all ranks have seen what each has; every rank must come to it, with the same layers."""
    hooks = list(hooks)
    nothing = torch.zeros(2)  # which widens no range
    mine = [nothing if hook.seen is None else hook.seen for hook in hooks]
    reach = torch.stack([seen.to(device) for seen in mine]).abs()  # [layers, 2]: of -low and high
    dist.all_reduce(reach, op=dist.ReduceOp.MAX, group=group)
    for hook, (low, high) in zip(hooks, reach, strict=True):
        if hook.seen is not None or low or high:
            hook.seen = torch.stack([-low, high])
            hook.range = hook.seen if hook.range is None else hook.range


def _union(one: Tensor, other: Tensor) -> Tensor:
    return torch.stack([torch.minimum(one[0], other[0]), torch.maximum(one[1], other[1])])
