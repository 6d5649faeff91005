"""Values put together: concatenated, padded, repeated, flipped."""

from typing import Any

import numpy as np

from skinny.graph.attributes import axes, axis, choice, number, sizes
from skinny.graph.builder import Builder, UnsupportedError
from skinny.graph.errors import require
from skinny.graph.forms import Call, Writer, aten, to_onnx
from skinny.graph.graph import MOST_OPERANDS, Node
from skinny.graph.ops.reshape import flattened, unsqueezed
from skinny.graph.registry import Attributes, register
from skinny.graph.values import Array, Spec, as_array, axes_of, axis_of, promoted


def _concatenated(a: Attributes, *x: Spec) -> Spec:
    at = axis_of(a.axis, x[0].ndim)
    rest = {(*spec.shape[:at], *spec.shape[at + 1 :]) for spec in x}
    require(len({spec.ndim for spec in x}) == 1 and len(rest) == 1, "joins shapes that do not fit")
    total = sum(spec.shape[at] for spec in x)
    return Spec(promoted(*x), (*x[0].shape[:at], total, *x[0].shape[at + 1 :]))


def _stack(g: Builder, call: Call) -> Any:
    values = call.values("tensors")
    at = axis_of(call.plain("dim", 0), g.rank(values[0]) + 1)
    return g.emit("concat", *(unsqueezed(g, value, (at,)) for value in values), axis=at)


def _cat(g: Builder, call: Call) -> Any:
    # torch lets an empty vector be joined with anything
    values = [v for v in call.values("tensors") if g.shape(v) != (0,)]
    return g.emit("concat", *values, axis=call.plain("dim", 0))


register(
    "concat",
    computes="the inputs joined along an axis",
    inputs=(1, MOST_OPERANDS),
    attributes={"axis": axis},
    infer=_concatenated,
    reference=lambda a, *x: np.concatenate([np.asarray(value) for value in x], a.axis),
    aten={"cat": _cat, "concat": _cat, "stack": _stack},
    onnx={"Concat": lambda g, call: g.emit("concat", *call.values(0), axis=call.plain("axis"))},
    to_onnx=to_onnx("Concat", axis="axis"),
    lowering="concat",
)


def _pad_widths(a: Attributes, rank: int) -> list[tuple[int, int]]:
    require(len(a.before) == len(a.after) == rank, "needs a padding for every axis")
    return list(zip(a.before, a.after, strict=True))


def _padded(a: Attributes, x: Spec) -> Spec:
    widths = _pad_widths(a, x.ndim)
    shape = tuple(b + side + e for side, (b, e) in zip(x.shape, widths, strict=True))
    if a.mode != "constant":
        most = [max(b, e) for b, e in widths]
        require(all(min(b, e) >= 0 for b, e in widths), "crops what it does not fill with numbers")
        fits = all(
            more < side or more == 0 or (a.mode == "replicate" and side > 0)
            for side, more in zip(x.shape, most, strict=True)
        )
        require(fits, "takes more from the input than it has")
    else:
        left = [(side + min(0, b), min(0, e)) for side, (b, e) in zip(x.shape, widths, strict=True)]
        require(all(side + e >= 0 for side, e in left), "crops more than the input has")
    return Spec(x.dtype, shape)


def _pad_reference(a: Attributes, x: Array) -> Array:
    """Negative widths crop, as in torch."""
    widths = _pad_widths(a, x.ndim)
    crop = tuple(slice(max(0, -b), x.shape[i] - max(0, -e)) for i, (b, e) in enumerate(widths))
    grow = [(max(0, b), max(0, e)) for b, e in widths]
    if a.mode == "constant":
        return np.pad(x[crop], grow, constant_values=as_array(a.value, str(x.dtype)))
    return np.pad(x[crop], grow, mode="reflect" if a.mode == "reflect" else "edge")


