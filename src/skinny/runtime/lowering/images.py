"""Convolutions and pooling of images, and of rows as images of height 1."""

import math
from collections.abc import Mapping
from typing import Any

from skinny._native import TILE_VECTORS, Pool
from skinny.graph import Node, operation
from skinny.runtime import strided
from skinny.runtime.convolution import Geometry, geometry
from skinny.runtime.layout import View, compact
from skinny.runtime.lowering.chains import Images, convolve, image_view, images
from skinny.runtime.lowering.gates import gated
from skinny.runtime.lowering.int8 import pool as pool_cells
from skinny.runtime.lowering.linear import multiply
from skinny.runtime.lowering.norms import reduce
from skinny.runtime.lowering.stages import Stage, absorb
from skinny.runtime.lowering.unpadded import convolve_unpadded, is_depthwise, is_direct_stage
from skinny.runtime.step_info import StepInfo
from skinny.runtime.strided import Shape, Tensor
from skinny.runtime.tensor_plan import Cells, Expression, Facts, Lowering, TensorPlan, Value
from skinny.runtime.tiles import TILES_PER_THREAD
from skinny.runtime.windows import axes

_WINDOW = {"kernel": 1, "stride": 1, "padding": 0, "dilation": 1, "size": 1}


def is_image(facts: Facts, node: Node) -> bool:
    spec = facts.spec(node.inputs[0])
    return spec.is_float and spec.ndim in (3, 4)


def image_shape(shape: Shape) -> Shape:
    """[samples, channels, height, width]; rows are images of height 1."""
    return shape if len(shape) == 4 else (*shape[:2], 1, shape[2])


def windows(node: Node) -> dict[str, Any]:
    """A node's attributes with two spatial axes."""
    made = dict(node.attributes)
    for name, none in _WINDOW.items():
        if name in made and len(made[name]) == 1:
            made[name] = (none, *made[name])
    return made


def as_image(value: Value) -> Value:
    """The value with two spatial axes; its padding, which rows have as well, is kept."""
    tensor = strided.reshape(value.tensor, image_shape(value.shape))
    assert tensor is not None
    return Value(value.home, tensor, value.padding)


def takes_padding(plan: TensorPlan, pad: Node) -> bool:
    """Whether zeros around an image are left to the strided or depthwise convolution that reads
    it, which finds zeros outside of the image anyway."""
    user = plan.sole_user(pad.output)
    if user is None or user.op != "conv" or pad["value"] != 0 or len(pad["before"]) not in (3, 4):
        return False
    sides = (*pad["before"], *pad["after"])
    outer = (*pad["before"][:2], *pad["after"][:2])
    pads = max(user["stride"]) > 1 or is_depthwise(plan, user)
    return min(sides) >= 0 and not any(outer) and pads


def _input(plan: TensorPlan, node: Node) -> tuple[str, dict[str, Any]]:
    """The value that a convolution reads, and its attributes with the padding that it takes."""
    name, given = str(node.inputs[0]), windows(node)
    pad = plan.taken_pads.get(name)
    if pad is not None:
        more = pad["before"][2:]
        more = (0, *more) if len(more) == 1 else more
        given["padding"] = tuple(map(sum, zip(given["padding"], more, strict=True)))
        name = str(pad.inputs[0])
    return name, given


def _stage(plan: TensorPlan, node: Node) -> Stage:
    shape = image_shape(plan.weights.shape(node["weight"]))
    whole = (shape[0], shape[1], shape[2], shape[3])
    stage = Stage(node["weight"], node["bias"], whole, node.output, node["groups"])
    return absorb(plan, stage, 1)


def _geometry(plan: TensorPlan, node: Node, given: View | None = None) -> Geometry:
    name, given_windows = _input(plan, node)
    x, y = (image_shape(plan.spec(value).shape)[1:] for value in (name, node.output))
    return geometry(given_windows, x, image_shape(plan.weights.shape(node["weight"])), y, given)


