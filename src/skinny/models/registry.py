"""Models by name: ours, and the user's as `package.module:function`."""

import contextlib
import importlib
import inspect
import os
import sys
from collections.abc import Callable, Iterator
from typing import Any

from torch import nn

from skinny.errors import SkinnyError
from skinny.models.alexnet import alexnet
from skinny.models.lenet import lenet_5, lenet_300_100
from skinny.models.nin import nin_cifar, nin_digits, nin_mnist

_OURS: dict[str, Callable[..., nn.Module]] = {
    "nin-cifar": nin_cifar,
    "nin-mnist": nin_mnist,
    "nin-digits": nin_digits,
    "alexnet": alexnet,
    "lenet-300-100": lenet_300_100,
    "lenet-5": lenet_5,
}


def names() -> tuple[str, ...]:
    """The models that come with Skinny."""
    return tuple(_OURS)


def build(
    name: str,
    *,
    classes: int,
    channels: int,
    image_size: tuple[int, int] | None = None,
    **options: Any,
) -> nn.Module:
    """A new model: one of `names()`, or what the user's `package.module:function` returns.

    The user's module is looked for in the current directory, then on `sys.path`. Its function gets
    those of `classes`, `channels` and `image_size` (height, width) that it names as parameters,
    and all `options`. A `**kwargs` of its own receives options, never the other three: they might
    be passed on to something that does not know them.
    """
    facts: dict[str, Any] = {"classes": classes, "channels": channels}
    if image_size is not None:
        facts["image_size"] = image_size
    if name in _OURS:
        return _OURS[name](**_arguments(name, _OURS[name], facts, options))
    if ":" not in name:
        raise SkinnyError(
            f"there is no model {name!r}; there are {', '.join(names())}, and your own as "
            "package.module:function"
        )
    with _current_directory_on_path():
        function = _users_function(name)
        arguments = _arguments(name, function, facts, options)
        try:
            model = function(**arguments)
        except SkinnyError:
            raise
        except Exception as error:
            raise SkinnyError(f"{name} failed: {type(error).__name__}: {error}") from error
    if not isinstance(model, nn.Module):
        raise SkinnyError(
            f"{name} must return a torch.nn.Module, it returned {type(model).__name__}"
        )
    return model


def _users_function(name: str) -> Callable[..., Any]:
    module_name, _, attribute = name.partition(":")
    if not all(part.isidentifier() for part in [*module_name.split("."), attribute]):
        raise SkinnyError(f"{name!r} does not name a model; write package.module:function")
    importlib.invalidate_caches()  # the file may be younger than the last look at its directory
    try:
        module = importlib.import_module(module_name)
    except Exception as error:
        missing = error.name if isinstance(error, ModuleNotFoundError) else None
        if missing and f"{module_name}.".startswith(f"{missing}."):
            raise SkinnyError(
                f"there is no module {missing!r} for the model {name} in the current directory "
                f"({os.getcwd()}) or on Python's path; run the command where {missing} is, or name "
                f"that directory: PYTHONPATH=DIRECTORY skinny ..."
            ) from error
        raise SkinnyError(
            f"importing {module_name} for the model {name} failed: {type(error).__name__}: {error}"
        ) from error
    if not hasattr(module, attribute):
        callables = [key for key, value in vars(module).items() if _is_own_function(module, value)]
        raise SkinnyError(
            f"{module_name} has no {attribute!r}; its functions are "
            f"{', '.join(callables) or 'none'}"
        )
    function = getattr(module, attribute)
    if isinstance(function, nn.Module):
        raise SkinnyError(
            f"{name} is a model already made; name the function that makes it, so that every run "
            "begins with weights of its own"
        )
    if not callable(function):
        raise SkinnyError(
            f"{name} must be a function that returns a model, it is a {type(function).__name__}"
        )
    result: Callable[..., Any] = function
    return result


def _is_own_function(module: object, value: object) -> bool:
    own = getattr(value, "__module__", None) == getattr(module, "__name__", None)
    return own and callable(value) and not isinstance(value, nn.Module)


def _arguments(
    name: str, function: Callable[..., Any], facts: dict[str, Any], options: dict[str, Any]
) -> dict[str, Any]:
    """What to call `function` with; an error names the option it does not take, or is not given."""
    try:
        parameters = inspect.signature(function).parameters
    except ValueError:  # some functions written in C do not tell
        return options
    named = {
        key: parameter
        for key, parameter in parameters.items()
        if parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
    }
    takes_any = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values())
    unknown = [key for key in options if key not in named]
    if unknown and not takes_any:
        known = [key for key in named if key not in facts and key != "image_size"]
        raise SkinnyError(
            f"the model {name} has no option {', '.join(map(repr, unknown))}; "
            f"its options are {', '.join(known) or 'none'}"
        )
    arguments = {key: value for key, value in facts.items() if key in named} | options
    missing = [
        key
        for key, parameter in named.items()
        if parameter.default is parameter.empty and key not in arguments
    ]
    if missing:
        raise SkinnyError(
            f"the model {name} also needs {', '.join(map(repr, missing))}; give it as an option, "
            "or give the function a default"
        )
    return arguments


@contextlib.contextmanager
def _current_directory_on_path() -> Iterator[None]:
    """As `python -m` does; an installed command does not look there by itself."""
    here = os.getcwd()
    sys.path.insert(0, here)
    try:
        yield
    finally:
        with contextlib.suppress(ValueError):
            sys.path.remove(here)
