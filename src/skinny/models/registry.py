"""Models by name: ours, and the user's as `package.module:function`."""

import inspect
from collections.abc import Callable
from typing import Any

from torch import nn

from skinny import user_function
from skinny.errors import SkinnyError
from skinny.models.airnet import airnet
from skinny.models.alexnet import alexnet
from skinny.models.lenet import lenet_5, lenet_300_100
from skinny.models.nin import nin_cifar, nin_digits, nin_mnist

_OURS: dict[str, Callable[..., nn.Module]] = {
    "nin-cifar": nin_cifar,
    "nin-mnist": nin_mnist,
    "nin-digits": nin_digits,
    "alexnet": alexnet,
    "airnet": airnet,
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
    with user_function.calling(name):
        function = user_function.find(name, "model")
        if isinstance(function, nn.Module):
            raise SkinnyError(
                f"{name} is a model already made; name the function that makes it, so that every "
                "run begins with weights of its own"
            )
        model = function(**_arguments(name, function, facts, options))
    if not isinstance(model, nn.Module):
        raise SkinnyError(
            f"{name} must return a torch.nn.Module, it returned {type(model).__name__}"
        )
    return model


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
