"""Chains of convolutions, on images or on tokens, as steps of a tensor program."""

from typing import NamedTuple

from skinny._native import TensorProgram
from skinny.runtime.convolution import Geometry
from skinny.runtime.layout import Buffer, View, compact
from skinny.runtime.lowering.stages import Stage, kernel, native, operations
from skinny.runtime.step_info import StepInfo
from skinny.runtime.tensor_plan import TensorPlan, Value
from skinny.runtime.tiles import TILES_PER_THREAD, choose_tile


class Images(NamedTuple):
    """Images in a value: where one lies, counted from the start of the value's buffer or of its
    first element, and how far apart they are."""

    value: Value
    view: View
    stride: int

    def placed(self, plan: TensorPlan) -> View:
        at = plan.at(self.value).offset - (0 if self.value.padding is None else self.view.origin)
        return self.view._replace(offset=at)


def convolve(
    plan: TensorPlan,
    stages: list[Stage],
    source: Images,
    target: Images,
    form: Geometry,
    samples: int,
    op: str,
    factors: Value | None = None,
) -> None:
    """A step that makes `target` of `source`, which is laid out as `form` says. factors: of the
    input channels of a 1x1 convolution, [samples, channels]."""
    height, width = target.view.height, target.view.width
    out = (stages[0].outputs, height, width)
    # Without padding in input and output the image is one long row.
    one_row = _is_flat(form.view, (form.view.channels, height, width)) and _is_flat(
        target.view, (target.view.channels, height, width)
    )
    if one_row:
        height, width = 1, height * width
    row_stride = width if one_row else form.view.row_stride
    tile = choose_tile(height, width, row_stride, plan.lanes, 1)
    split_channels = len(stages) == 1 and samples * tile.tiles < TILES_PER_THREAD * plan.threads

    def add(p: TensorProgram) -> None:
        into, to = source.placed(plan), target.placed(plan)
        if one_row:
            into, to = (_one_row(view, width) for view in (into, to))
        p.add_conv(
            samples=samples,
            source_sample_stride=source.stride,
            target_sample_stride=target.stride,
            source=into,
            target=to,
            height=height,
            width=width,
            first=form.first,
            flat=tile.flat,
            tile_rows=tile.rows,
            tile_vectors=tile.vectors,
            split_channels=split_channels,
            stages=[
                native(plan, stage, form, out, first=at == 0) for at, stage in enumerate(stages)
            ],
            factors=None if factors is None else plan.at(factors),
        )

    kernels = "+".join(dict.fromkeys(kernel(plan, stage) for stage in stages))
    info = StepInfo(
        ("gate + " if factors is not None else "") + " + ".join(stage.title for stage in stages),
        op,
        f"{kernels} {'flat' if tile.flat else tile.rows}x{tile.vectors}",
        operations(plan, stages, samples * out[1] * out[2]),
    )
    plan.step(info, [source.value, target.value, factors], add)


def _is_flat(view: View, shape: tuple[int, int, int]) -> bool:
    """Whether a channel's rows follow each other without gaps, and the image is of this shape."""
    whole = (view.channels, view.height, view.width) == shape
    return whole and view.origin == 0 and view.row_stride == view.width


def _one_row(view: View, width: int) -> View:
    return view._replace(height=1, width=width, row_stride=width)


def image_view(value: Value) -> View | None:
    """One image of a value [samples, channels, height, width] as kernels take it; None if they
    cannot: also if all of its channels, with the gaps after them, do not lie in the value's buffer,
    as those of a crop may not."""
    samples, channels, height, width = value.shape
    sample_stride, channel_stride, row_stride, column_stride = value.tensor.strides
    if width > 1 and column_stride != 1:
        return None
    row_stride = row_stride if height > 1 else width
    channel_stride = channel_stride if channels > 1 else height * row_stride
    if row_stride < width or channel_stride < (height - 1) * row_stride + width:
        return None
    if samples > 1 and sample_stride < channels * channel_stride:  # one sample within another
        return None
    end = value.tensor.offset + (samples - 1) * sample_stride + channels * channel_stride
    if isinstance(value.home, Buffer) and end > value.home.view.positions:
        return None
    return View(0, channels, height, width, channel_stride, row_stride, 0)


def images(plan: TensorPlan, value: Value) -> Images:
    """The images of a value [samples, channels, height, width], copied if kernels cannot take them
    as they lie."""
    value = plan.in_arena(value)
    view = image_view(value)
    if view is None:
        value = plan.copied(value, _row_major(value))
        view = compact(value.shape[1:])
    return Images(value, view, value.tensor.strides[0] if value.shape[0] > 1 else 0)


def _row_major(value: Value) -> tuple[int, ...]:
    _, channels, height, width = value.shape
    return (channels * height * width, height * width, width, 1)
