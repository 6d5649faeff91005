"""Functions of the user's, named `package.module:function` on a command line or in a config."""

import contextlib
import importlib
import inspect
import os
import sys
from collections.abc import Callable, Iterator
from typing import Any

from skinny.errors import SkinnyError


def find(name: str, makes: str) -> Callable[..., Any]:
    """The function, imported; `makes` is what it returns, for errors: "model", "data set"."""
    module_name, _, attribute = name.partition(":")
    if not all(part.isidentifier() for part in [*module_name.split("."), attribute]):
        raise SkinnyError(f"{name!r} does not name a {makes}; write package.module:function")
    importlib.invalidate_caches()  # the file may be younger than the last look at its directory
    try:
        module = importlib.import_module(module_name)
    except Exception as error:
        missing = error.name if isinstance(error, ModuleNotFoundError) else None
        if missing and f"{module_name}.".startswith(f"{missing}."):
            raise SkinnyError(
                f"there is no module {missing!r} for the {makes} {name} in the current directory "
                f"({os.getcwd()}) or on Python's path; run the command where {missing} is, or name "
                f"that directory: PYTHONPATH=DIRECTORY skinny ..."
            ) from error
        raise SkinnyError(
            f"importing {module_name} for the {makes} {name} failed: "
            f"{type(error).__name__}: {error}"
        ) from error
    if not hasattr(module, attribute):
        own = [key for key, value in vars(module).items() if _is_own_function(module, value)]
        raise SkinnyError(
            f"{module_name} has no {attribute!r}; its functions are {', '.join(own) or 'none'}"
        )
    function = getattr(module, attribute)
    if not callable(function):
        raise SkinnyError(
            f"{name} must be a function that returns a {makes}, it is a {type(function).__name__}"
        )
    result: Callable[..., Any] = function
    return result


def _is_own_function(module: object, value: object) -> bool:
    own = getattr(value, "__module__", None) == getattr(module, "__name__", None)
    return own and (inspect.isroutine(value) or inspect.isclass(value))


@contextlib.contextmanager
def calling(name: str) -> Iterator[None]:
    """The current directory on Python's path, as with `python -m`; errors in one sentence."""
    here = os.getcwd()
    sys.path.insert(0, here)
    try:
        yield
    except SkinnyError:
        raise
    except Exception as error:
        raise SkinnyError(f"{name} failed: {type(error).__name__}: {error}") from error
    finally:
        with contextlib.suppress(ValueError):
            sys.path.remove(here)
