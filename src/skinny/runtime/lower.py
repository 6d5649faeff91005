"""The layers of a graph as steps of a program."""

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import replace

from skinny._native import Mode
from skinny.packing import GraphError
from skinny.runtime.fold import batch_norm_scale
from skinny.runtime.fuse import Layer, add_residuals, chain
from skinny.runtime.layout import Shape, View, compact, loose, spaced
from skinny.runtime.lower_conv import (
    joinable,
    lower_conv,
    pool_windows,
    poolable,
    reads_gaps,
    row_strides,
    takes_residual,
    wanted_view,
)
from skinny.runtime.program import Program
from skinny.runtime.step_info import StepInfo

# Operations whose steps can write a value with padding.
_WRITES_PADDING = ("conv", "max_pool", "avg_pool", "adaptive_avg_pool")


def lower(program: Program, layers: list[Layer], start: str, end: str) -> None:
    """Plans the steps that lead from value `start` to value `end`."""
    if program.mode != Mode.tail:
        layers = chain(
            layers,
            [end],
            lambda conv, layer: joinable(program, conv, layer),
            lambda conv, layer: poolable(program, conv, layer),
        )
        layers = add_residuals(
            layers, [end], lambda conv, layer: takes_residual(program, conv, layer)
        )
        program.row_strides = row_strides(program, layers)
        _choose_padding(program, layers, start, end)
        _choose_slices(program, layers)
    program.make(start)
    for layer in layers:
        _LOWER[layer.op](program, layer)
    program.finish(start, end)


def _choose_padding(program: Program, layers: list[Layer], start: str, end: str) -> None:
    """A value all of whose readers are convolutions with the same padding is written with it; of
    any other, a convolution with padding makes a padded copy. Values that only steps on images
    read have gaps between channels, where that makes generated code faster."""
    makers = {layer.output: layer.op for layer in layers}
    readers: dict[str, list[Layer]] = {}
    for layer in layers:
        for name in layer.inputs:
            readers.setdefault(name, []).append(layer)
    residuals = [layer.residual for layer in layers if layer.residual is not None]
    for name in dict.fromkeys([*readers, *residuals]):
        after = readers.get(name, [])
        if name == end or not (name == start or makers[name] in _WRITES_PADDING):
            continue
        if name not in residuals and all(layer.op == "conv" for layer in after):
            views = {wanted_view(program, layer) for layer in after}
            view = views.pop()
            if view is not None and not views:
                program.padded[name] = view
                continue
        shape = program.shapes[name]
        stride = program.row_stride(shape) if len(shape) == 3 else None
        if name != start and stride and all(map(reads_gaps, after)):
            program.padded[name] = spaced(loose(shape, stride))


def _choose_slices(program: Program, layers: list[Layer]) -> None:
    """Values are written where the concatenation of their channels has them, so that it copies
    nothing; those of a dense block all lie in the last one."""
    makers = {layer.output: layer.op for layer in layers}
    for layer in reversed(layers):  # a concatenation before those that lie in it
        if layer.op != "concat" or _concat_outer(program, layer) != 1:
            continue
        times = Counter(layer.inputs)
        whole, start = program.slice_of(layer.output)
        for name in layer.inputs:
            able = makers.get(name, "reshape") not in ("flatten", "reshape")
            if able and name not in program.slices and times[name] == 1:
                program.slices[name] = (whole, start)
            start += math.prod(program.shapes[name])


def _linear(program: Program, layer: Layer) -> None:
    node, (name,) = layer.node, layer.inputs
    program.read(name)
    program.make(layer.output)
    rows, columns = program.weights.shape(node)
    vectors = math.prod(program.shapes[name]) // columns  # it works on the last axis
    info = StepInfo(
        node["weight"].removesuffix(".weight"),
        "linear",
        program.weights.kernel(node),
        2 * program.weights.kept(node) * vectors,
    )

    at = len(program.infos)

    def emit() -> None:
        weights = program.weights.linear(node)
        program.infos[at] = replace(info, kernel=weights.form)
        program.engine.add_linear(
            mode=program.mode,
            source=program.view(name),
            target=program.view(layer.output),
            weights=weights,
            bias=program.weights.weights.bias(node["bias"], rows),
            activation=layer.activations[0].native,
        )

    program.step(info, emit)


def _pool(program: Program, layer: Layer) -> None:
    (name,) = layer.inputs
    program.read(name)
    program.make(layer.output)
    pool = pool_windows(layer.node, program.shapes[name])
    program.step(
        StepInfo(layer.output, layer.op, "max" if layer.op == "max_pool" else "average"),
        lambda: program.engine.add_pool(
            mode=program.mode,
            source=program.view(name),
            target=program.view(layer.output),
            pool=pool,
        ),
    )


def _same_shape(program: Program, layer: Layer, emit: Callable[[View, View], None]) -> None:
    """A step that reads one compact value and writes another of the same shape."""
    (name,) = layer.inputs
    program.read(name)
    program.make(layer.output)
    program.step(
        StepInfo(layer.output, layer.op, layer.nodes[0]["op"]),
        lambda: emit(program.view(name), program.view(layer.output)),
    )


def _activate(program: Program, layer: Layer) -> None:
    _same_shape(
        program,
        layer,
        lambda source, target: program.engine.add_activate(
            mode=program.mode,
            source=source,
            target=target,
            activation=layer.activations[0].native,
        ),
    )


