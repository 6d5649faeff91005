"""Convolutions, alone or in chains, as steps of a program."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from skinny import native
from skinny.packing import GraphError
from skinny.runtime.convolution import Geometry, block_taps, geometry, pointwise_taps
from skinny.runtime.fuse import NONE, Activation, Kind, Layer
from skinny.runtime.layout import View, compact
from skinny.runtime.program import LARGEST_OFFSET, Program, StepInfo
from skinny.runtime.tiles import LARGEST_BLOCK, TILE_VECTORS, Tile, choose_tile
from skinny.runtime.windows import axes

# One image is shared by tiles, and its layers are chained, where each thread has at least so many;
# smaller ones are shared by output channels.
_TILES_A_THREAD = 2
_LOWEST_POOL = 4  # rows of a window that is pooled as it comes


def joinable(program: Program, layer: Layer) -> bool:
    """Whether a layer is a 1x1 convolution that may be chained to the one before it."""
    node = layer.node
    plain = (
        layer.op == "conv"
        and program.weights.shape(node["weight"])[2:] == (1, 1)
        and node["stride"] == [1, 1]
        and node["padding"] == [0, 0]
    )
    if not plain or program.n > 1:
        return plain
    _, height, width = program.shapes[layer.output]
    enough = TILE_VECTORS * program.lanes * _TILES_A_THREAD * program.threads
    return height * width >= enough


def poolable(program: Program, layer: Layer, after: Layer) -> bool:
    """Whether the pooling after a convolution may be done row by row, as its rows come: images in
    vectors, rows wide enough for a tile each, and windows low enough for the cache."""
    if program.n == 1 or after.op not in ("max_pool", "avg_pool"):
        return False
    _, _, width = program.shapes[layer.computed]
    lowest = after.node["kernel"][0] * after.node.get("dilation", [1])[0]
    return 2 * width > TILE_VECTORS and lowest <= _LOWEST_POOL


def wanted_view(program: Program, layer: Layer) -> View | None:
    """The layout in which a convolution reads its input without a copy; None if there is none."""
    form = _geometry(program, layer)
    return form.view if form.phases is None else None


def lower_conv(program: Program, layer: Layer) -> None:
    form = _geometry(program, layer)
    name = layer.inputs[0]
    source = None
    if form.phases is not None or form.view != program.margins.get(
        name, compact(program.shapes[name])
    ):
        source = _sample(program, layer, form)
    program.read(name)
    program.make(layer.output)

    out = program.shapes[layer.computed]
    height, width = out[1:]
    # Without margins on either side the image is one long row.
    one_row = (
        form.view == compact(out)._replace(channels=form.view.channels)
        and layer.output not in program.margins
        and layer.pool is None
    )
    if one_row:
        height, width = 1, height * width
    pitch = width if one_row else form.view.pitch
    tile = choose_tile(height, width, pitch, program.lanes, program.n)
    by_channels = (
        program.n == 1 and len(layer.nodes) == 1 and tile.tiles < _TILES_A_THREAD * program.threads
    )
    stages, kernels, operations = _stages(program, layer, form, tile)
    pool = None
    if layer.pool is not None:
        rows, columns = axes(layer.pool, out)
        pool = (layer.pool["op"] == "max_pool", tuple(rows), tuple(columns))

    def emit() -> None:
        into = source.view if source is not None else program.view(name)
        to = program.view(layer.output)
        if one_row:
            into, to = into.flat(), to.flat()
        program.engine.add_chain(
            program.phase, into, to, height, width, form.first, tile.flat, tile.rows, tile.vectors,
            by_channels, stages, pool,
        )  # fmt: skip

    kernel = f"{kernels} {'flat' if tile.flat else tile.rows}x{tile.vectors}"
    title = " + ".join(str(node["weight"]).removesuffix(".weight") for node in layer.nodes)
    if layer.pool is not None:
        title += " + " + layer.pool["op"]
    program.step(StepInfo(title, "conv", kernel, operations), emit)


def _geometry(program: Program, layer: Layer) -> Geometry:
    node = layer.node
    weight = program.weights.shape(node["weight"])
    return geometry(node, program.shapes[layer.inputs[0]], weight, program.shapes[layer.computed])


def _sample(program: Program, layer: Layer, form: Geometry) -> Any:
    """A copy of the input in the layout the convolution reads."""
    name = layer.inputs[0]
    program.read(name)
    target = program.temporary(form.view)
    stride, rows, columns = (1, 1), [0], [0]
    if form.phases is not None:
        stride, rows, columns = form.phases.stride, form.phases.rows, form.phases.columns
    program.step(
        StepInfo(str(layer.node["weight"]).removesuffix(".weight"), "copy", "sample"),
        lambda: program.engine.add_sample(
            program.phase, program.view(name), target.view, *stride, rows, columns
        ),
    )
    return target


def _stages(
    program: Program, layer: Layer, form: Geometry, tile: Tile
) -> tuple[list[Any], str, int]:
    """The stages of a chain as the engine takes them, the kernels' names, and the operations."""
    module = native.extension()
    assert module is not None
    stages, kernels, operations = [], set(), 0
    _, height, width = program.shapes[layer.computed]
    for i, (node, activation) in enumerate(zip(layer.nodes, layer.activations, strict=True)):
        weight = program.weights.convolution(node)
        outputs, groups = weight.shape[0], node["groups"]
        kept = int(np.count_nonzero(weight))
        density = kept / weight.size
        kernel = program.weights.kernel(node["weight"], outputs // groups)
        dense = kernel == "dense"
        if i == 0:
            offsets, stride, block = _first_taps(program, node, form, tile, density, dense)
        else:
            channels = weight.shape[1] * groups
            offsets, stride, block = pointwise_taps(channels, groups, program.lanes, density, dense)
        packed = module.ConvWeights(
            weight.reshape(outputs, -1),
            offsets,
            groups,
            stride,
            block,
            program.threads,
            dense,
        )
        low, high, rest = _clamping(activation)
        bias = program.weights.bias(node["bias"], outputs)
        stages.append((packed, bias, low, high, rest.args))
        kernels.add(kernel)
        operations += 2 * kept * height * width
    return stages, "+".join(sorted(kernels)), operations


def _first_taps(
    program: Program,
    node: Mapping[str, Any],
    form: Geometry,
    tile: Tile,
    density: float,
    dense: bool,
) -> tuple[Any, int, int]:
    offsets = form.taps.reshape(-1) * program.n
    stride = form.group_stride * program.n
    if stride * node["groups"] + int(offsets.max()) > LARGEST_OFFSET:
        raise GraphError(f"the convolution {node['weight']!r} reads too large an image")
    block = block_taps(form, tile, program.lanes, program.n, density, dense)
    if block > LARGEST_BLOCK and not dense:
        raise GraphError(f"the convolution {node['weight']!r} has too large a kernel")
    return offsets.astype(np.int32), stride, block


def _clamping(activation: Activation) -> tuple[float, float, Activation]:
    """Clamping is done in registers; any other activation on the scratch buffer."""
    if activation.kind == Kind.clamp:
        return activation.a, activation.b, NONE
    return -np.inf, np.inf, activation
