"""Values against the types that a dataclass declares for its fields."""

from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin

_UNIONS = (UnionType, Union)  # the latter for `Literal[...] | None`
_WORDS = {int: "a whole number", float: "a number", bool: "true or false", str: "a text"}


def is_of(kind: Any, value: Any) -> bool:
    """Whether a value is of a type. A whole number is a number too; true and false are neither."""
    if get_origin(kind) in _UNIONS:
        return any(is_of(one, value) for one in get_args(kind))
    if get_origin(kind) is Literal:
        return isinstance(value, str) and value in get_args(kind)
    if get_origin(kind) is tuple:
        return isinstance(value, tuple) and all(is_of(get_args(kind)[0], one) for one in value)
    if kind in (int, float):
        return isinstance(value, int | kind) and not isinstance(value, bool)
    return isinstance(value, kind)


def told(kind: Any) -> str:
    """A type in words: what is allowed."""
    if get_origin(kind) in _UNIONS:
        return " or ".join(map(told, get_args(kind)))
    if get_origin(kind) is Literal:
        return ", ".join(get_args(kind))
    if get_origin(kind) is tuple:
        return f"a list, of each item {told(get_args(kind)[0])}"
    return _WORDS.get(kind, "none")
