"""Which models are trained by an IHT, and how far it is: found by their weights, held weakly."""

import warnings
from collections.abc import Iterable

from torch import Tensor, nn
from torch.utils.weak import WeakIdKeyDictionary

from skinny.errors import SkinnyError
from skinny.iht.cursor import Cursor

_cursors = WeakIdKeyDictionary()  # weight -> the Cursor of its IHT, for as long as the weight lives


def add(weights: Iterable[Tensor], cursor: Cursor) -> None:
    for weight in weights:
        _cursors[weight] = cursor


def remove(weights: Iterable[Tensor], cursor: Cursor) -> None:
    for weight in weights:
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