def _pad_from_aten(mode: str | None = None) -> Any:
    def emit(g: Builder, call: Call) -> Any:
        x, given = call.value("self"), list(call.plain("padding" if mode else "pad"))
        filling = mode or call.plain("mode", "constant")
        if filling == "circular":
            return _pad_circular(g, x, given)
        before, after = [0] * g.rank(x), [0] * g.rank(x)
        for i in range(len(given) // 2):  # the last axis first
            before[-1 - i], after[-1 - i] = given[2 * i], given[2 * i + 1]
        value = call.plain("value", 0) if filling == "constant" else 0
        return g.emit("pad", x, before=before, after=after, mode=filling, value=value or 0)

    return emit


def _pad_circular(g: Builder, x: Any, given: list[Any]) -> Any:
    for i in range(len(given) // 2):
        at, (before, after) = g.rank(x) - 1 - i, given[2 * i : 2 * i + 2]
        pieces = [x]
        if before:
            pieces.insert(0, g.emit("slice", x, axis=at, start=-before))
        if after:
            pieces.append(g.emit("slice", x, axis=at, end=after))
        x = g.emit("concat", *pieces, axis=at)
    return x


def _onnx_pad(g: Builder, call: Call) -> Any:
    x = call.value(0)
    widths = list(call.plain(1) if call.has(1) else call.plain("pads"))
    value = float(call.plain(2)) if call.has(2) else call.plain("value", 0.0)
    half = len(widths) // 2
    at = [axis_of(int(i), g.rank(x)) for i in call.plain(3)] if call.has(3) else range(half)
    before, after = [0] * g.rank(x), [0] * g.rank(x)
    for i, where in enumerate(at):
        before[where], after[where] = widths[i], widths[half + i]
    mode = {"edge": "replicate"}.get(call.plain("mode", "constant"), call.plain("mode", "constant"))
    return g.emit("pad", x, before=before, after=after, mode=mode, value=value)


def _write_pad(writer: Writer, node: Node) -> None:
    mode = {"replicate": "edge"}.get(node["mode"], node["mode"])
    widths = writer.sizes((*node["before"], *node["after"]), node.inputs[0])
    inputs = [writer.operand(node.inputs[0]), widths]
    if mode == "constant":
        inputs.append(writer.constant(as_array(node["value"], writer.spec(node.output).dtype)))
    writer.add("Pad", inputs, node.output, mode=mode)


register(
    "pad",
    computes="x with `before` and `after` elements added to each axis, which are `value`, or x "
    "reflected or its edge replicated; negative numbers crop a constant padding",
    attributes={
        "before": sizes(-(2**31)),
        "after": sizes(-(2**31)),
        "mode": choice("constant", "reflect", "replicate").with_default("constant"),
        "value": number.with_default(0),
    },
    infer=_padded,
    reference=_pad_reference,
    aten={
        "pad": _pad_from_aten(),
        "constant_pad_nd": lambda g, call: _pad_from_aten()(g, call),
        **{f"reflection_pad{n}d": _pad_from_aten("reflect") for n in (1, 2, 3)},
        **{f"replication_pad{n}d": _pad_from_aten("replicate") for n in (1, 2, 3)},
    },
    onnx={"Pad": _onnx_pad},
    to_onnx=_write_pad,
    lowering="pad",
)
register(
    "flip",
    computes="x with the order of some axes reversed",
    attributes={"axes": axes},
    infer=lambda a, x: (axes_of(a.axes, x.ndim), Spec(x.dtype, x.shape))[1],
    reference=lambda a, x: np.flip(x, a.axes),
    workspace=0,
    aten={"flip": aten("flip", axes="dims")},
    to_onnx=lambda writer, node: _write_flip(writer, node),
    lowering="flip",
)


def _write_flip(writer: Writer, node: Node) -> None:
    count = len(node["axes"])
    columns = ([-1] * count, [-(2**31)] * count, list(node["axes"]), [-1] * count)
    limits = [writer.constant(np.array(column, np.int64)) for column in columns]
    writer.add("Slice", [writer.operand(node.inputs[0]), *limits], node.output)


def _roll(g: Builder, call: Call) -> Any:
    """The last `shift` elements come first."""
    x = call.value("self")
    shifts, at = list(call.plain("shifts")), list(call.plain("dims") or [])
    if not at:
        raise UnsupportedError("over the flattened input")
    for shift, axis_ in zip(shifts, at, strict=True):
        length = g.shape(x)[axis_]
        if not isinstance(shift, int):
            raise UnsupportedError("by a number that depends on the input")
        cut: int | str
        if length is not None:
            cut = length - shift % length
        else:
            size_ = g.size(x, axis_)
            cut = g.emit("sub", size_, g.emit("remainder", shift, size_))
        last = g.emit("slice", x, axis=axis_, start=cut)
        rest = g.emit("slice", x, axis=axis_, end=cut)
        x = g.emit("concat", last, rest, axis=axis_)
    return x


def _tiled(a: Attributes, x: Spec) -> Spec:
    require(len(a.repeats) >= x.ndim, "has fewer repeats than axes")
    shape = (1,) * (len(a.repeats) - x.ndim) + x.shape
    return Spec(x.dtype, tuple(n * side for n, side in zip(a.repeats, shape, strict=True)))


def _repeat_interleave(g: Builder, call: Call) -> Any:
    x, count, at = call.value("self"), call.plain("repeats"), call.plain("dim")
    if at is None or not isinstance(count, int):
        raise UnsupportedError("over the flattened input, or by a tensor")
    at = axis_of(at, g.rank(x))
    wide = unsqueezed(g, x, (at + 1,))
    repeats = [1] * g.rank(wide)
    repeats[at + 1] = count
    return flattened(g, g.emit("tile", wide, repeats=repeats), at, at + 1)


register(
    "tile",
    computes="x repeated along each axis, missing leading axes being 1",
    attributes={"repeats": sizes(0)},
    infer=_tiled,
    reference=lambda a, x: np.tile(x, a.repeats),
    aten={
        "repeat": aten("tile", repeats="repeats"),
        "tile": lambda g, call: _tile(g, call),
        "repeat_interleave": _repeat_interleave,
        "roll": _roll,
    },
    onnx={"Tile": lambda g, call: g.emit("tile", call.value(0), repeats=call.plain(1))},
    to_onnx=lambda writer, node: _write_tile(writer, node),
    lowering="tile",
)


def _tile(g: Builder, call: Call) -> Any:
    x, given = call.value("self"), list(call.plain("dims"))
    return g.emit("tile", x, repeats=[1] * (g.rank(x) - len(given)) + given)


def _write_tile(writer: Writer, node: Node) -> None:
    x, count = node.inputs[0], len(node["repeats"])
    name, missing = writer.operand(x), count - writer.spec(x).ndim
    if missing:
        new = writer.constant(np.arange(missing))
        name = writer.add("Unsqueeze", [name, new])
    writer.add("Tile", [name, writer.sizes(node["repeats"], x)], node.output)
