"""Convolutions over one, two or three spatial axes, and their transposes."""

import math
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from skinny.graph.attributes import LARGEST_WINDOW, integer, tensor, window
from skinny.graph.builder import Builder, UnsupportedError
from skinny.graph.errors import require
from skinny.graph.forms import Call, OnnxCall, Writer
from skinny.graph.graph import Node
from skinny.graph.ops.quantize import int8_layer
from skinny.graph.ops.reshape import squeezed, unsqueezed
from skinny.graph.registry import Attributes, register
from skinny.graph.values import Array, Shape, Spec

_WINDOWS = {
    "weight": tensor(3, 4, 5),
    "bias": tensor(1).optional(),
    "stride": window(1),
    "padding": window(0),
    "dilation": window(1),
    "groups": integer(1, 1 << 16),
}


def per_axis(value: Any, count: int, default: Any = None) -> list[int]:
    """torch writes one number for all axes, and an empty list for the default."""
    if not isinstance(value, int) and not value:
        value = default
    values = [value] if isinstance(value, int) else list(value)
    return values * count if len(values) == 1 else values


def _check(a: Attributes, x: Spec, channels: int) -> int:
    """The number of spatial axes, once everything agrees on it."""
    spatial: int = a.weight.ndim - 2
    require(x.ndim == spatial + 2, f"needs a batch, channels and {spatial} spatial axes")
    require(
        len(a.stride) == len(a.padding) == len(a.dilation) == spatial,
        f"needs a stride, a padding and a dilation for each of {spatial} axes",
    )
    require(x.shape[1] == channels, f"needs {channels} channels")
    require(max(a.weight.shape[2:]) <= LARGEST_WINDOW, "has too large a kernel")
    return spatial


