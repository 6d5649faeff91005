"""Convolutions and pooling of volumes [samples, channels, depth, height, width], as of images.

A convolution is one of images, one for each slice of the result, whose channels are the slices that
the kernel sees of each channel. Pooling goes over rows and columns of all slices, and then over the
slices.
"""

import math

from skinny.graph import Node
from skinny.runtime import strided
from skinny.runtime.convolution import geometry
from skinny.runtime.layout import compact
from skinny.runtime.lowering import images as flat
from skinny.runtime.lowering.chains import Images, convolve, image_view, images
from skinny.runtime.lowering.joining import fill
from skinny.runtime.lowering.stages import Stage, absorb
from skinny.runtime.lowering.views import reshaped
from skinny.runtime.strided import Shape
from skinny.runtime.tensor_plan import Facts, Lowering, TensorPlan, Value

_NONE = {"kernel": 1, "stride": 1, "padding": 0, "dilation": 1}


def _accepts(facts: Facts, node: Node) -> bool:
    spec = facts.spec(node.inputs[0])
    return spec.is_float and spec.ndim in (3, 4, 5)


def _conv(plan: TensorPlan, node: Node) -> None:
    if len(plan.spec(node.output).shape) < 5:
        flat.CONV.lower(plan, node)
        return
    outputs, inputs, depth, height, width = plan.weights.shape(node["weight"])
    shape = (outputs, inputs * depth, height, width)
    stage = absorb(plan, Stage(node["weight"], node["bias"], shape, node.output, node["groups"]), 1)
    samples, _, slices, *sides = plan.spec(node.output).shape
    given = {name: node[name][1:] for name in ("stride", "padding", "dilation")}
    x = _slices(plan, node, depth, slices)
    form = geometry(given, x.shape[1:], shape, (outputs, *sides), image_view(x))
    source = flat.laid_out(plan, x, form, stage.title)
    target = _new(plan, (samples * slices, outputs, *sides))
    convolve(plan, [stage], source, target, form, samples * slices, "conv")
    made = strided.reshape(target.value.tensor, (samples, slices, outputs, *sides))
    assert made is not None
    plan.values[stage.output] = target.value.viewed(strided.permute(made, (0, 2, 1, 3, 4)))


def _slices(plan: TensorPlan, node: Node, depth: int, slices: int) -> Value:
    """[samples * slices, channels * depth, height, width]: what the kernel sees for each slice of
    the result, zeros outside of the volume."""
    x = plan.value(node.inputs[0])
    samples, channels, whole, *sides = x.shape
    stride, padding, dilation = (node[name][0] for name in ("stride", "padding", "dilation"))
    made = plan.new((samples, slices, channels, depth, *sides))
    if padding:
        fill(plan, made, 0.0, node.output)
    for tap in range(depth):
        before = tap * dilation - padding  # the input slice of the first output slice
        first = max(0, -(before // stride))
        count = min(slices, -(-(whole - before) // stride)) - first
        if count > 0:
            source = strided.take(x.tensor, 2, before + first * stride, count, stride)
            source = strided.permute(source, (0, 2, 1, 3, 4))
            target = strided.select(strided.take(made.tensor, 1, first, count), 3, tap)
            plan.copy(x.viewed(source), made.viewed(target), node.output)
    return reshaped(plan, made, (samples * slices, channels * depth, *sides))


def _pool(plan: TensorPlan, node: Node) -> None:
    out = plan.spec(node.output).shape
    if len(out) < 5 or set(node.attributes.get("size", ())) == {1}:
        flat.POOL.lower(plan, node)
        return
    x = plan.value(node.inputs[0])
    samples, channels, depth, height, width = x.shape
    area = math.prod(out[3:])
    planes = reshaped(plan, x, (samples, channels * depth, height, width))
    between = _new(plan, (samples, channels * depth, *out[3:]))
    given = {"op": node.op, **node.attributes}
    own = {name: value[1:] for name, value in given.items() if _is_window(name)}
    flat.pool(plan, {**given, **own}, images(plan, planes), between, node.output)
    columns = reshaped(plan, between.value, (samples, channels, depth, area))
    target = _new(plan, (samples, channels, out[2], area))
    more: dict[str, object] = {
        name: (given[name][0], none) for name, none in _NONE.items() if name in given
    }
    if "size" in given:
        more["size"] = (out[2], area)
    if given.get("divisor") is not None:
        more["divisor"] = 1  # rows and columns were divided by it
    flat.pool(plan, {**given, **more}, images(plan, columns), target, node.output)
    plan.values[node.output] = reshaped(plan, target.value, out)


def _is_window(name: str) -> bool:
    return name in (*_NONE, "size")


def _new(plan: TensorPlan, shape: Shape) -> Images:
    """New images without gaps."""
    y = plan.new(shape)
    return Images(y, compact(shape[1:]), y.tensor.strides[0] if shape[0] > 1 else 0)


CONV = Lowering(_accepts, _conv)
POOL = Lowering(_accepts, _pool)
