"""Convolutions, alone or in chains, as steps of a program."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from skinny._native import (
    CHAIN_STRIP_TILES,
    STRIP_FLOATS,
    TILE_VECTORS,
    ActivationKind,
    Pool,
    Stage,
)
from skinny.runtime.convolution import Geometry, is_direct, pointwise_taps
from skinny.runtime.fuse import NONE, Activation, Layer
from skinny.runtime.layout import Buffer, Shape, View
from skinny.runtime.program import Program
from skinny.runtime.step_info import StepInfo
from skinny.runtime.tiles import TILES_PER_THREAD, choose_tile
from skinny.runtime.windows import axes

# With AVX-512, where code is generated: bytes of an instruction and of a weight, and a share of the
# instruction that loads the input.
_BYTES_PER_WEIGHT = 14
_CODE_LANES = 16
_PREFETCHED = 4  # as fast as other bytes, times: code and weights are read in order, and ahead
_MAX_FUSED_POOL = 4  # rows under a pooling window that is fused into the chain before it


def joinable(program: Program, before: Layer, layer: Layer) -> bool:
    """Whether a layer is a 1x1 convolution that may be chained to the one before it."""
    if is_depthwise(program, before):
        return False
    plain = (
        layer.op == "conv"
        and program.weights.shape(layer.node)[2:] == (1, 1)
        and layer.node["stride"] == [1, 1]
        and layer.node["padding"] == [0, 0]
    )
    if not plain:
        return False
    _, height, width = program.shapes[layer.output]
    if program.n > 1:
        return program.lanes < _CODE_LANES or _chains(program, [*before.nodes, layer.node], layer)
    # Threads split a chain by tiles: there must be many, or they must divide evenly.
    tiles = height * width // (TILE_VECTORS * program.lanes)
    evenly = tiles > 0 and tiles % program.threads == 0
    return evenly or tiles >= TILES_PER_THREAD * program.threads


def _code(program: Program, nodes: list[Mapping[str, Any]]) -> int:
    """About how many bytes the kernels of layers read: weights, and generated code or indices."""
    return _BYTES_PER_WEIGHT * sum(map(program.weights.kept, nodes))


def _chains(program: Program, nodes: list[Mapping[str, Any]], last: Layer) -> bool:
    """Whether reading the code of a chain again for each strip of tiles takes less than writing and
    reading the value before its last layer."""
    channels, height, width = program.shapes[last.inputs[0]]
    tile = TILE_VECTORS * program.lanes
    most = max(program.weights.shape(node)[0] for node in nodes)
    tiles = min(max(STRIP_FLOATS // (2 * most * tile), 1), CHAIN_STRIP_TILES)
    again = -(-height * width // (TILE_VECTORS * tiles)) - 1
    between = 4 * program.n * channels * height * width
    return again * _code(program, nodes) <= 2 * _PREFETCHED * between


def poolable(program: Program, layer: Layer, after: Layer) -> bool:
    """Whether the pooling after a convolution may be fused into it, row by row: images in vectors,
    rows wide enough for a tile each, and windows of few enough rows for the cache."""
    if program.n == 1 or after.op not in ("max_pool", "avg_pool"):
        return False
    _, _, width = program.shapes[layer.computed]
    rows = after.node["kernel"][0] * after.node.get("dilation", [1])[0]
    return 2 * width > TILE_VECTORS and rows <= _MAX_FUSED_POOL


def takes_residual(program: Program, layer: Layer, add: Layer) -> bool:
    """Whether a convolution may add the other operand of the sum after it, tile by tile."""
    left, right = (program.shapes[name] for name in add.inputs)
    return (
        left == right
        and layer.pool is None
        and layer.residual is None
        and layer.activations[-1] == NONE
        and not is_depthwise(program, layer)
    )


def wanted_view(program: Program, layer: Layer) -> View | None:
    """The padding that a convolution reads its input with; None if it needs none, or space-to-depth
    first."""
    stride = program.row_stride(program.shapes[layer.node["output"]])
    form = program.weights.geometry(layer.node, None, stride)
    plain = form.space_to_depth is None and not reads_unpadded(program, layer)
    return form.view if plain and not form.view.contiguous else None


def row_strides(program: Program, layers: list[Layer]) -> dict[Shape, int] | None:
    """The row strides of images that are computed as one long row, padding included, by height and
    width; None unless values have gaps between channels: for one image and AVX-512, where vectors
    that cross cache lines cost most, and those that are stored row by row."""
    if program.n > 1 or program.lanes < _CODE_LANES:
        return None
    found: dict[Shape, set[int]] = {}
    for layer in layers:
        if layer.op == "conv" and not reads_unpadded(program, layer):
            height, width = program.shapes[layer.computed][1:]
            stride = program.weights.geometry(layer.node).view.row_stride
            if stride > width and _is_dense(height, width, stride, program.lanes):
                found.setdefault((height, width), set()).add(stride)
    return {shape: strides.pop() for shape, strides in found.items() if len(strides) == 1}


def _is_dense(height: int, width: int, stride: int, lanes: int) -> bool:
    """Whether an image as one long row, padding included, takes fewer vectors than row by row."""
    return -(-((height - 1) * stride + width) // lanes) < height * -(-width // lanes)


def reads_gaps(layer: Layer) -> bool:
    """Whether a layer reads values with gaps between channels and rows."""
    pools = layer.op in ("max_pool", "avg_pool", "adaptive_avg_pool")
    return pools or layer.op == "conv"


def is_depthwise(program: Program, layer: Layer) -> bool:
    """Whether a layer runs on the kernel for depthwise convolutions."""
    if program.n > 1 or layer.op != "conv" or layer.node["groups"] == 1:
        return False
    return program.weights.shape(layer.node)[1] == 1


def reads_unpadded(program: Program, layer: Layer) -> bool:
    """Whether a layer runs on a kernel that pads and strides by itself."""
    alone = len(layer.nodes) == 1 and layer.residual is None and layer.pool is None
    if program.n > 1 or layer.op != "conv" or not alone:
        return False
    if is_depthwise(program, layer):
        return True
    weights, out = program.weights, program.shapes[layer.computed]
    dense = weights.kernel(layer.node) == "dense"
    return dense and is_direct(layer.node, weights.shape(layer.node), out, program.lanes)


def _lower_unpadded(program: Program, layer: Layer) -> None:
    node, (name,) = layer.node, layer.inputs
    program.read(name)
    program.make(layer.output)
    outputs, _, *kernel = program.weights.shape(node)
    low, high, other = _clamping(layer.activations[0])
    depthwise = is_depthwise(program, layer)

    def emit() -> None:
        common: dict[str, Any] = {
            "mode": program.mode,
            "source": program.view(name),
            "target": program.view(layer.output),
            "stride": tuple(node["stride"]),
            "padding": tuple(node["padding"]),
            "bias": program.weights.weights.bias(node["bias"], outputs),
            "low": low,
            "high": high,
            "activation": other.native,
        }
        if depthwise:
            weights = program.weights.weights.convolution(node).reshape(outputs, *kernel)
            dilation = tuple(node["dilation"])
            program.engine.add_depthwise(weights=weights, dilation=dilation, **common)
        else:
            program.engine.add_direct_conv(weights=program.weights.direct(node), **common)

    _, height, width = program.shapes[layer.output]
    operations = 2 * program.weights.kept(node) * height * width
    title = str(node["weight"]).removesuffix(".weight")
    used = "depthwise" if depthwise else "direct"
    program.step(StepInfo(title, "conv", used, operations), emit)


def lower_conv(program: Program, layer: Layer) -> None:
    if reads_unpadded(program, layer):
        _lower_unpadded(program, layer)
        return
    name = layer.inputs[0]
    out = program.shapes[layer.computed]
    form = program.weights.geometry(layer.node, program.layout(name), program.row_stride(out))
    source = None
    if form.space_to_depth is not None or form.view != program.layout(name):
        source = _copy(program, layer, form)
    program.read(name)
    if layer.residual is not None:
        program.read(layer.residual)
    program.make(layer.output)

    height, width = out[1:]
    views = [program.layout(layer.output)]
    views += [] if layer.residual is None else [program.layout(layer.residual)]
    one_row = layer.pool is None and _one_row(program, form, views, out)
    rows = None
    if one_row:
        if views[0].origin:  # zeros between the rows
            rows = (height, width, views[0].row_stride)
        height, width = 1, one_row
    row_stride = width if one_row else form.view.row_stride
    tile = choose_tile(height, width, row_stride, program.lanes, program.n)
    if program.n == 1:
        few = tile.tiles < TILES_PER_THREAD * program.threads
    else:  # each thread reads half of the code, and all of the input
        few = program.lanes >= _CODE_LANES and (
            _code(program, layer.nodes) > 4 * program.n * form.view.positions
        )
    split_channels = few and len(layer.nodes) == 1 and layer.pool is None
    pool = None if layer.pool is None else pool_windows(layer.pool, out)

    def emit() -> None:
        into = source.view if source is not None else program.view(name)
        to = program.view(layer.output)
        residual = None if layer.residual is None else program.view(layer.residual)
        if one_row:
            into, to = into.flat(width), to.flat(width, to.origin)
            residual = None if residual is None else residual.flat(width)
        program.engine.add_chain(
            mode=program.mode,
            source=into,
            target=to,
            height=height,
            width=width,
            first=form.first,
            flat=tile.flat,
            tile_rows=tile.rows,
            tile_vectors=tile.vectors,
            split_channels=split_channels,
            stages=_stages(program, layer, form),
            pool=pool,
            residual=residual,
            low=layer.bounds[0],
            high=layer.bounds[1],
            image_rows=rows,
        )

    kernels = sorted({program.weights.kernel(node) for node in layer.nodes})
    kernel = f"{'+'.join(kernels)} {'flat' if tile.flat else tile.rows}x{tile.vectors}"
    operations = 2 * sum(map(program.weights.kept, layer.nodes)) * math.prod(out[1:])
    title = " + ".join(str(node["weight"]).removesuffix(".weight") for node in layer.nodes)
    if layer.pool is not None:
        title += " + " + layer.pool["op"]
    if layer.residual is not None:
        title += " + add"
    program.step(StepInfo(title, "conv", kernel, operations), emit)


def _one_row(program: Program, form: Geometry, views: list[View], out: Shape) -> int:
    """The length of the image as one long row, if its rows lie in the input as they do in `views`,
    the output and the residual: of whole vectors, where there is room for them. Else 0. An output
    with padding needs that room, and beside it no residual."""
    _, height, width = out
    stride = form.view.row_stride
    padded = any(view.origin for view in views)
    if any(view.row_stride != stride for view in views) or (padded and len(views) > 1):
        return 0
    length = (height - 1) * stride + width
    if width != stride and (program.n > 1 or not _is_dense(height, width, stride, program.lanes)):
        return 0
    whole = -(-length // program.lanes) * program.lanes
    groups = form.view.positions // max(1, form.group_stride)
    last = form.first + int(form.taps.max()) + (groups - 1) * form.group_stride
    room = program.n == 1 and last + whole <= form.view.positions
    if room and all(view.channel_stride >= view.origin + whole for view in views):
        return whole
    return 0 if padded else length


def pool_windows(node: Mapping[str, Any], shape: Shape) -> Pool:
    """The windows of a pooling node whose input is [channels, rows, columns]."""
    rows, columns = axes(node, shape)
    return Pool(max=node["op"] == "max_pool", rows=rows, columns=columns)


def _copy(program: Program, layer: Layer, form: Geometry) -> Buffer:
    """A copy of the input in the layout the convolution reads: padded, or space-to-depth."""
    name = layer.inputs[0]
    program.read(name)
    target = program.temporary(form.view)
    stride, rows, columns = (1, 1), [0], [0]
    kernel = "pad"
    if (apart := form.space_to_depth) is not None:
        stride, rows, columns, kernel = apart.stride, apart.rows, apart.columns, "space-to-depth"
    program.step(
        StepInfo(str(layer.node["weight"]).removesuffix(".weight"), "copy", kernel),
        lambda: program.engine.add_space_to_depth(
            mode=program.mode,
            source=program.view(name),
            target=target.view,
            stride=stride,
            rows=rows,
            columns=columns,
        ),
    )
    return target


def _stages(program: Program, layer: Layer, form: Geometry) -> list[Stage]:
    """The stages of a chain, with their weights."""
    stages = []
    for i, (node, activation) in enumerate(zip(layer.nodes, layer.activations, strict=True)):
        if i == 0:
            offsets = (form.taps.reshape(-1) * program.n).astype(np.int32)
            stride = form.group_stride * program.n
        else:
            offsets, stride = pointwise_taps(program.weights.shape(node)[1])
        weights = program.weights.convolution(node)
        low, high, other = _clamping(activation)
        stages.append(
            Stage(
                weights=weights,
                offsets=offsets,
                group_stride=stride,
                bias=program.weights.weights.bias(node["bias"], program.weights.shape(node)[0]),
                low=low,
                high=high,
                activation=other.native,
            )
        )
    return stages


def _clamping(activation: Activation) -> tuple[float, float, Activation]:
    """Clamping is done in registers; any other activation on the scratch buffer."""
    if activation.kind == ActivationKind.clamp:
        return activation.a, activation.b, NONE
    return -np.inf, np.inf, activation
