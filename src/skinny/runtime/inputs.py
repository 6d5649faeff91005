"""What a network of any inputs is given: arrays by position or name, checked before it runs."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skinny.graph import Graph, Input
from skinny.runtime.images import NO_FILES, InputError, names_files

_KINDS = {"b": "booleans", "i": "integers", "u": "integers", "f": "floats"}


def bind(graph: Graph, args: tuple[Any, ...], named: Mapping[str, Any]) -> dict[str, NDArray[Any]]:
    """Each input's array, in its type; an `InputError` for what does not fit."""
    names = [value.name for value in graph.inputs]
    if len(args) > len(names):
        raise InputError(f"the network takes {_count(len(names))}, {len(args)} were given")
    given = dict(zip(names, args, strict=False))
    for name, value in named.items():
        if name not in names:
            raise InputError(f"there is no input {name!r}; the inputs are {', '.join(names)}")
        if name in given:
            raise InputError(f"the input {name!r} is given twice")
        given[name] = value
    if missing := [name for name in names if name not in given]:
        raise InputError(f"the input {missing[0]!r} is missing; there are {', '.join(names)}")
    sizes: dict[str, int] = {}
    return {value.name: _checked(value, given[value.name], sizes) for value in graph.inputs}


def random_inputs(graph: Graph, batch: int) -> dict[str, NDArray[Any]]:
    """Inputs for a network whose batch alone is free; integers and booleans are zero, because the
    graph does not tell their range."""
    if batch < 1:
        raise InputError(f"the batch is {batch}; it must be 1 or more")
    generator = np.random.default_rng(0)
    made: dict[str, NDArray[Any]] = {}
    for value in graph.inputs:
        if free := [size for size in value.shape if isinstance(size, str) and size != "batch"]:
            raise InputError(
                f"the size {free[0]} of the input {value.name!r} is free; give the inputs, as in a "
                "call of the network"
            )
        shape = [size if isinstance(size, int) else batch for size in value.shape]
        random = generator.random(shape) if value.dtype == "float32" else np.zeros(shape)
        made[value.name] = random.astype(value.dtype)
    return made


def only_input(name: str, args: tuple[Any, ...], named: Mapping[str, Any]) -> Any:
    """What is given to a network of one input, by position or by its name."""
    if len(args) == 1 and not named:
        return args[0]
    if not args and named.keys() == {name}:
        return named[name]
    given = [*("by position" for _ in args), *named]
    raise InputError(f"the network takes one input, {name!r}; given: {', '.join(given) or 'none'}")


def _count(count: int) -> str:
    return "one input" if count == 1 else f"{count} inputs"


def _checked(value: Input, given: Any, sizes: dict[str, int]) -> NDArray[Any]:
    if names_files(given):
        raise InputError(NO_FILES)
    try:
        array = np.asarray(given)
    except (ValueError, TypeError, RuntimeError) as problem:  # a ragged list, say
        raise InputError(f"the input {value.name!r} cannot be made an array: {problem}") from None
    wanted = np.dtype(value.dtype)
    fits = array.dtype.kind == wanted.kind or (array.dtype.kind in "iu" and wanted.kind in "iu")
    if not fits:
        kinds = _KINDS[wanted.kind], _KINDS.get(array.dtype.kind, str(array.dtype))
        raise InputError(f"the input {value.name!r} takes {kinds[0]}, it is given {kinds[1]}")
    shape = ", ".join(map(str, value.shape))
    if array.ndim != len(value.shape):
        raise InputError(f"the input {value.name!r} is {list(array.shape)}, it takes [{shape}]")
    if array.size == 0:
        raise InputError(f"the input {value.name!r} is empty: it is {list(array.shape)}")
    for size, side in zip(value.shape, array.shape, strict=True):
        expected = sizes.setdefault(size, side) if isinstance(size, str) else size
        if side != expected:
            raise InputError(
                f"the input {value.name!r} is {list(array.shape)}, it takes [{shape}]"
                + (f" with {size} = {expected} as in another input" if size in sizes else "")
            )
    if wanted.kind in "iu" and array.dtype != wanted:
        _check_range(value, array, wanted)
    return np.asarray(array, wanted, order="C")  # keeps a scalar a scalar


def _check_range(value: Input, array: NDArray[Any], wanted: np.dtype[Any]) -> None:
    """Integers that the input's type cannot hold would become others."""
    limits = np.iinfo(wanted)
    for extreme in (int(array.min()), int(array.max())):
        if not limits.min <= extreme <= limits.max:
            raise InputError(f"the input {value.name!r} has {extreme}, which {wanted} cannot hold")