def _batch_norm(program: Program, layer: Layer) -> None:
    def emit(source: View, target: View) -> None:
        scale, shift = batch_norm_scale(layer.node, program.weights.weights.dense)
        program.engine.add_scale(
            mode=program.mode,
            source=source,
            target=target,
            scale=scale,
            shift=shift,
            activation=layer.activations[0].native,
        )

    _same_shape(program, layer, emit)


def _lrn(program: Program, layer: Layer) -> None:
    node = layer.node
    _same_shape(
        program,
        layer,
        lambda source, target: program.engine.add_lrn(
            mode=program.mode,
            source=source,
            target=target,
            size=node["size"],
            alpha=float(node["alpha"]),
            beta=float(node["beta"]),
            k=float(node["k"]),
        ),
    )


def _softmax(program: Program, layer: Layer) -> None:
    shape = program.shapes[layer.output]
    axis = layer.node["axis"] % (len(shape) + 1) - 1
    _same_shape(
        program,
        layer,
        lambda source, target: program.engine.add_softmax(
            mode=program.mode,
            source=source,
            target=target,
            outer=math.prod(shape[:axis]),
            axis=shape[axis],
            inner=math.prod(shape[axis + 1 :]),
            log=layer.op == "log_softmax",
        ),
    )


def _rename(program: Program, layer: Layer) -> None:
    """Flattening and reshaping move nothing: the value is compact."""
    program.alias(layer.output, layer.inputs[0])


def _add(program: Program, layer: Layer) -> None:
    left, right = layer.inputs
    program.read(left)
    program.read(right)
    program.make(layer.output)
    shape, left_strides, right_strides = broadcast(program.shapes[left], program.shapes[right])
    program.step(
        StepInfo(layer.output, "add", "add"),
        lambda: program.engine.add_add(
            mode=program.mode,
            left=program.view(left),
            right=program.view(right),
            target=program.view(layer.output),
            shape=shape,
            left_strides=left_strides,
            right_strides=right_strides,
        ),
    )


def broadcast(left: Shape, right: Shape) -> tuple[list[int], list[int], list[int]]:
    """The sum's shape as four axes, and the strides of both operands (0 where one is broadcast).

    Neighbouring axes on which both operands are whole, or the same one is broadcast, are merged.
    """
    sides: list[tuple[int, bool, bool]] = []
    for i, j in zip(left, right, strict=True):
        side = max(i, j)
        whole = (i == side, j == side)
        if side == 1:
            continue
        if sides and sides[-1][1:] == whole:
            sides[-1] = (sides[-1][0] * side, *whole)
        else:
            sides.append((side, *whole))
    if len(sides) > 4:
        raise GraphError(f"adding {list(left)} and {list(right)} broadcasts in too intricate a way")
    sides = [(1, True, True)] * (4 - len(sides)) + sides
    return [side for side, _, _ in sides], _strides(sides, 0), _strides(sides, 1)


def _strides(sides: list[tuple[int, bool, bool]], operand: int) -> list[int]:
    strides, stride = [], 1
    for size, *whole in reversed(sides):
        strides.append(stride if whole[operand] else 0)
        stride *= size if whole[operand] else 1
    return strides[::-1]


def _concat_outer(program: Program, layer: Layer) -> int:
    """How many times the inputs of a concatenation follow each other in one image."""
    shape = program.shapes[layer.output]
    return math.prod(shape[: layer.node["axis"] % (len(shape) + 1) - 1])


def _concat(program: Program, layer: Layer) -> None:
    """Inputs that were not written where they belong are copied there."""
    outer = _concat_outer(program, layer)
    program.make(layer.output)
    if outer != 1:
        for name in layer.inputs:
            program.read(name)
        program.step(
            StepInfo(layer.output, "concat", "copy"),
            lambda: program.engine.add_concat(
                mode=program.mode,
                sources=[program.view(name) for name in layer.inputs],
                target=program.view(layer.output),
                outer=outer,
            ),
        )
        return
    whole, first = program.slice_of(layer.output)
    start = 0
    for name in layer.inputs:
        if program.slices.get(name) != (whole, first + start):
            _copy_into(program, name, layer.output, start)
        start += math.prod(program.shapes[name])


def _copy_into(program: Program, name: str, whole: str, start: int) -> None:
    """A step that copies a compact value into another one, from a position on."""
    program.read(name)
    program.read(whole)  # live until here at least

    def emit() -> None:
        offset = program.view(whole).offset + start
        program.engine.add_concat(
            mode=program.mode,
            sources=[program.view(name)],
            target=compact(program.shapes[name])._replace(offset=offset),
            outer=1,
        )

    program.step(StepInfo(whole, "concat", "copy"), emit)


_LOWER: dict[str, Callable[[Program, Layer], None]] = {
    "conv": lower_conv,
    "linear": _linear,
    "max_pool": _pool,
    "avg_pool": _pool,
    "adaptive_avg_pool": _pool,
    "activate": _activate,
    "batch_norm": _batch_norm,
    "lrn": _lrn,
    "softmax": _softmax,
    "log_softmax": _softmax,
    "flatten": _rename,
    "reshape": _rename,
    "add": _add,
    "concat": _concat,
}
