"""Images of another size: nearest, linear and cubic interpolation."""

import math
from typing import Any

import numpy as np

from skinny.graph.attributes import Attribute, boolean, choice, is_number, sizes
from skinny.graph.builder import Builder, UnsupportedError
from skinny.graph.errors import require
from skinny.graph.forms import Call, Writer
from skinny.graph.graph import Node
from skinny.graph.ops.pool import shrinking_first
from skinny.graph.registry import Attributes, register
from skinny.graph.values import Array, Spec

_SCALES = Attribute(
    "a positive number for each spatial axis",
    lambda v: (
        isinstance(v, tuple)
        and len(v) <= 3
        and all(is_number(item) and 0 < item < 1 << 16 for item in v)
    ),
).optional()


def _shape(a: Attributes, x: Spec) -> Spec:
    spatial = x.ndim - 2
    require(1 <= spatial <= 3, "needs a batch, channels and one to three spatial axes")
    require(len(a.size) == spatial, "needs a size for each spatial axis")
    require(all(side > 0 for side in (*a.size, *x.shape[2:])), "has an empty axis")
    require(a.scales is None or len(a.scales) == spatial, "needs a scale for each spatial axis")
    require(not (a.align_corners and a.mode == "nearest"), "aligns corners without interpolating")
    require(x.is_float or a.mode == "nearest", "interpolates floats only")
    return Spec(x.dtype, (*x.shape[:2], *a.size))


def _positions(a: Attributes, at: int, side: int, made: int) -> Array:
    """Where each output lies among the inputs."""
    outputs = np.arange(made, dtype=np.float64)
    if a.align_corners:
        return np.asarray(outputs * ((side - 1) / (made - 1) if made > 1 else 0.0))
    stride = 1 / a.scales[at] if a.scales is not None else side / made
    if a.mode == "nearest":
        return np.asarray(np.floor(np.float32(outputs * np.float32(stride))))
    return np.asarray((outputs + 0.5) * stride - 0.5)


def _cubic(t: Array, a: float = -0.75) -> list[Array]:
    """The weights of four neighbours at distance t after the second."""

    def near(x: Array) -> Array:
        return ((a + 2) * x - (a + 3)) * x * x + 1

    def far(x: Array) -> Array:
        return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a

    return [far(t + 1), near(t), near(1 - t), far(2 - t)]


def taps(a: Attributes, at: int, side: int, made: int) -> list[tuple[Array, Array]]:
    """Each output as a weighted sum of inputs: their indices and weights, [made] each."""
    where = np.clip(_positions(a, at, side, made), -2, side + 2)
    if a.mode == "nearest":
        return [(np.clip(where, 0, side - 1).astype(int), np.ones(made))]
    if a.mode == "linear":
        where = np.clip(where, 0, side - 1)
    low = np.floor(where).astype(int)
    distance = where - low
    weights = [1 - distance, distance] if a.mode == "linear" else _cubic(distance)
    first = low if a.mode == "linear" else low - 1
    return [(np.clip(first + i, 0, side - 1), weight) for i, weight in enumerate(weights)]


def _resize(a: Attributes, x: Array) -> Array:
    for at in shrinking_first(x.shape[2:], a.size):
        found = taps(a, at, x.shape[2 + at], a.size[at])
        if a.mode == "nearest":
            x = x.take(found[0][0], 2 + at)
            continue
        column = (-1, *[1] * (x.ndim - 3 - at))
        x = np.asarray(
            sum(x.take(index, 2 + at) * weight.reshape(column) for index, weight in found),
            np.float32,
        )
    return x


def _resize_workspace(a: Attributes, x: Spec) -> int:
    """Sums in float64, and for the outputs of one axis their positions, indices and weights."""
    largest = max(x.size, math.prod((*x.shape[:2], *a.size)))
    return int(32 * largest + 96 * max(a.size))


def _from_aten(mode: str, spatial: int) -> Any:
    def emit(g: Builder, call: Call) -> Any:
        x = call.value("self") if call.has("self") else call.value("input")
        scales = _scales(call, spatial)
        sides = g.shape(x)[2:]
        if call.has("output_size"):
            size = list(call.plain("output_size"))
        else:
            assert scales is not None  # torch has one or the other
            size = [_scaled(g, x, i, side, scales[i]) for i, side in enumerate(sides)]
        # torch interpolates by the given factor where there is one, else by the ratio of sizes
        exact = scales is None or all(
            side is not None and n == side * s
            for n, side, s in zip(size, sides, scales, strict=True)
        )
        corners = bool(call.plain("align_corners")) if call.has("align_corners") else False
        return g.emit("resize", x, size=size, mode=mode, align_corners=corners,
                      scales=None if exact or corners else scales)  # fmt: skip

    return emit


