"""The kinds of attributes that operations have: what each accepts, and how it is described.

A graph may come from a hostile file, so every attribute is checked before anyone computes with it.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from skinny.graph.values import DTYPES, MOST_AXES

LARGEST_SIZE = 1 << 31  # of a dimension, an offset, a literal size
LARGEST_WINDOW = 1 << 12  # kernels, strides, paddings, dilations
REQUIRED = object()


@dataclass(frozen=True)
class Attribute:
    """accepts: whether a value read from JSON (lists already made tuples) is allowed."""

    says: str
    accepts: Callable[[Any], bool]
    default: Any = REQUIRED  # the value of an attribute that a node does not state

    def optional(self) -> "Attribute":
        """The same, or null, which is its default."""
        accepts = self.accepts
        return replace(
            self,
            says=f"{self.says}, or null",
            accepts=lambda value: value is None or accepts(value),
            default=None,
        )

    def with_default(self, default: Any) -> "Attribute":
        return replace(self, default=default)


@dataclass(frozen=True)
class Stored(Attribute):
    """Names a tensor stored in the file, of one of the given ranks (any if none are given)."""

    ranks: tuple[int, ...] = ()


@dataclass(frozen=True)
class Sizes(Attribute):
    """Numbers that may depend on sizes of the input: an integer, or the name of a value that is a
    single integer. In a list, null is the size of that axis of the first input."""


def is_number(value: Any) -> bool:
    """A finite float, or an integer of 64 bits."""
    if type(value) is int:
        return -(1 << 63) <= value < 1 << 63
    return type(value) is float and math.isfinite(value)


def integer(low: int, high: int = LARGEST_SIZE) -> Attribute:
    return Attribute(
        f"an integer from {low} to {high}",
        lambda value: type(value) is int and low <= value <= high,
    )


def integers(low: int, high: int = LARGEST_SIZE, *, most: int = MOST_AXES) -> Attribute:
    return Attribute(
        f"up to {most} integers from {low} to {high}",
        lambda value: (
            isinstance(value, tuple)
            and len(value) <= most
            and all(type(item) is int and low <= item <= high for item in value)
        ),
    )


def window(low: int) -> Attribute:
    """One integer for each spatial axis, slowest axis first."""
    limits = integers(low, LARGEST_WINDOW, most=3)
    return Attribute(
        f"an integer from {low} to {LARGEST_WINDOW} for each spatial axis",
        lambda value: limits.accepts(value) and len(value) >= 1,
    )


def choice(*texts: str) -> Attribute:
    return Attribute(" or ".join(f"`{text}`" for text in texts), lambda value: value in texts)


def tensor(*ranks: int) -> Stored:
    """The name of a stored tensor; whether it exists, and its rank, is checked by the graph."""
    rank = f" of rank {' or '.join(map(str, ranks))}" if ranks else ""
    return Stored(f"a stored tensor{rank}", lambda value: isinstance(value, str), ranks=ranks)


def _is_size(value: Any, low: int) -> bool:
    if isinstance(value, str):
        return value != ""
    return type(value) is int and low <= value <= LARGEST_SIZE


def size(low: int = -LARGEST_SIZE) -> Sizes:
    return Sizes("a size", lambda value: _is_size(value, low))


def sizes(low: int = 0, *, most: int = MOST_AXES) -> Sizes:
    return Sizes(
        f"up to {most} sizes",
        lambda value: (
            isinstance(value, tuple)
            and len(value) <= most
            and all(item is None or _is_size(item, low) for item in value)
        ),
    )


number = Attribute("a finite number", is_number)
boolean = Attribute("true or false", lambda value: type(value) is bool)
axis = integer(-MOST_AXES, MOST_AXES - 1)
axes = integers(-MOST_AXES, MOST_AXES - 1)
dtype = choice(*DTYPES)
