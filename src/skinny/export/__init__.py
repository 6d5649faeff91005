"""From torch to packed files: the graph by torch.export, the weights exactly; and on to ONNX.

Names are imported on first use: `to_onnx` does not need torch.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from skinny.export.graph import UnsupportedOperationError, take_graph
    from skinny.export.model import pack, unpack
    from skinny.export.onnx import to_onnx

__all__ = ["UnsupportedOperationError", "pack", "take_graph", "to_onnx", "unpack"]

_HOME = {
    "UnsupportedOperationError": "graph",
    "pack": "model",
    "take_graph": "graph",
    "to_onnx": "onnx",
    "unpack": "model",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'skinny.export' has no attribute {name!r}")
    return getattr(importlib.import_module(f"skinny.export.{_HOME[name]}"), name)
