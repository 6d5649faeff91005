"""Other shapes of the same elements: reshaping, permuting axes, expanding."""

import math
from typing import Any

import numpy as np

from skinny.graph.attributes import axes, axis, sizes
from skinny.graph.builder import Builder
from skinny.graph.errors import require
from skinny.graph.forms import Call, Writer, aten
from skinny.graph.graph import Node
from skinny.graph.registry import Attributes, register
from skinny.graph.values import Array, Shape, Spec, axes_of, axis_of


def _reshaped(wish: Shape, x: Spec) -> Shape:
    known = math.prod(side for side in wish if side != -1)
    require(wish.count(-1) <= 1, f"leaves more than one size free: {list(wish)}")
    if -1 in wish:
        require(known > 0 and x.size % known == 0, f"cannot be reshaped to {list(wish)}")
        return tuple(x.size // known if side == -1 else side for side in wish)
    require(known == x.size, f"cannot be reshaped to {list(wish)}")
    return wish


def _write_reshape(writer: Writer, node: Node) -> None:
    source = node.inputs[0]
    if any(isinstance(side, str) or side == 0 for side in node["shape"]):
        shape, zero = writer.sizes(node["shape"], source), {"allowzero": 1}
    else:  # ONNX writes 0 for a size that stays
        sides = [0 if side is None else side for side in node["shape"]]
        shape, zero = writer.constant(np.array(sides, np.int64)), {}
    writer.add("Reshape", [writer.operand(source), shape], node.output, **zero)


def reshape_to(g: Builder, x: Any, wish: tuple[Any, ...]) -> Any:
    """Emits a reshape, writing sizes that stay where they were as null."""
    before = g.shape(x)
    kept = tuple(
        None if isinstance(side, str) and at < len(before) and _same_size(g, x, at, side) else side
        for at, side in enumerate(wish)
    )
    if kept == before and None not in before:
        return x
    return g.emit("reshape", x, shape=kept)


def _same_size(g: Builder, x: Any, at: int, side: str) -> bool:
    """Is the value `side` the size of axis `at` of x, whatever the free sizes are?"""
    return all(s.specs[x].shape[at] == _single(s.constants.get(side)) for s in g.samples)


def _single(array: Array | None) -> int | None:
    return int(array.reshape(())) if array is not None and array.size == 1 else None


def _sizes_after(g: Builder, x: Any) -> list[int | str]:
    return [g.size(x, at) for at in range(g.rank(x))]


def _unsqueeze(g: Builder, call: Call) -> Any:
    x = call.value("self")
    return unsqueezed(g, x, (call.plain("dim"),))


def unsqueezed(g: Builder, x: Any, at: tuple[int, ...]) -> Any:
    rank = g.rank(x) + len(at)
    new = sorted(axis_of(i, rank) for i in at)
    wish = _sizes_after(g, x)
    for i in new:
        wish.insert(i, 1)
    return reshape_to(g, x, tuple(wish))


def squeezed(g: Builder, x: Any, at: tuple[int, ...] | None) -> Any:
    shape = g.shape(x)
    gone = {i for i in axes_of(at, len(shape)) if shape[i] == 1}
    return reshape_to(g, x, tuple(s for i, s in enumerate(_sizes_after(g, x)) if i not in gone))


def _squeeze(g: Builder, call: Call) -> Any:
    given = call.plain("dim")
    return squeezed(g, call.value("self"), (given,) if isinstance(given, int) else given)


def _onnx_axes(call: Call) -> tuple[int, ...] | None:
    given = call.plain(1) if call.has(1) else call.plain("axes")
    return None if given is None else tuple(int(i) for i in np.ravel(given))


def flattened(g: Builder, x: Any, start: int, end: int) -> Any:
    if start == end and g.rank(x) > 0:
        return x
    wish = _sizes_after(g, x)
    inner = wish[start : end + 1]
    free = [side for side in (*wish[:start], *wish[end + 1 :]) if isinstance(side, str)]
    joined: int | str = -1
    if all(isinstance(side, int) for side in inner):
        joined = math.prod(side for side in inner if isinstance(side, int))
    elif len(free) and not all(_stays(g, x, at, start, end) for at in range(len(wish))):
        joined = inner[0]
        for side in inner[1:]:
            joined = g.emit("mul", joined, side)
    return reshape_to(g, x, (*wish[:start], joined, *wish[end + 1 :]))


def _stays(g: Builder, x: Any, at: int, start: int, end: int) -> bool:
    """Whether axis `at` can be written as itself after flattening [start, end]: -1 is then free."""
    return at < start or at <= end or g.shape(x)[at] is not None


def _onnx_flatten(g: Builder, call: Call) -> Any:
    x, at = call.value(0), call.plain("axis", 1)
    at = axis_of(at, g.rank(x) + 1)
    outer = g.emit("reshape", x, shape=(1, -1)) if at == 0 else None
    if outer is not None:
        return outer
    x = flattened(g, x, at, g.rank(x) - 1) if at < g.rank(x) else unsqueezed(g, x, (at,))
    return flattened(g, x, 0, at - 1)


def _view(g: Builder, call: Call) -> Any:
    wish = call.plain("size") if call.has("size") else call.plain("shape")
    return reshape_to(g, call.value("self"), tuple(wish))


def _as_other(g: Builder, call: Call) -> Any:
    return reshape_to(g, call.value("self"), tuple(_sizes_after(g, call.value("other"))))


def _flatten(g: Builder, call: Call) -> Any:
    x = call.value("self")
    rank = g.rank(x)
    if rank == 0:
        return g.emit("reshape", x, shape=(1,))
    start, end = (axis_of(call.plain(name), rank) for name in ("start_dim", "end_dim"))
    return flattened(g, x, start, end)


def _unflatten(g: Builder, call: Call) -> Any:
    x = call.value("self")
    wish, at = _sizes_after(g, x), axis_of(call.plain("dim"), g.rank(x))
    return reshape_to(g, x, (*wish[:at], *call.plain("sizes"), *wish[at + 1 :]))


def _onnx_reshape(g: Builder, call: Call) -> Any:
    x = call.value(0)
    wish = call.plain(1)
    if call.plain("allowzero", 0):
        return g.emit("reshape", x, shape=tuple(wish))
    sides = _sizes_after(g, x)
    # zero keeps the size
    return reshape_to(g, x, tuple(sides[i] if s == 0 else s for i, s in enumerate(wish)))


register(
    "reshape",
    computes="x with other sizes: null keeps the size of that axis, −1 takes what is left",
    attributes={"shape": sizes(-1)},
    infer=lambda a, x: Spec(x.dtype, _reshaped(a.shape, x)),
    reference=lambda a, x: x.reshape(a.shape),
    workspace=0,
    aten={
        "view": _view,
        "reshape": _view,
        "_unsafe_view": _view,
        **dict.fromkeys(("view_as", "reshape_as"), _as_other),
        "flatten": _flatten,
        "unflatten": _unflatten,
        "unsqueeze": _unsqueeze,
        "squeeze": _squeeze,
    },
    onnx={
        "Reshape": _onnx_reshape,
        "Flatten": _onnx_flatten,
        "Squeeze": lambda g, call: squeezed(g, call.value(0), _onnx_axes(call)),
        "Unsqueeze": lambda g, call: unsqueezed(g, call.value(0), _onnx_axes(call) or ()),
    },
    to_onnx=_write_reshape,
    lowering="reshape",
)


def _flat_shape(a: Attributes, x: Spec) -> Spec:
    start, end = axis_of(a.start, x.ndim), axis_of(a.end, x.ndim)
    require(start <= end, "flattens from a later axis to an earlier one")
    joined = math.prod(x.shape[start : end + 1])
    return Spec(x.dtype, (*x.shape[:start], joined, *x.shape[end + 1 :]))


def _write_flatten(writer: Writer, node: Node) -> None:
    shape = list(writer.spec(node.output).shape)
    start = node["start"] % writer.spec(node.inputs[0]).ndim
    sides = [0] * start + [-1] + shape[start + 1 :]
    writer.add(
        "Reshape",
        [writer.operand(node.inputs[0]), writer.constant(np.array(sides, np.int64))],
        node.output,
    )


register(
    "flatten",
    computes="the axes start to end as one",
    attributes={"start": axis, "end": axis},
    infer=_flat_shape,
    reference=lambda a, x: x.reshape(_flat_shape(a, Spec("", x.shape)).shape),
    workspace=0,
    to_onnx=_write_flatten,
    lowering="reshape",
)


def _transposed(g: Builder, call: Call) -> Any:
    x = call.value("self")
    order = list(range(g.rank(x)))
    first, second = (axis_of(call.plain(n), len(order)) for n in ("dim0", "dim1"))
    order[first], order[second] = order[second], order[first]
    return g.emit("permute", x, axes=order)


def _reverse(g: Builder, call: Call) -> Any:
    x = call.value("self")
    return g.emit("permute", x, axes=list(reversed(range(g.rank(x)))))


def _onnx_transpose(g: Builder, call: Call) -> Any:
    x = call.value(0)
    order = call.plain("perm", list(reversed(range(g.rank(x)))))
    return g.emit("permute", x, axes=list(order))


def _permuted(a: Attributes, x: Spec) -> Spec:
    require(sorted(axes_of(a.axes, x.ndim)) == list(range(x.ndim)), "does not name every axis")
    return Spec(x.dtype, tuple(x.shape[i] for i in axes_of(a.axes, x.ndim)))


register(
    "permute",
    computes="the axes of x in another order",
    attributes={"axes": axes},
    infer=_permuted,
    reference=lambda a, x: x.transpose(a.axes),
    workspace=0,
    aten={
        "permute": aten("permute", axes="dims"),
        "transpose": _transposed,
        "t": _reverse,
    },
    onnx={"Transpose": _onnx_transpose},
    to_onnx=lambda writer, node: _write_permute(writer, node),
    lowering="view",
)


def _write_permute(writer: Writer, node: Node) -> None:
    x = node.inputs[0]
    order = list(axes_of(node["axes"], writer.spec(x).ndim))
    given = {"perm": order} if order else {}
    writer.add("Transpose", [writer.operand(x)], node.output, **given)


def _expanded(a: Attributes, x: Spec) -> Spec:
    wish, offset = a.shape, len(a.shape) - x.ndim
    require(offset >= 0, f"cannot expand to fewer axes: {list(wish)}")
    made = tuple(
        x.shape[at - offset] if side == -1 and at >= offset else side
        for at, side in enumerate(wish)
    )
    fits = all(side in (1, made[at + offset]) for at, side in enumerate(x.shape))
    require(fits and -1 not in made, f"cannot expand to {list(wish)}")
    return Spec(x.dtype, made)


def _onnx_expand(g: Builder, call: Call) -> Any:
    """ONNX broadcasts both ways: a 1 in the shape keeps the input's size."""
    x, wish = call.value(0), list(call.plain(1))
    offset = len(wish) - g.rank(x)
    if offset < 0:
        wish, offset = [1] * -offset + wish, 0
    kept = [-1 if side == 1 and at >= offset else side for at, side in enumerate(wish)]
    return g.emit("expand", x, shape=kept)


def _like(g: Builder, x: Any, other: Any) -> Any:
    return g.emit("expand", x, shape=_sizes_after(g, other))


def _copied(g: Builder, call: Call) -> Any:
    """What x becomes when another value is written over it."""
    target, source = call.value("self"), call.value("src")
    wide, kind = _like(g, source, target), g.spec(target).dtype
    return wide if g.spec(wide).dtype == kind else g.emit("cast", wide, dtype=kind)


register(
    "expand",
    computes="x broadcast to a shape; −1 keeps the size of that axis",
    attributes={"shape": sizes(-1)},
    infer=_expanded,
    reference=lambda a, x: np.broadcast_to(x, _expanded(a, Spec("", x.shape)).shape),
    workspace=0,
    aten={
        "expand": lambda g, call: g.emit("expand", call.value("self"), shape=call.plain("size")),
        "expand_as": lambda g, call: _like(g, call.value("self"), call.value("other")),
        "copy": _copied,
    },
    onnx={"Expand": _onnx_expand},
    to_onnx=lambda writer, node: _write_expand(writer, node),
    lowering="view",
)


def _write_expand(writer: Writer, node: Node) -> None:
    sides = tuple(1 if side == -1 else side for side in node["shape"])
    shape = writer.sizes(sides, node.inputs[0])
    writer.add("Expand", [writer.operand(node.inputs[0]), shape], node.output)