def _conv(plan: TensorPlan, node: Node) -> None:
    name, given = _input(plan, node)
    product = plan.values.get(name)
    gate = gated(plan, node, product) if isinstance(product, Expression) else None
    x = as_image(plan.value(name)) if gate is None else gate.image
    out = image_shape(plan.spec(node.output).shape)
    stage = _stage(plan, node)
    if _is_pixel(node, x.shape, stage):
        samples, channels = x.shape[:2]
        pixels = strided.reshape(x.tensor, (samples, channels))
        assert pixels is not None
        multiply(plan, stage, x.viewed(pixels))
        return
    stages = [stage]
    depthwise = is_depthwise(plan, node)
    while not depthwise:
        after = plan.sole_user(stages[-1].output)
        if after is None or not _joins(plan, after, out):
            break
        plan.claim(after)
        stages.append(_stage(plan, after))
    alone = len(stages) == 1 and gate is None
    if depthwise or (alone and is_direct_stage(plan, stage, given, out[1:])):
        source = _unpadded(plan, x)
        target = _target(plan, stage.output, out)
        convolve_unpadded(plan, stage, given, source, target, out[0], depthwise=depthwise)
        return
    form = _geometry(plan, node, image_view(x))
    source = laid_out(plan, x, form, stage.title)
    target = _target(plan, stages[-1].output, (out[0], stages[-1].outputs, *out[2:]))
    factors = None if gate is None else gate.factors
    convolve(plan, stages, source, target, form, out[0], "conv", factors)


def _unpadded(plan: TensorPlan, x: Value) -> Images:
    """The input of a kernel that pads by itself, which need not have padding, but may."""
    if x.padding is None:
        return images(plan, x.viewed(x.tensor))
    return Images(x, x.padding, x.tensor.strides[0] if x.shape[0] > 1 else 0)


def _is_pixel(node: Node, x: Shape, stage: Stage) -> bool:
    """Whether the convolution is a linear layer on one pixel, as in squeeze-and-excitation."""
    whole = math.prod(x[2:]) == 1 and stage.shape[2:] == (1, 1)
    return whole and node["groups"] == 1 and not any(node["padding"])


def _joins(plan: TensorPlan, node: Node, out: Shape) -> bool:
    """Whether a node is a 1x1 convolution to be computed on the tiles of the one before it."""
    if node.op != "conv" or set(plan.weights.shape(node["weight"])[2:]) != {1}:
        return False
    plain = set(node["stride"]) == {1} and set(node["padding"]) == {0}
    enough = TILE_VECTORS * plan.lanes * TILES_PER_THREAD * plan.threads
    return plain and math.prod(out[2:]) >= enough


def _target(plan: TensorPlan, name: str, shape: Shape) -> Images:
    """A new value [samples, channels, height, width]: with the padding that all its readers want,
    or its channels beginning at whole vectors, or without gaps."""
    samples, channels, height, width = shape
    if (view := _wanted(plan, name)) is not None:
        y = plan.make_padded(name, samples, view)
        return Images(y, view, y.tensor.strides[0] if samples > 1 else 0)
    strides = strided.ordered(shape, range(4), 2, plan.lanes)
    tensor = strided.reshape(Tensor(0, 0, shape, strides), plan.spec(name).shape)
    if tensor is None or not all(_stays_view(plan, user, tensor) for user in plan.users(name)):
        strides = strided.row_major(shape)
        tensor = strided.reshape(Tensor(0, 0, shape, strides), plan.spec(name).shape)
        assert tensor is not None
    y = plan.make(name, tensor.strides)
    # of one channel, the buffer ends with its last row
    channel_stride = strides[1] if channels > 1 else height * width
    view = View(0, channels, height, width, channel_stride, width, 0)
    return Images(y, view, y.tensor.strides[0] if samples > 1 else 0)


