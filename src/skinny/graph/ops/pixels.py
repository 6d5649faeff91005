"""Moving elements between channels and pixels."""

from collections.abc import Callable
from typing import Any

import numpy as np

from skinny.graph.attributes import integer
from skinny.graph.builder import Builder, UnsupportedError
from skinny.graph.errors import require
from skinny.graph.forms import Call, Writer, aten
from skinny.graph.graph import Node, Operand
from skinny.graph.registry import Attributes, register
from skinny.graph.values import Array, Spec


def _shuffled(a: Attributes, x: Spec) -> Spec:
    require(x.ndim >= 3, "needs channels, rows and columns")
    *outer, channels, height, width = x.shape
    r = a.factor
    require(channels % (r * r) == 0, f"cannot divide {channels} channels by {r * r}")
    return Spec(x.dtype, (*outer, channels // (r * r), height * r, width * r))


def _shuffle(a: Attributes, x: Array) -> Array:
    *outer, channels, height, width = x.shape
    r, n = a.factor, len(outer)
    split_ = x.reshape(*outer, channels // (r * r), r, r, height, width)
    order = (*range(n), n, n + 3, n + 1, n + 4, n + 2)
    return split_.transpose(order).reshape(*outer, channels // (r * r), height * r, width * r)


def _unshuffled(a: Attributes, x: Spec) -> Spec:
    require(x.ndim >= 3, "needs channels, rows and columns")
    *outer, channels, height, width = x.shape
    r = a.factor
    require(height % r == 0 == width % r, f"cannot divide {height} by {width} pixels by {r}")
    return Spec(x.dtype, (*outer, channels * r * r, height // r, width // r))


def _unshuffle(a: Attributes, x: Array) -> Array:
    *outer, channels, height, width = x.shape
    r, n = a.factor, len(outer)
    split_ = x.reshape(*outer, channels, height // r, r, width // r, r)
    order = (*range(n), n, n + 2, n + 4, n + 1, n + 3)
    return split_.transpose(order).reshape(*outer, channels * r * r, height // r, width // r)


def _onnx_depth_to_space(g: Builder, call: Call) -> Any:
    x, r = call.value(0), call.plain("blocksize")
    if call.plain("mode", "DCR") != "CRD":  # the position in a block before the channel
        x = _swapped(g, x, lambda channels: (r * r, channels // (r * r)))
    return g.emit("pixel_shuffle", x, factor=r)


def _onnx_space_to_depth(g: Builder, call: Call) -> Any:
    deep = g.emit("pixel_unshuffle", call.value(0), factor=(r := call.plain("blocksize")))
    return _swapped(g, deep, lambda channels: (channels // (r * r), r * r))


def _swapped(g: Builder, x: Any, split: Callable[[int], tuple[int, int]]) -> Any:
    """x [n, a b, h, w] with its channels in the order [b, a]."""
    channels = g.shape(x)[1]
    if channels is None:
        raise UnsupportedError("with a number of channels that depends on the input")
    sides = [g.size(x, at) for at in range(4)]
    wide = g.emit("reshape", x, shape=[sides[0], *split(channels), sides[2], sides[3]])
    return g.emit("reshape", g.emit("permute", wide, axes=[0, 2, 1, 3, 4]), shape=sides)


register(
    "pixel_shuffle",
    computes="channels [c r r, h, w] to pixels [c, h r, w r]",
    attributes={"factor": integer(1, 1 << 12)},
    infer=_shuffled,
    reference=_shuffle,
    workspace=0,
    aten={"pixel_shuffle": aten("pixel_shuffle", factor="upscale_factor")},
    onnx={"DepthToSpace": _onnx_depth_to_space},
    to_onnx=lambda writer, node: _write_shuffle(writer, node),
    lowering="shuffle",
)


def _write_shuffle(writer: Writer, node: Node) -> None:
    x = node.inputs[0]
    _images(writer, x)
    given = {"blocksize": node["factor"], "mode": "CRD"}
    writer.add("DepthToSpace", [writer.operand(x)], node.output, **given)


def _write_unshuffle(writer: Writer, node: Node) -> None:
    """ONNX's SpaceToDepth puts the position in a block before the channel: they are swapped."""
    x, r = node.inputs[0], node["factor"]
    _images(writer, x)
    channels = writer.spec(x).shape[1]
    deep = writer.add("SpaceToDepth", [writer.operand(x)], blocksize=r)
    wide = writer.constant(np.array([0, r * r, channels, -1], np.int64))
    turned = writer.add("Transpose", [writer.add("Reshape", [deep, wide])], perm=[0, 2, 1, 3])
    writer.add("Reshape", [turned, writer.add("Shape", [deep])], node.output)


def _images(writer: Writer, x: Operand) -> None:
    if writer.spec(x).ndim != 4:
        raise UnsupportedError("ONNX takes images with a batch only")


register(
    "pixel_unshuffle",
    computes="the inverse of pixel_shuffle",
    attributes={"factor": integer(1, 1 << 12)},
    infer=_unshuffled,
    reference=_unshuffle,
    workspace=0,
    aten={"pixel_unshuffle": aten("pixel_unshuffle", factor="downscale_factor")},
    onnx={"SpaceToDepth": _onnx_space_to_depth},
    to_onnx=_write_unshuffle,
    lowering="shuffle",
)
