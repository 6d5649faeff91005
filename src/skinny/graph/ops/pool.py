"""Pooling over one, two or three spatial axes. The references pool axis after axis."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from skinny.graph.attributes import boolean, integer, window
from skinny.graph.builder import Builder, UnsupportedError
from skinny.graph.errors import require
from skinny.graph.forms import Call, Writer
from skinny.graph.graph import Node
from skinny.graph.ops.conv import onnx_padding, per_axis
from skinny.graph.ops.elementwise import as_float
from skinny.graph.ops.reshape import squeezed, unsqueezed
from skinny.graph.registry import Attributes, register
from skinny.graph.values import Array, Spec

_WINDOWS = {"kernel": window(1), "stride": window(1), "padding": window(0)}


def output_side(side: int, extent: int, stride: int, padding: int, ceil: bool) -> int:
    """How many windows of `extent` fit, as in torch: with `ceil` the last one may stick out, but
    may not begin beyond the image and its leading padding."""
    room = side + 2 * padding - extent
    count = (-(-room // stride) if ceil else room // stride) + 1
    return count - 1 if ceil and (count - 1) * stride >= side + padding else count


def _sides(a: Attributes, x: Spec, dilation: tuple[int, ...]) -> list[int]:
    spatial = len(a.kernel)
    require(x.ndim == spatial + 2, f"needs a batch, channels and {spatial} spatial axes")
    require(len(a.stride) == len(a.padding) == len(dilation) == spatial, "mixes numbers of axes")
    sides = []
    for side, k, s, p, d in zip(x.shape[2:], a.kernel, a.stride, a.padding, dilation, strict=True):
        require(p <= k // 2, "has a padding of more than half its window")
        extent = d * (k - 1) + 1
        require(side > 0, "has an empty image")
        sides.append(output_side(side, extent, s, p, a.ceil))
        require(sides[-1] > 0, "has a window larger than its image")
    return sides


def shrinking_first(sides: tuple[int, ...], made: Sequence[int]) -> list[int]:
    """The spatial axes in an order in which no intermediate result is larger than both ends."""
    return sorted(range(len(sides)), key=lambda i: made[i] / sides[i])


def _over_axis(x: Array, axis: int, windows: list[slice], reduce: Any) -> Array:
    """An axis with one output for each window."""
    every: tuple[Any, ...] = (slice(None),) * axis
    result = np.empty((*x.shape[:axis], len(windows), *x.shape[axis + 1 :]), x.dtype)
    for i, window_ in enumerate(windows):
        result[(*every, i)] = reduce(x[(*every, window_)], axis)
    return result


def _pooled(a: Attributes, x: Array, dilation: tuple[int, ...], join: np.ufunc, fill: float) -> Any:
    """All inputs of each window joined by a ufunc, axis after axis; padding is `fill`. Loops over
    the taps of a window, or over the windows if these are fewer."""
    sides = _sides(a, Spec("", x.shape), dilation)
    for i in shrinking_first(x.shape[2:], sides):
        axis, count, k, s, p, d = (
            i + 2,
            sides[i],
            a.kernel[i],
            a.stride[i],
            a.padding[i],
            dilation[i],
        )
        extent = d * (k - 1) + 1
        widths = [(0, 0)] * x.ndim
        widths[axis] = (p, max(0, (count - 1) * s + extent - x.shape[axis] - p))
        x = np.pad(x, widths, constant_values=fill)
        if count <= k:
            windows = [slice(j * s, j * s + extent, d) for j in range(count)]
            x = _over_axis(x, axis, windows, join.reduce)
            continue
        every = (slice(None),) * axis
        taps = (x[(*every, slice(t * d, t * d + s * (count - 1) + 1, s))] for t in range(k))
        result = next(taps).copy()
        for tap in taps:
            join(result, tap, out=result)
        x = result
    return x


def _max_pool(a: Attributes, x: Array) -> Array:
    return np.asarray(_pooled(a, as_float(x), a.dilation, np.maximum, -np.inf))


def _avg_pool(a: Attributes, x: Array) -> Array:
    total = _pooled(a, np.asarray(x, np.float64), (1,) * len(a.kernel), np.add, 0)
    if a.divisor is not None:
        return np.asarray(total / a.divisor)
    for i, (side, k, s, p) in enumerate(
        zip(x.shape[2:], a.kernel, a.stride, a.padding, strict=True)
    ):
        begin = np.arange(total.shape[i + 2]) * s - p
        if a.count_include_pad:
            count = np.minimum(begin + k, side + p) - begin
        else:
            count = np.minimum(begin + k, side) - np.maximum(begin, 0)
        total /= count.reshape(-1, *[1] * (len(a.kernel) - 1 - i))
    return np.asarray(total)


def _adaptive(a: Attributes, x: Array, reduce: Any) -> Array:
    for i in shrinking_first(x.shape[2:], a.size):
        side, n = x.shape[i + 2], a.size[i]
        windows = [slice(j * side // n, -(-(j + 1) * side // n)) for j in range(n)]
        x = _over_axis(x, i + 2, windows, reduce)
    return x


def _adaptive_shape(a: Attributes, x: Spec) -> Spec:
    spatial = len(a.size)
    require(x.ndim == spatial + 2, f"needs a batch, channels and {spatial} spatial axes")
    require(all(side > 0 for side in x.shape[2:]), "has an empty image")
    return Spec("float32", (*x.shape[:2], *a.size))


# ---- from torch


def _with_batch(g: Builder, x: Any, spatial: int) -> tuple[Any, bool]:
    single = g.rank(x) == spatial + 1
    return (unsqueezed(g, x, (0,)) if single else x), single


def _max_from_aten(spatial: int, *, indices: bool = False) -> Any:
    def emit(g: Builder, call: Call) -> Any:
        x, single = _with_batch(g, call.value("self"), spatial)
        kernel = per_axis(call.plain("kernel_size"), spatial)
        y = g.emit(
            "max_pool",
            x,
            kernel=kernel,
            stride=per_axis(call.plain("stride"), spatial, kernel),
            padding=per_axis(call.plain("padding"), spatial, 0),
            dilation=per_axis(call.plain("dilation"), spatial, 1),
            ceil=bool(call.plain("ceil_mode")),
        )
        y = squeezed(g, y, (0,)) if single else y
        return (y,) if indices else y

    return emit


def _avg_from_aten(spatial: int) -> Any:
    def emit(g: Builder, call: Call) -> Any:
        x, single = _with_batch(g, call.value("self"), spatial)
        kernel = per_axis(call.plain("kernel_size"), spatial)
        y = g.emit(
            "avg_pool",
            x,
            kernel=kernel,
            stride=per_axis(call.plain("stride"), spatial, kernel),
            padding=per_axis(call.plain("padding"), spatial, 0),
            ceil=bool(call.plain("ceil_mode")),
            count_include_pad=bool(call.plain("count_include_pad")),
            divisor=call.plain("divisor_override"),
        )
        return squeezed(g, y, (0,)) if single else y

    return emit


def _adaptive_from_aten(op: str, spatial: int) -> Any:
    def emit(g: Builder, call: Call) -> Any:
        x, single = _with_batch(g, call.value("self"), spatial)
        given = per_axis(call.plain("output_size"), spatial)
        sides = g.shape(x)[2:]
        size = [side if n is None else n for n, side in zip(given, sides, strict=True)]
        y = g.emit(op, x, size=size)
        y = squeezed(g, y, (0,)) if single else y
        return (y, y) if op == "adaptive_max_pool" else y

    return emit


# ---- ONNX


def _from_onnx(op: str) -> Any:
    def emit(g: Builder, call: Call) -> Any:
        kernel = list(call.plain("kernel_shape"))
        spatial = len(kernel)
        stride = list(call.plain("strides", [1] * spatial))
        dilation = list(call.plain("dilations", [1] * spatial))
        largest = op == "max_pool"
        counted = bool(call.plain("count_include_pad", 0))
        given: dict[str, Any] = {"kernel": kernel, "stride": stride,
                                 "ceil": bool(call.plain("ceil_mode", 0))}  # fmt: skip
        if not largest and any(d != 1 for d in dilation):
            raise UnsupportedError("with a dilation")
        fill = float(np.finfo(np.float32).min) if largest else 0.0
        x, padding = onnx_padding(g, call, call.value(0), kernel, stride, dilation, fill)
        uneven = x != call.value(0)
        if not largest and uneven and not counted:
            raise UnsupportedError("with more padding on one side that does not count")
        if any(p > k // 2 for p, k in zip(padding, kernel, strict=True)):
            before = [0, 0, *padding]
            x, padding = g.emit("pad", x, before=before, after=before, value=fill), [0] * spatial
        if largest:
            return g.emit(op, x, padding=padding, dilation=dilation, **given)
        return g.emit(op, x, padding=padding, count_include_pad=counted, **given)

    return emit


def _global(op: str) -> Any:
    def emit(g: Builder, call: Call) -> Any:
        x = call.value(0)
        return g.emit(op, x, size=[1] * (g.rank(x) - 2))

    return emit


def _write_max_pool(writer: Writer, node: Node) -> None:
    writer.add(
        "MaxPool",
        [writer.operand(node.inputs[0], "float32")],
        node.output,
        kernel_shape=list(node["kernel"]),
        strides=list(node["stride"]),
        pads=list(node["padding"]) * 2,
        dilations=list(node["dilation"]),
        ceil_mode=int(node["ceil"]),
    )


def _write_avg_pool(writer: Writer, node: Node) -> None:
    divisor = node["divisor"]
    if divisor is not None and node["ceil"]:
        raise UnsupportedError("ONNX has no average pooling with both a divisor and rounding up")
    counts = node["count_include_pad"] or divisor is not None
    pooled = writer.add(
        "AveragePool",
        [writer.operand(node.inputs[0], "float32")],
        node.output if divisor is None else None,
        kernel_shape=list(node["kernel"]),
        strides=list(node["stride"]),
        pads=list(node["padding"]) * 2,
        ceil_mode=int(node["ceil"]),
        # without padding both settings mean the same; onnxruntime then wants this one
        count_include_pad=int(counts and any(node["padding"])),
    )
    if divisor is not None:
        factor = np.array(math.prod(node["kernel"]) / divisor, np.float32)
        writer.add("Mul", [pooled, writer.constant(factor)], node.output)


def _write_adaptive(op_type: str, reduce: str) -> Any:
    """ONNX has global pooling; sides that divide evenly are plain pooling; others are cut out
    window by window."""

    def write(writer: Writer, node: Node) -> None:
        x, size = node.inputs[0], node["size"]
        name = writer.operand(x, "float32")
        if all(n == 1 for n in size):
            writer.add(f"Global{op_type}", [name], node.output)
            return
        sides = writer.spec(x).shape[2:]
        if all(side % n == 0 for side, n in zip(sides, size, strict=True)):
            kernel = [side // n for side, n in zip(sides, size, strict=True)]
            writer.add(op_type, [name], node.output, kernel_shape=kernel, strides=kernel)
            return
        for i, (side, n) in enumerate(zip(sides, size, strict=True)):
            at, pieces = writer.constant(np.array([2 + i])), []
            for j in range(n):
                limits = [
                    writer.constant(np.array([limit]))
                    for limit in (j * side // n, -(-(j + 1) * side // n))
                ]
                piece = writer.add("Slice", [name, *limits, at])
                pieces.append(writer.add(reduce, [piece, at], keepdims=1))
            last = node.output if i == len(size) - 1 else None
            name = writer.add("Concat", pieces, last, axis=2 + i)

    return write


register(
    "max_pool",
    computes="the largest element of each window; padding never wins",
    attributes={**_WINDOWS, "dilation": window(1), "ceil": boolean},
    infer=lambda a, x: Spec("float32", (*x.shape[:2], *_sides(a, x, a.dilation))),
    reference=_max_pool,
    workspace=28,
    aten={
        **{f"max_pool{n}d": _max_from_aten(n) for n in (1, 2, 3)},
        **{f"max_pool{n}d_with_indices": _max_from_aten(n, indices=True) for n in (2, 3)},
    },
    onnx={"MaxPool": _from_onnx("max_pool")},
    to_onnx=_write_max_pool,
    lowering="pool",
)
register(
    "avg_pool",
    computes="the mean of each window, or its sum divided by `divisor`",
    attributes={
        **_WINDOWS,
        "ceil": boolean,
        "count_include_pad": boolean,
        "divisor": integer(1, 1 << 24).optional(),
    },
    infer=lambda a, x: Spec("float32", (*x.shape[:2], *_sides(a, x, (1,) * len(a.kernel)))),
    reference=_avg_pool,
    workspace=28,
    aten={f"avg_pool{n}d": _avg_from_aten(n) for n in (1, 2, 3)},
    onnx={"AveragePool": _from_onnx("avg_pool")},
    to_onnx=_write_avg_pool,
    lowering="pool",
)
for _op, _word, _op_type, _reduce, _inner in (
    ("adaptive_avg_pool", "averages", "AveragePool", "ReduceMean", (2, 3)),
    ("adaptive_max_pool", "takes the largest of", "MaxPool", "ReduceMax", ()),
):
    register(
        _op,
        computes=f"output i of n {_word} inputs floor(i h / n) to ceil((i + 1) h / n) − 1",
        attributes={"size": window(1)},
        infer=_adaptive_shape,
        reference=(lambda a, x: _adaptive(a, np.asarray(x, np.float64), np.mean))
        if _op == "adaptive_avg_pool"
        else (lambda a, x: _adaptive(a, as_float(x), np.max)),
        workspace=28,
        aten={
            **{f"{_op}{n}d": _adaptive_from_aten(_op, n) for n in (1, 2, 3)},
            **{f"_{_op}{n}d": _adaptive_from_aten(_op, n) for n in _inner},
        },
        onnx={f"Global{_op_type}": _global(_op)},
        to_onnx=_write_adaptive(_op_type, _reduce),
        lowering="pool",
    )