def _scales(call: Call, spatial: int) -> list[float] | None:
    if call.has("scale_factors"):
        return [float(s) for s in call.plain("scale_factors")]
    names = {1: ("scales",), 2: ("scales_h", "scales_w"), 3: ("scales_d", "scales_h", "scales_w")}
    given = [call.plain(n) if call.has(n) else None for n in names[spatial]]
    scales = [float(scale) for scale in given if scale is not None]
    return scales if len(scales) == len(given) else None


def _scaled(g: Builder, x: Any, i: int, side: int | None, scale: float) -> Any:
    if side is not None:
        return math.floor(side * scale)
    if scale != int(scale):
        raise UnsupportedError("by a broken factor where sizes are free")
    return g.emit("mul", g.size(x, 2 + i), int(scale))


def _from_onnx(g: Builder, call: Call) -> Any:
    x = call.value(0)
    mode = call.plain("mode", "nearest")
    form = call.plain("coordinate_transformation_mode", "half_pixel")
    corners = form == "align_corners"
    nearest = mode == "nearest"
    if nearest:
        rounding = call.plain("nearest_mode", "round_prefer_floor")
        usual = form == "asymmetric" and rounding == "floor"
    else:
        usual = form in ("half_pixel", "pytorch_half_pixel", "align_corners")
    if call.plain("opset") < 11 or call.plain("antialias", 0):
        raise UnsupportedError("of an old operator set, or with antialiasing")
    scales = [float(s) for s in call.plain(2)] if call.has(2) and call.shape(2) != (0,) else None
    sides = g.shape(x)
    whole = scales is not None and all(s == int(s) for s in scales)
    if nearest and not usual and whole and form in ("half_pixel", "asymmetric"):
        usual = True  # whole factors give the same pixels whatever is rounded
    if not usual or (mode == "cubic" and call.plain("cubic_coeff_a", -0.75) != -0.75):
        raise UnsupportedError(f"by {mode} with {form} coordinates")
    if scales is not None:
        size = [_scaled(g, x, i, sides[2 + i], s) for i, s in enumerate(scales[2:])]
        given: list[float] | None = scales[2:]
        inner = zip(size, sides[2:], scales[2:], strict=True)
        if corners or all(side is not None and n == side * s for n, side, s in inner):
            given = None
    else:
        size, given = list(call.plain(3))[2:], None
    return g.emit("resize", x, size=size, mode=mode, align_corners=corners, scales=given)


def _write(writer: Writer, node: Node) -> None:
    x = node.inputs[0]
    if node["mode"] == "nearest":
        form = "asymmetric"
    else:
        form = "align_corners" if node["align_corners"] else "pytorch_half_pixel"
    given: dict[str, Any] = {"mode": node["mode"], "coordinate_transformation_mode": form}
    if node["mode"] == "nearest":
        given["nearest_mode"] = "floor"
    if node["mode"] == "cubic":
        given["cubic_coeff_a"] = -0.75
    inputs = [writer.operand(x), "", ""]
    if node["scales"] is not None:
        scales = np.array([1, 1, *node["scales"]], np.float32)
        inputs = [inputs[0], "", writer.constant(scales)]
    else:
        inputs.append(writer.sizes((None, None, *node["size"]), x))
    writer.add("Resize", inputs, node.output, **given)


_ATEN = {
    **{f"upsample_nearest{n}d": _from_aten("nearest", n) for n in (1, 2, 3)},
    "upsample_linear1d": _from_aten("linear", 1),
    "upsample_bilinear2d": _from_aten("linear", 2),
    "upsample_trilinear3d": _from_aten("linear", 3),
    "upsample_bicubic2d": _from_aten("cubic", 2),
}
register(
    "resize",
    computes="the spatial axes at other sizes. Output i lies at (i + 1/2) / scale − 1/2 (nearest: "
    "floor(i / scale)), or, if align_corners, at i (inputs − 1) / (outputs − 1); scale is the "
    "ratio of sizes unless given. Cubic: a = −0.75",
    attributes={
        "size": sizes(1, most=3),
        "mode": choice("nearest", "linear", "cubic"),
        "align_corners": boolean.with_default(False),
        "scales": _SCALES,
    },
    infer=_shape,
    reference=_resize,
    workspace=_resize_workspace,
    aten=_ATEN,
    onnx={"Resize": _from_onnx},
    to_onnx=_write,
    lowering="resize",
)
