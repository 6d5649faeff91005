"""LSTM and GRU layers kept whole while a model is exported.

torch traces a recurrent layer along its sequence to find its outputs' shapes, which takes long and
fixes the length. These operations know their shapes, so that the length may stay free.
"""

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode


class WholeRecurrentLayers(TorchFunctionMode):
    """Within, `torch.lstm` and `torch.gru` become the operations skinny::lstm and skinny::gru."""

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        if func in (torch.lstm, torch.gru) and not kwargs and _is_plain(args):
            x, state, weights, biased, layers, _, _, both, batch_first = args
            return _operations()[func](x, state, weights, biased, layers, both, batch_first)
        return func(*args, **(kwargs or {}))


def _is_plain(args: tuple[Any, ...]) -> bool:
    """Neither a packed sequence, nor training with dropout, nor with projections."""
    if len(args) != 9 or not isinstance(args[3], bool):
        return False
    _, _, weights, biased, layers, _, training, both, _ = args
    return not training and len(weights) == layers * (1 + both) * (4 if biased else 2)


@functools.cache
def _operations() -> dict[Any, Callable[..., Any]]:
    @torch.library.custom_op("skinny::lstm", mutates_args=())
    def lstm(
        input: Tensor, hx: list[Tensor], params: list[Tensor], has_biases: bool, num_layers: int,
        bidirectional: bool, batch_first: bool,
    ) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
        return torch.lstm(input, hx, params, has_biases, num_layers, 0.0, False, bidirectional,
                          batch_first)  # fmt: skip

    @torch.library.custom_op("skinny::gru", mutates_args=())
    def gru(
        input: Tensor, hx: Tensor, params: list[Tensor], has_biases: bool, num_layers: int,
        bidirectional: bool, batch_first: bool,
    ) -> tuple[Tensor, Tensor]:  # fmt: skip
        return torch.gru(input, hx, params, has_biases, num_layers, 0.0, False, bidirectional,
                         batch_first)  # fmt: skip

    @lstm.register_fake
    def _(input, hx, params, has_biases, num_layers, bidirectional, batch_first):  # type: ignore[no-untyped-def]
        whole = _whole(input, params, bidirectional)
        return whole, torch.empty_like(hx[0]), torch.empty_like(hx[1])

    @gru.register_fake
    def _(input, hx, params, has_biases, num_layers, bidirectional, batch_first):  # type: ignore[no-untyped-def]
        return _whole(input, params, bidirectional), torch.empty_like(hx)

    return {torch.lstm: lstm, torch.gru: gru}


def _whole(x: Tensor, weights: list[Tensor], both: bool) -> Tensor:
    """The shape of all states, of all steps."""
    return x.new_empty(*x.shape[:2], weights[1].shape[1] * (1 + both))
