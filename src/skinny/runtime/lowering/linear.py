"""Linear layers over tokens: a token is a pixel, and the layer a 1x1 convolution.

Tokens [.., T, F] lie feature-major, [..][F][T]: the convolution's tiles are vectors of tokens. Few
tokens lie row by row, and each is multiplied on its own.
"""

import math

from skinny._native import TILE_VECTORS, LinearWeights, TensorProgram
from skinny.graph import Node
from skinny.runtime import strided
from skinny.runtime.convolution import geometry
from skinny.runtime.layout import View
from skinny.runtime.lowering.chains import Images, convolve
from skinny.runtime.lowering.stages import POINTWISE, Stage, absorb, operations
from skinny.runtime.step_info import StepInfo
from skinny.runtime.strided import Shape, Tensor
from skinny.runtime.tensor_plan import Facts, Lowering, TensorPlan, Value
from skinny.runtime.tiles import choose_tile

# Bytes of a tile between two layers, at most: most of a second-level cache.
_BETWEEN = 400 << 10
_MANY_TILES = 8  # of a thread, where one more or less matters little


def _accepts(facts: Facts, node: Node) -> bool:
    return facts.spec(node.inputs[0]).is_float


def _linear(plan: TensorPlan, node: Node) -> None:
    x = plan.value(node.inputs[0])
    # other readers get the input as it is laid out here: they are mostly of the same kind
    plan.values[str(node.inputs[0])] = multiply(plan, _stage(plan, node, len(x.shape) - 1), x)


def _stage(plan: TensorPlan, node: Node, channel_axis: int) -> Stage:
    rows, columns = plan.weights.shape(node["weight"])
    if node["transposed"]:
        rows, columns = columns, rows
    stage = Stage(
        node["weight"],
        node["bias"],
        (rows, columns, 1, 1),
        node.output,
        form="columns" if node["transposed"] else "rows",
    )
    return absorb(plan, stage, channel_axis)


def multiply(plan: TensorPlan, stage: Stage, x: Value) -> Value:
    """Makes the stage's output, [..., outputs], of x [..., inputs]. Returns x, or the copy of x in
    the layout that was needed."""
    x = plan.in_arena(x)
    if math.prod(x.shape[:-1]) < plan.lanes:
        if not strided.is_row_major(x.tensor):
            x = plan.copied(x, strided.row_major(x.shape))
        _rows(plan, stage, x)
    else:
        if _token_axes(x.tensor, plan.lanes) is None:
            x = plan.copied(x, feature_major(x.shape, plan.lanes))
        _tokens(plan, stage, x)
    return x


def _rows(plan: TensorPlan, stage: Stage, x: Value) -> None:
    y = plan.make(stage.output)
    rows = math.prod(x.shape[:-1])
    source = x.viewed(x.tensor._replace(shape=(rows, x.shape[-1]), strides=(x.shape[-1], 1)))
    target = y.viewed(y.tensor._replace(shape=(rows, stage.outputs), strides=(stage.outputs, 1)))
    info = StepInfo(stage.title, "linear", "rows", operations(plan, [stage], rows))

    def add(p: TensorProgram) -> None:
        held = plan.weights.linear(stage.weight, stage.bias, form=stage.form, folds=stage.folds)
        assert isinstance(held.native, LinearWeights)
        plan.held.append(held)
        p.add_linear(
            source=plan.at(source),
            target=plan.at(target),
            weights=held.native,
            bias=held.bias,
            activation=stage.activation.native,
        )

    plan.step(info, [source, target], add)


def feature_major(shape: Shape, lanes: int) -> Shape:
    """The strides of tokens [B, .., T, F]: features apart, the tokens of a sample beside each
    other. Where these are less than a vector, those of all samples are."""
    last = len(shape) - 1
    if math.prod(shape[1:last]) >= lanes:
        return strided.ordered(shape, (0, last, *range(1, last)), last - 1, lanes)
    return strided.ordered(shape, (last, *range(last)), last, lanes)


def _token_axes(tensor: Tensor, lanes: int) -> tuple[list[int], list[int]] | None:
    """The leading axes as samples and tokens, slowest first; None where tokens do not lie beside
    each other in rows of a vector at least."""
    leading = [axis for axis in range(len(tensor.shape) - 1) if tensor.shape[axis] > 1]
    joined = strided.merged([tensor], leading)
    if not joined or len(joined) > 2 or joined[-1][1] != (1,) or joined[-1][0] < lanes:
        return None
    if tensor.shape[-1] > 1 and tensor.strides[-1] < joined[-1][0]:
        return None
    leading.sort(key=lambda axis: -tensor.strides[axis])
    tokens: list[int] = []
    while math.prod(tensor.shape[axis] for axis in tokens) < joined[-1][0]:
        tokens.insert(0, leading.pop())
    return leading, tokens


def _tokens(plan: TensorPlan, stage: Stage, x: Value) -> None:
    axes = _token_axes(x.tensor, plan.lanes)
    assert axes is not None
    samples, tokens = axes
    last = len(x.shape) - 1
    single = [axis for axis in range(last) if axis not in samples and axis not in tokens]
    batch = math.prod(x.shape[axis] for axis in samples)
    width = math.prod(x.shape[axis] for axis in tokens)
    stages = [stage]
    if (after := _after(plan, stage, batch, width)) is not None:
        plan.claim(after)
        stages.append(_stage(plan, after, last))
        stage = stages[-1]
    shape = (*x.shape[:-1], stage.outputs)
    strides = strided.ordered(shape, (*single, *samples, last, *tokens), len(tokens), plan.lanes)
    inputs = x.shape[-1]
    apart = x.tensor.strides[-1] if inputs > 1 else width
    view = View(0, inputs, 1, width, apart, width, 0)
    first = stages[0]
    form = geometry(POINTWISE, (inputs, 1, width), first.shape, (first.outputs, 1, width), view)
    made = strided.reshape(Tensor(0, 0, shape, strides), plan.spec(stage.output).shape)
    assert made is not None  # another shape only where one axis is not 1
    y = plan.make(stage.output, made.strides)
    source_stride = x.tensor.strides[samples[-1]] if samples else 0
    source = Images(x, view, source_stride)
    apart = strides[-1] if stage.outputs > 1 else width
    target = Images(
        y,
        View(0, stage.outputs, 1, width, apart, width, 0),
        strides[samples[-1]] if samples else 0,
    )
    convolve(plan, stages, source, target, form, batch, "linear")


def _after(plan: TensorPlan, stage: Stage, samples: int, width: int) -> Node | None:
    """The linear layer that alone reads a wider one, tile by tile: what lies between them, as in
    the perceptrons of transformers, stays in the second-level cache. None where there is none, or
    where threads would not get as many tiles each."""
    user = plan.sole_user(stage.output)
    if user is None or user.op != "linear" or stage.outputs <= stage.shape[1]:
        return None
    if len(plan.spec(stage.output).shape) != len(plan.spec(user.output).shape):
        return None
    tiles = samples * choose_tile(1, width, width, plan.lanes, 1).tiles
    even = tiles % plan.threads == 0 or tiles >= _MANY_TILES * plan.threads
    return user if even and 4 * stage.outputs * TILE_VECTORS * plan.lanes <= _BETWEEN else None


LINEAR = Lowering(_accepts, _linear)
