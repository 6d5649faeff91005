"""Values in eight bits: cells of four channels of a pixel, in the arena beside the floats.

A value lies in cells if all nodes that read it want the same scale and zero point; a node that
wants floats reads a copy.
"""

import math
from typing import NamedTuple

from skinny.graph import Node
from skinny.runtime import strided
from skinny.runtime.convolution import Geometry
from skinny.runtime.layout import Buffer, View, compact
from skinny.runtime.step_info import StepInfo
from skinny.runtime.strided import Shape, Tensor
from skinny.runtime.tensor_plan import Cells, TensorPlan, Value

_LINE = 16  # cells of a cache line
_ALIASING = 256  # cells, or a multiple of these
MOST_POOLS = 8  # between two layers, that are looked through


class Quantization(NamedTuple):
    scale: float
    zero: int


def cell_shape(shape: Shape) -> Shape:
    """[channels, height, width] in cells."""
    channels, *rest = shape
    return (-(-channels // 4), *rest)


def tokens(shape: Shape, lanes: int) -> Shape | None:
    """[samples, features, 1, tokens] of the values [.., tokens, features] of a linear layer; None
    for fewer tokens than a vector has lanes."""
    *leading, features = shape
    if math.prod(leading) < lanes:
        return None
    apart = math.prod(leading[1:]) >= lanes
    samples = leading[0] if apart else 1
    return (samples, features, 1, math.prod(leading) // samples)


def image(shape: Shape) -> Shape:
    """[samples, channels, height, width] of 2 to 4 axes."""
    if len(shape) == 3:
        return (*shape[:2], 1, shape[2])
    return shape if len(shape) == 4 else (*shape, 1, 1)


def wanted(plan: TensorPlan, name: str, layer: str, depth: int = 0) -> Quantization | None:
    """The scale and zero point that all readers of a value want it in; None where they do not
    agree, or one wants floats. layer: the kind that makes it, as which its readers see it."""
    users = plan.users(name)
    if plan.is_output(name) or not users or depth > MOST_POOLS:
        return None
    found = {_wanted_by(plan, user, layer, depth) for user in users}
    return found.pop() if len(found) == 1 else None


def _wanted_by(plan: TensorPlan, user: Node, layer: str, depth: int) -> Quantization | None:
    if user.op == layer:
        return Quantization(user["input_scale"], user["input_zero"])
    if layer == "conv_int8" and user.op == "fake_quantize":
        return Quantization(user["scale"], user["zero"])
    if layer == "conv_int8" and user.op == "max_pool":
        return wanted(plan, user.output, layer, depth + 1)
    return None


def new_cells(plan: TensorPlan, shape: Shape, view: View, samples: int, q: Quantization) -> Cells:
    """shape: of the graph's value. The next step writes them."""
    home = plan.new((samples * view.positions,)).home
    assert isinstance(home, Buffer)
    return Cells(home, view, view.positions, samples, shape, q.scale, q.zero)


def placed(cells: Cells) -> View:
    """The cells' view, once memory is planned."""
    return cells.view._replace(offset=cells.view.offset + cells.home.view.offset)


def quantized(plan: TensorPlan, name: str, x: Value, view: View, q: Quantization) -> Cells:
    """A float value [samples, channels, height, width] as new cells."""
    made = new_cells(plan, plan.spec(name).shape, view, x.shape[0], q)
    plan.step(
        StepInfo(name, "quantize", "cells"),
        [x, made],
        lambda p: p.add_quantize(
            source=plan.at(x), target=placed(made), stride=made.stride, scale=q.scale, zero=q.zero
        ),
    )
    return made


def dequantized(plan: TensorPlan, cells: Cells) -> Value:
    """The floats of cells."""
    _, height, width = cells.view[1:4]
    channels = math.prod(cells.shape) // (cells.samples * height * width)
    made = plan.new((cells.samples, channels, height, width))
    plan.step(
        StepInfo("floats", "dequantize", "cells"),
        [cells, made],
        lambda p: p.add_dequantize(
            source=placed(cells),
            stride=cells.stride,
            target=plan.at(made),
            scale=cells.scale,
            zero=cells.zero,
        ),
    )
    if cells.tokens:
        transposed = strided.permute(made.tensor, (0, 3, 2, 1))
        whole = strided.reshape(transposed, cells.shape)
        assert whole is not None
        return made.viewed(whole)
    whole = strided.reshape(made.tensor, cells.shape)
    assert whole is not None
    return made.viewed(whole)


def moved(plan: TensorPlan, cells: Cells, form: Geometry, title: str) -> Cells:
    """Cells with padding, or in space-to-depth, as a convolution reads them."""
    deep = form.space_to_depth
    if deep is None:  # the view's own rows and columns: padding is what lies around them
        stride, rows, columns = (1, 1), [0], [0]
    else:
        stride, rows, columns = deep.stride, deep.rows, deep.columns
    q = Quantization(cells.scale, cells.zero)
    made = new_cells(plan, cells.shape, form.view, cells.samples, q)
    plan.step(
        StepInfo(title, "copy", "space to depth" if deep else "padding"),
        [cells, made],
        lambda p: p.add_move_cells(
            samples=cells.samples,
            source=placed(cells),
            source_stride=cells.stride,
            target=placed(made),
            target_stride=made.stride,
            stride=stride,
            rows=rows,
            columns=columns,
            zero=q.zero,
        ),
    )
    return made


def as_tokens(plan: TensorPlan, x: Value, shape: Shape) -> Value:
    """[.., tokens, features] as [samples, features, 1, tokens], copied where that is no view."""
    samples, features, _, count = shape
    three = strided.reshape(x.tensor, (samples, count, features))
    if three is None:
        x = plan.copied(x, strided.row_major(x.shape))
        three = strided.reshape(x.tensor, (samples, count, features))
        assert three is not None
    outer, inner, feature = three.strides
    return x.viewed(Tensor(three.storage, three.offset, shape, (outer, feature, 0, inner)))


def compact_cells(shape: Shape) -> View:
    """shape: [samples, channels, height, width]. Channels are not a large power of two apart: their
    cells would then share few sets of the first-level cache."""
    view = compact(cell_shape(shape[1:]))
    if view.channel_stride % _ALIASING:
        return view
    return view._replace(channel_stride=view.channel_stride + _LINE)
