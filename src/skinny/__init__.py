"""Skinny: train skinny deep neural networks by iterative hard thresholding.

This file is the public API. Names are imported on first use, so that `import skinny` stays light
and a device without torch can still run packed models.
"""

import importlib
from typing import Any

__version__ = "0.1.0"

# public name -> where it lives: "module:attribute", or "module" where the module is the name
_HOME = {
    "IHT": "skinny.iht.controller:IHT",
    "SkinnyError": "skinny.errors:SkinnyError",
    "ght": "skinny.iht.ght:ght",
    "data": "skinny.data",
    "models": "skinny.models",
    "load": "skinny.runtime:load",
    "pack": "skinny.export:pack",
    "size": "skinny.packing:size",
    "training": "skinny.training",
    "unpack": "skinny.export:unpack",
    "hard_threshold": "skinny.iht.threshold:hard_threshold",
    "random_threshold": "skinny.iht.threshold:random_threshold",
    "timeline": "skinny.iht.timeline",
}

__all__ = ["__version__", *sorted(_HOME)]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'skinny' has no attribute {name!r}")
    module, _, attribute = _HOME[name].partition(":")
    value: Any = importlib.import_module(module)
    if attribute:
        value = getattr(value, attribute)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
