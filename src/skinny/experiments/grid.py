"""Grids of configs: which values each field takes, and one config for every combination and seed.

Pure: texts and values in, configs out. Nothing is trained here.
"""

import dataclasses
import itertools
import types
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, Union, get_args, get_origin

from skinny.errors import SkinnyError
from skinny.training import config as configs
from skinny.training.config import Config

_FIELDS = {field.name: field for field in dataclasses.fields(Config)}
_NONE, _JOINED = "none", "+"


def grid(
    base: Config, axes: Mapping[str, Sequence[Any]], seeds: Iterable[int] | None = None
) -> list[Config]:
    """`base` with every combination of the values in `axes`, for every seed, the last axis fastest.

    Configs that would train the very same thing (dense at two sparsities) appear once. Another
    method than that of `base` has its own spans, unless these are an axis.
    """
    for name in axes:
        _field(name)
    if seeds is not None:
        axes = {**axes, "seed": list(seeds)}
    combined = (
        _changed(base, dict(zip(axes, values, strict=True)))
        for values in itertools.product(*axes.values())
    )
    return list(dict.fromkeys(configs.canonical(configs.check(config)) for config in combined))


def _changed(base: Config, changes: Mapping[str, Any]) -> Config:
    if changes.get("method", base.method) != base.method:
        base = configs.without_spans(base)
    return dataclasses.replace(base, **changes)


def parse_axis(text: str) -> tuple[str, list[Any]]:
    """`FIELD=VALUE,VALUE,...` with each value read by the field's type.

    `none` is no value; the items of a value that is itself a list are joined by `+`, as in
    `layers=conv1=0.5+conv2=0.8,none`.
    """
    name, equals, values = text.partition("=")
    if not equals or not values:
        raise SkinnyError(f"{text!r} is not FIELD=VALUE,VALUE,...; for example sparsity=0.5,0.9")
    field = _field(name)
    return name, [_value(name, field.type, value) for value in values.split(",")]


def _field(name: str) -> "dataclasses.Field[Any]":
    if name not in _FIELDS:
        raise SkinnyError(f"there is no field {name!r}; there are {', '.join(_FIELDS)}")
    return _FIELDS[name]


def _value(name: str, kind: Any, text: str) -> Any:
    kinds = get_args(kind) if get_origin(kind) in (types.UnionType, Union) else (kind,)
    if text == _NONE and type(None) in kinds:
        return None
    if words := [word for one in kinds if get_origin(one) is Literal for word in get_args(one)]:
        if text not in words:
            raise SkinnyError(f"{name} is {text!r}; allowed: {', '.join(words)}")
        return text
    kind = next(one for one in kinds if one is not type(None))
    if get_origin(kind) is tuple:
        items = [] if text == _NONE else text.split(_JOINED)
        return tuple(_value(name, get_args(kind)[0], item) for item in items)
    if kind is bool:
        if text not in ("true", "false"):
            raise SkinnyError(f"{name} is {text!r}; allowed: true, false")
        return text == "true"
    try:
        return kind(text)
    except ValueError:
        wanted = {int: "a whole number", float: "a number"}[kind]
        raise SkinnyError(f"{name} is {text!r}; it must be {wanted}") from None