def conv_shape(a: Attributes, x: Spec) -> Spec:
    out, per_group, *kernel = a.weight.shape
    require(out % a.groups == 0, f"cannot split {out} channels into {a.groups} groups")
    require(a.bias is None or a.bias.shape == (out,), f"needs {out} biases")
    _check(a, x, per_group * a.groups)
    sides = []
    for side, k, s, p, d in zip(x.shape[2:], kernel, a.stride, a.padding, a.dilation, strict=True):
        room = side + 2 * p - d * (k - 1) - 1
        require(room >= 0, "has a window larger than its image")
        sides.append(room // s + 1)
    return Spec("float32", (x.shape[0], out, *sides))


def convolve(
    x: Array, weight: Array, stride: Shape, padding: Shape, dilation: Shape, groups: int
) -> Array:
    """Cross-correlation; [n, c, *sides] with weight [out, c / groups, *kernel]."""
    n, channels, *_ = x.shape
    out, _, *kernel = weight.shape
    x = np.pad(x, ((0, 0), (0, 0), *((p, p) for p in padding)))
    sides = [
        (side - d * (k - 1) - 1) // s + 1
        for side, k, s, d in zip(x.shape[2:], kernel, stride, dilation, strict=True)
    ]
    a, b, *spatial = x.strides
    # [n, groups, c / groups, *kernel, *sides]: what each output sees.
    seen = as_strided(
        x,
        (n, groups, channels // groups, *kernel, *sides),
        (a, b * (channels // groups), b,
         *(t * d for t, d in zip(spatial, dilation, strict=True)),
         *(t * s for t, s in zip(spatial, stride, strict=True))),
        writeable=False,
    )  # fmt: skip
    seen = seen.reshape(n, groups, channels // groups * math.prod(kernel), math.prod(sides))
    result = np.matmul(weight.reshape(groups, out // groups, -1), seen)
    precision = np.float64 if weight.dtype == np.float64 else np.float32
    return np.asarray(result.reshape(n, out, *sides), precision)


def windows_bytes(a: Attributes, x: Spec) -> int:
    """The reference spreads out what each output sees, and pads its input."""
    n, _, *sides = conv_shape(a, x).shape
    windows: int = math.prod((*a.weight.shape[2:], *sides))
    padded: int = math.prod(s + 2 * p for s, p in zip(x.shape[2:], a.padding, strict=True))
    return 4 * n * x.shape[1] * (windows + padded)


def _transposed_bytes(a: Attributes, x: Spec) -> int:
    """The transpose: its result before it is cropped, and what one tap or one element adds."""
    n, out = _transpose_shape(a, x).shape[:2]
    added = max(math.prod(x.shape[2:]), math.prod(a.weight.shape[2:]))
    return int(4 * (n * out * (math.prod(_uncropped(a, x.shape)) + 3 * added) + a.weight.size))


def _with_bias(y: Array, bias: Array | None) -> Array:
    return y if bias is None else y + bias.reshape(-1, *[1] * (y.ndim - 2))


def _conv(a: Attributes, x: Array) -> Array:
    return _with_bias(convolve(x, a.weight, a.stride, a.padding, a.dilation, a.groups), a.bias)


def _transpose_shape(a: Attributes, x: Spec) -> Spec:
    channels, per_group, *kernel = a.weight.shape
    out = per_group * a.groups
    spatial = _check(a, x, channels)
    require(channels % a.groups == 0, f"cannot split {channels} channels into {a.groups} groups")
    require(a.bias is None or a.bias.shape == (out,), f"needs {out} biases")
    require(len(a.output_padding) == spatial, "needs an output padding for each axis")
    sides = []
    for side, k, s, p, d, extra in zip(
        x.shape[2:], kernel, a.stride, a.padding, a.dilation, a.output_padding, strict=True
    ):
        made = (side - 1) * s - 2 * p + d * (k - 1) + extra + 1
        require(made > 0, "crops more than there is")
        require(extra < max(s, d), "has an output padding as large as its stride")
        sides.append(made)
    return Spec("float32", (x.shape[0], out, *sides))


def _uncropped(a: Attributes, shape: tuple[int, ...]) -> list[int]:
    """The sides of a transpose's result, with the padding that is cropped."""
    return [
        (side - 1) * s + d * (k - 1) + 1 + extra
        for side, k, s, d, extra in zip(
            shape[2:], a.weight.shape[2:], a.stride, a.dilation, a.output_padding, strict=True
        )
    ]


def _conv_transpose(a: Attributes, x: Array) -> Array:
    """y[o, s p + d t] = sum of weight[c, o, t] x[c, p] over all channels c, elements p of the input
    and taps t of the kernel, then cropped. The loop is over p or over t, whichever are fewer."""
    n, channels, *sides = x.shape
    _, per_group, *kernel = a.weight.shape
    x = x.reshape(n, a.groups, channels // a.groups, *sides)
    weight = a.weight.reshape(a.groups, channels // a.groups, per_group, *kernel)
    whole = np.zeros((n, a.groups, per_group, *_uncropped(a, (n, channels, *sides))), np.float32)
    by_tap = math.prod(kernel) <= math.prod(sides)
    few, many = (kernel, sides) if by_tap else (sides, kernel)
    begin, apart = (a.dilation, a.stride) if by_tap else (a.stride, a.dilation)
    for at in np.ndindex(*few):
        one: tuple[Any, ...] = (..., *at)
        added = (
            np.einsum("gco,ngc...->ngo...", weight[one], x)
            if by_tap
            else np.einsum("gco...,ngc->ngo...", weight, x[one])
        )
        along = zip(at, begin, apart, many, strict=True)
        to: list[Any] = [slice(i * b, i * b + (m - 1) * s + 1, s) for i, b, s, m in along]
        whole[(..., *to)] += added
    ends = zip(a.padding, whole.shape[3:], strict=True)
    crop: list[Any] = [slice(p, side - p) for p, side in ends]
    y = whole[(..., *crop)]
    return _with_bias(y.reshape(n, a.groups * per_group, *y.shape[3:]), a.bias)


# ---- from torch


def _from_aten(g: Builder, call: Call) -> Any:
    x, kernel = call.value("input"), call.shape("weight")[2:]
    spatial = len(kernel)
    stride, dilation = (per_axis(call.plain(n), spatial, 1) for n in ("stride", "dilation"))
    padding = call.plain("padding", 0)
    if padding == "valid":
        padding = 0
    if padding == "same":
        total = [d * (k - 1) for d, k in zip(dilation, kernel, strict=True)]
        if any(side % 2 for side in total):
            before = [0, 0, *(side // 2 for side in total)]
            after = [0, 0, *(side - side // 2 for side in total)]
            x, padding = g.emit("pad", x, before=before, after=after), 0
        else:
            padding = [side // 2 for side in total]
    given = {
        "stride": stride,
        "padding": per_axis(padding, spatial, 0),
        "dilation": dilation,
        "groups": call.plain("groups", 1),
    }
    if call.has("transposed") and call.plain("transposed"):
        extra = per_axis(call.plain("output_padding", 0), spatial, 0)
        return _layer(g, call, x, "conv_transpose", {**given, "output_padding": extra})
    return _layer(g, call, x, "conv", given)


def _transposed_from_aten(g: Builder, call: Call) -> Any:
    spatial = len(call.shape("weight")) - 2
    given = {
        name: per_axis(call.plain(name), spatial, default)
        for name, default in (("stride", 1), ("padding", 0), ("dilation", 1), ("output_padding", 0))
    }
    given["groups"] = call.plain("groups", 1)
    return _layer(g, call, call.value("input"), "conv_transpose", given)


def _layer(g: Builder, call: Call, x: Any, op: str, given: dict[str, Any]) -> Any:
    """Weights must be stored; an image without a batch gets one for a moment."""
    single = g.rank(x) == len(call.shape("weight")) - 1
    if single:
        x = unsqueezed(g, x, (0,))
    bias = call.stored("bias") if call.has("bias") else None
    y = g.emit(op, x, weight=call.stored("weight"), bias=bias, **given)
    return squeezed(g, y, (0,)) if single else y


# ---- ONNX


def onnx_padding(
    g: Builder, call: Call, x: Any, kernel: list[int], stride: list[int], dilation: list[int],
    value: float = 0.0,
) -> tuple[Any, list[int]]:  # fmt: skip
    """The input and a symmetric padding: what is not symmetric is padded first."""
    spatial = len(kernel)
    mode = call.plain("auto_pad", "NOTSET")
    pads = list(call.plain("pads", [0] * 2 * spatial))
    if mode in ("SAME_UPPER", "SAME_LOWER"):
        pads = [0] * 2 * spatial
        for i, side in enumerate(g.shape(x)[2:]):
            if side is None:
                raise UnsupportedError("with a padding that depends on the input's size")
            extent = dilation[i] * (kernel[i] - 1) + 1
            total = max(0, (-(-side // stride[i]) - 1) * stride[i] + extent - side)
            less, more = total // 2, total - total // 2
            upper = mode == "SAME_UPPER"
            pads[i], pads[spatial + i] = (less, more) if upper else (more, less)
    before, after = pads[:spatial], pads[spatial:]
    if before == after and min(before, default=0) >= 0:
        return x, before
    x = g.emit("pad", x, before=[0, 0, *before], after=[0, 0, *after], value=value)
    return x, [0] * spatial


def _from_onnx(g: Builder, call: OnnxCall) -> Any:
    kernel = list(call.shape(1)[2:])
    spatial = len(kernel)
    stride = list(call.plain("strides", [1] * spatial))
    dilation = list(call.plain("dilations", [1] * spatial))
    layer = int8_layer(g, call, call.value(0), axis=0) or {"x": call.value(0)}
    x, padding = onnx_padding(g, call, layer.pop("x"), kernel, stride, dilation)
    return g.emit(
        "conv_int8" if layer else "conv",
        x,
        **{"weight": call.stored(1), **layer},
        bias=call.stored(2) if call.has(2) else None,
        stride=stride,
        padding=padding,
        dilation=dilation,
        groups=call.plain("group", 1),
    )


def _transposed_from_onnx(g: Builder, call: Call) -> Any:
    spatial = len(call.shape(1)) - 2
    if call.plain("auto_pad", "NOTSET") not in ("NOTSET", "VALID") or call.plain("output_shape"):
        raise UnsupportedError("with a padding that follows from the output's shape")
    pads = list(call.plain("pads", [0] * 2 * spatial))
    extra = list(call.plain("output_padding", [0] * spatial))
    before, after = pads[:spatial], pads[spatial:]
    # more cropped at the end than at the beginning: cropped afterwards
    y = g.emit(
        "conv_transpose",
        call.value(0),
        weight=call.stored(1),
        bias=call.stored(2) if call.has(2) else None,
        stride=list(call.plain("strides", [1] * spatial)),
        padding=[min(b, e) for b, e in zip(before, after, strict=True)],
        dilation=list(call.plain("dilations", [1] * spatial)),
        groups=call.plain("group", 1),
        output_padding=extra,
    )
    for i, (b, e) in enumerate(zip(before, after, strict=True)):
        if b > e:
            y = g.emit("slice", y, axis=2 + i, start=b - e)
        if e > b:
            y = g.emit("slice", y, axis=2 + i, end=b - e)
    return y


def _write(op_type: str) -> Any:
    def write(writer: Writer, node: Node) -> None:
        names = [writer.operand(node.inputs[0], "float32"), writer.tensor(node["weight"])]
        if node["bias"] is not None:
            names.append(writer.tensor(node["bias"]))
        extra = (
            {"output_padding": list(node["output_padding"])} if op_type == "ConvTranspose" else {}
        )
        writer.add(
            op_type,
            names,
            node.output,
            strides=list(node["stride"]),
            pads=list(node["padding"]) * 2,
            dilations=list(node["dilation"]),
            group=node["groups"],
            **extra,
        )

    return write


register(
    "conv",
    computes="cross-correlation; weight [o, i/groups, *kernel]",
    attributes=_WINDOWS,
    infer=conv_shape,
    reference=_conv,
    workspace=windows_bytes,
    aten=dict.fromkeys(("conv1d", "conv2d", "conv3d", "convolution"), _from_aten),
    onnx={"Conv": _from_onnx},
    to_onnx=_write("Conv"),
    lowering="conv",
)
register(
    "conv_transpose",
    computes="the transpose (gradient) of a convolution; weight [i, o/groups, *kernel]",
    attributes={**_WINDOWS, "output_padding": window(0)},
    infer=_transpose_shape,
    reference=_conv_transpose,
    workspace=_transposed_bytes,
    aten={f"conv_transpose{n}d": _transposed_from_aten for n in (1, 2, 3)},
    onnx={"ConvTranspose": _transposed_from_onnx},
    to_onnx=_write("ConvTranspose"),
    lowering="conv_transpose",
)
