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
from skinny.runtime.convolution import Geometry, pointwise_taps
from skinny.runtime.fuse import NONE, Activation, Layer
from skinny.runtime.layout import Buffer, Shape, View, compact, spaced
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
    form = program.weights.geometry(layer.node)
    plain = form.space_to_depth is None and not is_depthwise(program, layer)
    return form.view if plain and not form.view.contiguous else None


def _loads_single_vectors(program: Program) -> bool:
    """Whether vectors of one image may cross cache lines where that costs most: in generated code
    for AVX-512."""
    return program.n == 1 and program.lanes >= _CODE_LANES


def wants_gaps(program: Program, shape: Shape, readers: list[Layer]) -> bool:
    """Whether a value that these layers read should have gaps between channels."""
    return (
        _loads_single_vectors(program)
        and len(shape) == 3
        and all(
            layer.op in ("max_pool", "avg_pool", "adaptive_avg_pool")
            or (layer.op == "conv" and not is_depthwise(program, layer))
            for layer in readers
        )
    )


def is_depthwise(program: Program, layer: Layer) -> bool:
    """Whether a layer runs on the kernel for depthwise convolutions, which pads by itself."""
    if program.n > 1 or layer.op != "conv" or layer.node["groups"] == 1:
        return False
    return program.weights.shape(layer.node)[1] == 1


def _lower_depthwise(program: Program, layer: Layer) -> None:
    node, (name,) = layer.node, layer.inputs
    program.read(name)
    program.make(layer.output)
    outputs, _, *kernel = program.weights.shape(node)
    low, high, other = _clamping(layer.activations[0])

    def emit() -> None:
        weights = program.weights.weights
        program.engine.add_depthwise(
            mode=program.mode,
            source=program.view(name),
            target=program.view(layer.output),
            weights=weights.convolution(node).reshape(outputs, *kernel),
            stride=tuple(node["stride"]),
            padding=tuple(node["padding"]),
            dilation=tuple(node["dilation"]),
            bias=weights.bias(node["bias"], outputs),
            low=low,
            high=high,
            activation=other.native,
        )

    _, height, width = program.shapes[layer.output]
    operations = 2 * program.weights.kept(node) * height * width
    title = str(node["weight"]).removesuffix(".weight")
    program.step(StepInfo(title, "conv", "depthwise", operations), emit)


def lower_conv(program: Program, layer: Layer) -> None:
    if is_depthwise(program, layer):
        _lower_depthwise(program, layer)
        return
    name = layer.inputs[0]
    layout = spaced if _loads_single_vectors(program) else compact
    form = program.weights.geometry(layer.node, program.layout(name), layout)
    source = None
    if form.space_to_depth is not None or form.view != program.layout(name):
        source = _copy(program, layer, form)
    program.read(name)
    if layer.residual is not None:
        program.read(layer.residual)
    program.make(layer.output)

    out = program.shapes[layer.computed]
    height, width = out[1:]
    # Without padding in input and output the image is one long row, of whole vectors where all
    # views have room between channels.
    views = [form.view, program.layout(layer.output)]
    one_row = (
        layer.pool is None
        and all(view.contiguous for view in views)
        and (form.view.height, form.view.width) == (height, width)
    )
    if one_row:
        height, width = 1, height * width
        whole = -(-width // program.lanes) * program.lanes
        views += [] if layer.residual is None else [program.layout(layer.residual)]
        if program.n == 1 and all(view.channel_stride >= whole for view in views):
            width = whole
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
            into, to = into.flat(width), to.flat(width)
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
