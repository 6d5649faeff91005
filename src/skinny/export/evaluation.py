"""What an exported program computes from its stored tensors alone, computed by torch."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.fx import Node

from skinny.export.aten import name_of

_CONSTANTS = ("arange", "eye", "full", "ones", "scalar_tensor", "zeros")

Stored = Callable[[Node], Tensor | None]


def evaluate(node: Node, stored: Stored, known: dict[Node, Any]) -> Any:
    """The value of a node that depends on no input of the model and on no random number, as the
    weight of a parametrised layer does; None for any other. `known` keeps what was computed."""
    waiting = [node]
    while waiting:
        at = waiting[-1]
        if at in known:
            waiting.pop()
        elif at.op == "placeholder":
            known[at] = stored(at)
        elif at.op != "call_function" or not _is_function(at):
            known[at] = None
        elif missing := [source for source in at.all_input_nodes if source not in known]:
            waiting += missing
        else:
            known[at] = _call(at, known)
    return known[node]


def _call(node: Node, known: dict[Node, Any]) -> Any:
    if any(known[source] is None for source in node.all_input_nodes):
        return None
    args, kwargs = torch.fx.map_arg((node.args, node.kwargs), lambda source: known[source])
    assert callable(node.target)
    with torch.no_grad():
        return node.target(*args, **kwargs)


def _is_function(node: Node) -> bool:
    """Whether equal arguments give equal results: of random numbers and empty tensors they do
    not."""
    random = torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ())
    return not random and (bool(node.all_input_nodes) or name_of(node.target) in _CONSTANTS)
