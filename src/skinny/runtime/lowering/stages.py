"""Convolutions and linear layers with what is computed in their epilogue, and their weights."""

import math
from dataclasses import dataclass, field

import numpy as np

from skinny import _native
from skinny._native import ActivationKind
from skinny.graph import Node
from skinny.runtime.convolution import Geometry, block_taps, geometry, pointwise_taps
from skinny.runtime.fold import batch_norm_scale
from skinny.runtime.fuse import NONE, Activation, activation_of
from skinny.runtime.layout import Shape
from skinny.runtime.shared_weights import Fold, Form, Held
from skinny.runtime.tensor_plan import TensorPlan

POINTWISE = {"stride": (1, 1), "padding": (0, 0), "dilation": (1, 1)}


@dataclass
class Stage:
    """A layer with weights, what is folded into them, and the activation after it.

    shape: of the weight as [outputs, inputs of a group, kernel rows, kernel columns]; form: how it
    is stored. output: the value it makes, all of that included.
    """

    weight: str
    bias: str | None
    shape: tuple[int, int, int, int]
    output: str
    groups: int = 1
    form: Form = "rows"
    folds: tuple[Fold, ...] = ()
    activation: Activation = field(default=NONE)

    @property
    def outputs(self) -> int:
        return self.shape[0]

    @property
    def title(self) -> str:
        return self.weight.removesuffix(".weight")


def activation(node: Node) -> Activation | None:
    """The activation a node is, or None."""
    if node.op == "clamp":
        low, high = node["min"], node["max"]
        return Activation(
            ActivationKind.clamp,
            -math.inf if low is None else float(low),
            math.inf if high is None else float(high),
        )
    return activation_of({"op": node.op, **node.attributes})


def absorb(plan: TensorPlan, stage: Stage, channel_axis: int) -> Stage:
    """Folds what follows into the stage: batch norms and products with a number per channel, then
    an activation; each only if it is the only reader of what comes before."""
    while (user := plan.sole_user(stage.output)) is not None:
        fold = _fold(plan, user, stage, channel_axis)
        if fold is None:
            break
        stage.folds, stage.output = (*stage.folds, fold), user.output
        plan.claim(user)
    user = plan.sole_user(stage.output)
    following = None if user is None else activation(user)
    if user is not None and following is not None:
        stage.activation, stage.output = following, user.output
        plan.claim(user)
    return stage


def _fold(plan: TensorPlan, user: Node, stage: Stage, channel_axis: int) -> Fold | None:
    if user.op == "batch_norm" and channel_axis == 1:
        return Fold(
            tuple(sorted(user.attributes.items())),
            lambda: batch_norm_scale(user.attributes, plan.weights.weights.dense),
        )
    if user.op != "mul":
        return None
    others = [value for value in user.inputs if value != stage.output]
    shape = plan.spec(user.output).shape
    if len(others) != 1 or shape != plan.spec(stage.output).shape:
        return None
    (other,) = others
    factor = plan.facts.constants.get(other) if isinstance(other, str) else np.asarray(other)
    if factor is None or factor.size not in (1, stage.outputs):
        return None
    sides = (*[1] * (len(shape) - factor.ndim), *factor.shape)
    if factor.size > 1 and sides[channel_axis] != stage.outputs:
        return None
    numbers = np.broadcast_to(factor.reshape(-1), stage.outputs).astype(np.float32)
    return Fold(numbers.tobytes(), lambda: (numbers, np.zeros_like(numbers)))


def kernel(plan: TensorPlan, stage: Stage) -> str:
    _, _, height, width = stage.shape
    return plan.weights.kernel(stage.weight, stage.outputs // stage.groups, height * width)


def hold(plan: TensorPlan, stage: Stage, form: Geometry, out: Shape) -> Held:
    """The stage's weights as those of a convolution."""
    dense = kernel(plan, stage) == "dense"
    density = plan.weights.density(stage.weight)
    held = plan.weights.convolution(
        stage.weight,
        stage.bias,
        outputs=stage.outputs,
        groups=stage.groups,
        block=block_taps(form, out, plan.lanes, density, dense, interleaved=False),
        dense=dense,
        form=stage.form,
        folds=stage.folds,
    )
    plan.held.append(held)
    return held


def native(
    plan: TensorPlan, stage: Stage, form: Geometry, out: Shape, *, first: bool
) -> _native.Stage:
    """A stage of a chain, the first of which reads the arena and others the scratch buffer."""
    if not first:
        inputs = stage.shape[1] * stage.groups
        form = geometry(POINTWISE, (inputs, *out[1:]), stage.shape, (stage.outputs, *out[1:]))
    held = hold(plan, stage, form, out)
    assert isinstance(held.native, _native.ConvWeights)
    if first:
        offsets, stride = form.taps.reshape(-1).astype(np.int32), form.group_stride
    else:
        offsets, stride = pointwise_taps(stage.shape[1])
    low, high, other = clamping(stage.activation)
    return _native.Stage(
        weights=held.native,
        offsets=offsets,
        group_stride=stride,
        bias=held.bias,
        low=low,
        high=high,
        activation=other.native,
    )


def clamping(given: Activation) -> tuple[float, float, Activation]:
    """Clamping is done in registers; any other activation on the scratch buffer."""
    if given.kind == ActivationKind.clamp:
        return given.a, given.b, NONE
    return -np.inf, np.inf, given


def operations(plan: TensorPlan, stages: list[Stage], positions: int) -> int:
    """Multiplications and additions, those with zeros not counted."""
    return 2 * positions * sum(plan.weights.kept(stage.weight) for stage in stages)
