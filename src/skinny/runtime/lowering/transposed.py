"""Transposed convolutions: the input with zeros between its elements, convolved with the
flipped kernel."""

import math

from skinny.graph import Node
from skinny.runtime import strided
from skinny.runtime.convolution import geometry
from skinny.runtime.layout import compact
from skinny.runtime.lowering.chains import Images, convolve
from skinny.runtime.lowering.images import as_image, image_shape, is_image, windows
from skinny.runtime.lowering.joining import fill
from skinny.runtime.lowering.stages import POINTWISE, Stage, absorb
from skinny.runtime.tensor_plan import Facts, Lowering, TensorPlan, Value

_MOST_SPREAD = 256  # positions for each element of the input; the reference visits elements alone


def _accepts(facts: Facts, node: Node) -> bool:
    """The work grows with the product of the strides, however little the network asks for."""
    return is_image(facts, node) and math.prod(node["stride"]) <= _MOST_SPREAD


def _conv_transpose(plan: TensorPlan, node: Node) -> None:
    inputs, per_group, *kernel = image_shape(plan.weights.shape(node["weight"]))
    outputs = per_group * node["groups"]
    shape = (outputs, inputs // node["groups"], kernel[0], kernel[1])
    stage = absorb(
        plan,
        Stage(node["weight"], node["bias"], shape, node.output, node["groups"], form="mirrored"),
        1,
    )
    samples, _, height, width = image_shape(plan.spec(node.output).shape)
    given = windows(node)
    source = _spread(plan, node, shape[2:], (height, width))
    form = geometry(
        {**POINTWISE, "dilation": given["dilation"]},
        source.shape[1:],
        shape,
        (outputs, height, width),
    )
    y = plan.make(stage.output)
    whole = math.prod(source.shape[1:])
    convolve(
        plan,
        [stage],
        Images(source, compact(source.shape[1:]), whole if samples > 1 else 0),
        Images(y, compact((outputs, height, width)), y.tensor.strides[0] if samples > 1 else 0),
        form,
        samples,
        "conv_transpose",
    )


def _spread(plan: TensorPlan, node: Node, kernel: tuple[int, ...], out: tuple[int, ...]) -> Value:
    """The input, its elements `stride` apart, zeros between and around them, or cropped: exactly
    what the kernel sees."""
    x, given = as_image(plan.value(node.inputs[0])), windows(node)
    source = x.tensor
    sides = [side + d * (k - 1) for side, k, d in zip(out, kernel, given["dilation"], strict=True)]
    whole = plan.new((*source.shape[:2], *sides))
    fill(plan, whole, 0.0, node.output)
    target = whole.tensor
    for at, side in enumerate(sides):
        stride, axis = given["stride"][at], 2 + at
        before = given["dilation"][at] * (kernel[at] - 1) - given["padding"][at]
        skipped = max(0, -(before // stride))
        first = before + skipped * stride
        count = min(source.shape[axis] - skipped, max(0, -(-(side - first) // stride)))
        source = strided.take(source, axis, skipped, count)
        target = strided.take(target, axis, first, count, stride)
    if min(source.shape) > 0:
        plan.copy(x.viewed(source), whole.viewed(target), node.output)
    return whole


CONV_TRANSPOSE = Lowering(_accepts, _conv_transpose)
