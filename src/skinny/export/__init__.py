"""From torch and ONNX to packed files, and from packed files to ONNX.

Names are imported on first use: `to_onnx` does not need torch.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from skinny.export.model import check, pack, unpack
    from skinny.export.onnx import to_onnx
    from skinny.export.torch_import import UnsupportedOperationError

__all__ = ["UnsupportedOperationError", "check", "pack", "to_onnx", "unpack"]

_HOME = {
    "UnsupportedOperationError": "torch_import",
    "check": "model",
    "pack": "model",
    "to_onnx": "onnx",
    "unpack": "model",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'skinny.export' has no attribute {name!r}")
    return getattr(importlib.import_module(f"skinny.export.{_HOME[name]}"), name)
