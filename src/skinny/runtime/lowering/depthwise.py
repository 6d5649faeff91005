"""Depthwise convolutions: one input channel for each output channel. The kernel pads and strides by
itself, so that the input needs no copy."""

from collections.abc import Mapping
from typing import Any

from skinny._native import TensorProgram
from skinny.graph import Node
from skinny.runtime.lowering.chains import Images
from skinny.runtime.lowering.stages import Stage, clamping, operations
from skinny.runtime.step_info import StepInfo
from skinny.runtime.tensor_plan import TensorPlan


def is_depthwise(plan: TensorPlan, node: Node) -> bool:
    """Whether a node runs on the kernel for depthwise convolutions."""
    if node.op != "conv" or node["groups"] == 1:
        return False
    return plan.weights.shape(node["weight"])[1] == 1


def convolve_depthwise(
    plan: TensorPlan,
    stage: Stage,
    windows: Mapping[str, Any],
    source: Images,
    target: Images,
    samples: int,
) -> None:
    """windows: stride, padding and dilation of both axes."""
    view = target.view
    low, high, other = clamping(stage.activation)

    def add(p: TensorProgram) -> None:
        weights, bias = plan.weights.folded(
            stage.weight, stage.bias, stage.outputs, stage.form, stage.groups, stage.folds
        )
        p.add_depthwise(
            samples=samples,
            source_sample_stride=source.stride,
            target_sample_stride=target.stride,
            source=source.placed(plan),
            target=target.placed(plan),
            weights=weights.reshape(stage.outputs, *stage.shape[2:]),
            stride=tuple(windows["stride"]),
            padding=tuple(windows["padding"]),
            dilation=tuple(windows["dilation"]),
            bias=bias,
            low=low,
            high=high,
            activation=other.native,
        )

    work = operations(plan, [stage], samples * view.height * view.width)
    plan.step(StepInfo(stage.title, "conv", "depthwise", work), [source.value, target.value], add)
