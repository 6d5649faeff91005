"""Skinny: train skinny deep neural networks by iterative hard thresholding.

This file is the public API. Names are imported on first use, so that `import skinny` stays light
and a device without torch can still run packed models; type checkers see them all.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from skinny import data, models, training
    from skinny.errors import SkinnyError
    from skinny.export import check, pack, unpack
    from skinny.iht import timeline
    from skinny.iht.controller import IHT
    from skinny.iht.ght import ght
    from skinny.iht.pruned_state import plain_state_dict
    from skinny.iht.threshold import hard_threshold, random_threshold
    from skinny.packing import size
    from skinny.runtime import load

__version__ = "0.1.0"

__all__ = [
    "IHT",
    "SkinnyError",
    "__version__",
    "check",
    "data",
    "ght",
    "hard_threshold",
    "load",
    "models",
    "pack",
    "plain_state_dict",
    "random_threshold",
    "size",
    "timeline",
    "training",
    "unpack",
]

# public name -> where it lives: "module:attribute", or "module" where the module is the name
_HOME = {
    "IHT": "skinny.iht.controller:IHT",
    "SkinnyError": "skinny.errors:SkinnyError",
    "check": "skinny.export:check",
    "data": "skinny.data",
    "ght": "skinny.iht.ght:ght",
    "hard_threshold": "skinny.iht.threshold:hard_threshold",
    "load": "skinny.runtime:load",
    "models": "skinny.models",
    "pack": "skinny.export:pack",
    "plain_state_dict": "skinny.iht.pruned_state:plain_state_dict",
    "random_threshold": "skinny.iht.threshold:random_threshold",
    "size": "skinny.packing:size",
    "timeline": "skinny.iht.timeline",
    "training": "skinny.training",
    "unpack": "skinny.export:unpack",
}


if not TYPE_CHECKING:  # to a type checker, a name that is not above is an error

    def __getattr__(name: str) -> Any:
        if name not in _HOME:
            raise AttributeError(f"module 'skinny' has no attribute {name!r}")
        module, _, attribute = _HOME[name].partition(":")
        try:
            value = importlib.import_module(module)
            value = getattr(value, attribute) if attribute else value
        except ModuleNotFoundError as error:
            if error.name != "torch":
                raise
            raise ModuleNotFoundError(
                f"skinny.{name} needs torch: pip install 'skinny-nn[train]'", name="torch"
            ) from None
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted(__all__)
