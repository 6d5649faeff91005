"""Skinny: train skinny deep neural networks by iterative hard thresholding.

This file is the public API. Names are imported on first use, so that `import skinny` stays light
and a device without torch can still run packed models.
"""

import importlib
from typing import Any

__version__ = "0.1.0"

# public name -> where it lives; None for a module that is itself the name
_HOME: dict[str, str | None] = {
    "SkinnyError": "skinny.errors",
}

__all__ = ["__version__", *sorted(_HOME)]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'skinny' has no attribute {name!r}")
    home = _HOME[name]
    value = (
        importlib.import_module(f"skinny.{name}")
        if home is None
        else getattr(importlib.import_module(home), name)
    )
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
