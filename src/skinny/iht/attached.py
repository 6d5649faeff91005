"""Which models are trained by an IHT, and how far it is: found by their weights, held weakly."""

import gc
import warnings
from collections.abc import Mapping

from torch import Tensor, nn
from torch.utils.weak import WeakIdKeyDictionary

from skinny.errors import SkinnyError
from skinny.iht.cursor import Cursor

_cursors = WeakIdKeyDictionary()  # weight -> the Cursor of its IHT, for as long as the weight lives


def add(weights: Mapping[str, Tensor], cursor: Cursor) -> None:
    """An error if another IHT has one of the weights: each would revive what the other prunes."""
    if _taken(weights):
        gc.collect()  # an IHT and its optimizer refer to each other: nobody may hold it any more
    if taken := _taken(weights):
        raise SkinnyError(
            f"another IHT is attached to {', '.join(taken)}: call its detach() first, or give "
            "each of them layers of its own"
        )
    for weight in weights.values():
        _cursors[weight] = cursor


def remove(weights: Mapping[str, Tensor], cursor: Cursor) -> None:
    for weight in weights.values():
        if _cursors.get(weight) is cursor:
            del _cursors[weight]


def find(model: nn.Module) -> Cursor | None:
    """That of the first parameter that an IHT thresholds, under whatever wrapper or name it is."""
    found = (_cursors.get(parameter) for parameter in model.parameters())
    return next((cursor for cursor in found if isinstance(cursor, Cursor)), None)


def warn_if_unfinished(model: nn.Module) -> None:
    """Say so when the model's training has not come to the span in which its budget holds."""
    cursor = find(model)
    if cursor is None:
        return
    try:
        cursor.check_end()
    except SkinnyError as error:
        warnings.warn(f"the model is not yet what its IHT promises: {error}", stacklevel=3)


def _taken(weights: Mapping[str, Tensor]) -> list[str]:
    found = {name: _cursors.get(weight) for name, weight in weights.items()}
    return [name for name, cursor in found.items() if cursor is not None and cursor.in_use]
