"""Data sets of the user's own, made by a function `package.module:function`."""

import inspect
import os
import sys
from typing import Any

from skinny import user_function
from skinny.data.errors import DataError
from skinny.data.items import make_dataset
from skinny.data.sets import Dataset

_SPLITS: dict[str, tuple[Any, Any]] = {"split": ("train", "test"), "train": (True, False)}


def load_factory(name: str) -> Dataset:
    """What the function returns, in the form that `skinny.data.items` describes.

    A function with a parameter `split` is called with "train" and with "test", one with a parameter
    `train` with True and False. Any other is called once, and returns both splits as a pair, or one
    data set, of which a fixed stratified fifth is the test split.
    """
    with user_function.calling(name):
        function = user_function.find(name, "data set")
        train, test = _call(name, function)
    here = os.getcwd()
    if here not in sys.path:  # worker processes that are not forked import its module again
        sys.path.append(here)
    return make_dataset(name, train, test)


def _call(name: str, function: Any) -> tuple[Any, Any]:
    parameters = inspect.signature(function).parameters.values()
    key = next((p.name for p in parameters if p.name in _SPLITS), None)
    missing = [
        p.name
        for p in parameters
        if p.default is p.empty
        and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)
        and p.name != key
    ]
    if missing:
        raise DataError(
            f"the data set {name} also needs {', '.join(map(repr, missing))}; give the function "
            "a default, or a function around it that has one"
        )
    if key is not None:
        first, second = _SPLITS[key]
        return function(**{key: first}), function(**{key: second})
    made = function()
    if isinstance(made, tuple):
        if len(made) != 2:
            raise DataError(f"{name} returned {len(made)} data sets; one, or two, are needed")
        return made
    return made, None