def _stays_view(plan: TensorPlan, user: Node, tensor: Tensor) -> bool:
    """Whether a reader of the tensor, if it is a reshape, needs no copy."""
    if operation(user.op).lowering != "reshape":
        return True
    return strided.reshape(tensor, plan.spec(user.output).shape) is not None


def _wanted(plan: TensorPlan, name: str) -> View | None:
    """The padded layout in which all readers of a value want it, if they do."""
    users = plan.users(name)
    if plan.is_output(name) or not users or any(user.op != "conv" for user in users):
        return None
    if any(is_depthwise(plan, user) for user in users):
        return None
    forms = [_geometry(plan, user) for user in users]
    if any(form.space_to_depth is not None for form in forms):
        return None
    views = {form.view for form in forms}
    view = views.pop()
    shape = image_shape(plan.spec(name).shape)[1:]
    return None if views or view == compact(shape) else view


def laid_out(plan: TensorPlan, x: Value, form: Geometry, title: str) -> Images:
    """The input in the layout the convolution reads: as it lies, or copied with padding or in
    space-to-depth."""
    samples = x.shape[0]
    if form.space_to_depth is None and x.padding == form.view:
        return Images(x, form.view, x.tensor.strides[0] if samples > 1 else 0)
    given = images(plan, x.viewed(x.tensor))
    if form.space_to_depth is None and given.view == form.view:
        return given
    key = (id(given.value.home), given.value.tensor, form.view, str(form.space_to_depth))
    if key in plan.copies:
        return Images(plan.copies[key], form.view, form.view.positions if samples > 1 else 0)
    stride, rows, columns, kernel = (1, 1), [0], [0], "pad"
    if (apart := form.space_to_depth) is not None:
        stride, rows, columns, kernel = apart.stride, apart.rows, apart.columns, "space-to-depth"
    made = plan.copies[key] = plan.new((samples * form.view.positions,))
    target = Images(made, form.view, form.view.positions if samples > 1 else 0)
    plan.step(
        StepInfo(title, "copy", kernel),
        [given.value, made],
        lambda p: p.add_space_to_depth(
            samples=samples,
            source_sample_stride=given.stride,
            target_sample_stride=target.stride,
            source=given.placed(plan),
            target=target.placed(plan),
            stride=stride,
            rows=rows,
            columns=columns,
        ),
    )
    return target


def _pool(plan: TensorPlan, node: Node) -> None:
    if set(node.attributes.get("size", ())) == {1}:  # adaptive, of the whole image
        x, kind = plan.value(node.inputs[0]), "max" if _is_max(node.op) else "mean"
        reduce(plan, x, tuple(range(2, len(x.shape))), kind, node.output)
        return
    cells = plan.values.get(str(node.inputs[0]))
    if isinstance(cells, Cells) and node.op == "max_pool":
        pool_cells(plan, node, cells)
        return
    source = images(plan, as_image(plan.value(node.inputs[0])))
    target = _target(plan, node.output, image_shape(plan.spec(node.output).shape))
    pool(plan, {"op": node.op, **windows(node)}, source, target, node.output)


def pool(
    plan: TensorPlan, given: Mapping[str, Any], source: Images, target: Images, title: str
) -> None:
    """A step that makes `target` of `source`. given: attributes of a pooling with two axes."""
    largest = _is_max(given["op"])
    rows, columns = axes(given, source.value.shape[1:])
    made = Pool(max=largest, rows=rows, columns=columns)
    plan.step(
        StepInfo(title, given["op"], "max" if largest else "average"),
        [source.value, target.value],
        lambda p: p.add_pool(
            samples=source.value.shape[0],
            source_sample_stride=source.stride,
            target_sample_stride=target.stride,
            source=source.placed(plan),
            target=target.placed(plan),
            pool=made,
        ),
    )


def _is_max(op: str) -> bool:
    return op in ("max_pool", "adaptive_max_pool")


CONV = Lowering(is_image, _conv)
POOL = Lowering(is_image, _pool)
