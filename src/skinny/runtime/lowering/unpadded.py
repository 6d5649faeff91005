"""Convolutions whose kernels pad and stride by themselves, so that the input needs no copy:
depthwise ones (one input channel for each output channel), and dense first layers."""

from collections.abc import Mapping
from typing import Any

from skinny._native import DirectWeights, TensorProgram
from skinny.graph import Node
from skinny.runtime.convolution import is_direct
from skinny.runtime.lowering.chains import Images
from skinny.runtime.lowering.stages import Stage, clamping, kernel, operations
from skinny.runtime.step_info import StepInfo
from skinny.runtime.strided import Shape
from skinny.runtime.tensor_plan import TensorPlan


def is_depthwise(plan: TensorPlan, node: Node) -> bool:
    """Whether a node runs on the kernel for depthwise convolutions."""
    if node.op != "conv" or node["groups"] == 1:
        return False
    return plan.weights.shape(node["weight"])[1] == 1


def is_direct_stage(plan: TensorPlan, stage: Stage, windows: Mapping[str, Any], out: Shape) -> bool:
    """Whether a stage by itself runs on the kernel for dense first layers. out: [channels, height,
    width]."""
    dense = kernel(plan, stage) == "dense"
    return dense and is_direct(windows, stage.shape, out, plan.lanes)


def convolve_unpadded(
    plan: TensorPlan,
    stage: Stage,
    windows: Mapping[str, Any],
    source: Images,
    target: Images,
    samples: int,
    *,
    depthwise: bool,
) -> None:
    """windows: stride, padding and dilation of both axes."""
    view = target.view
    low, high, other = clamping(stage.activation)

    def add(p: TensorProgram) -> None:
        common: dict[str, Any] = {
            "samples": samples,
            "source_sample_stride": source.stride,
            "target_sample_stride": target.stride,
            "source": source.placed(plan),
            "target": target.placed(plan),
            "stride": tuple(windows["stride"]),
            "padding": tuple(windows["padding"]),
            "low": low,
            "high": high,
            "activation": other.native,
        }
        if depthwise:
            weights, bias = plan.weights.folded(
                stage.weight, stage.bias, stage.outputs, stage.form, stage.groups, stage.folds
            )
            kernels = weights.reshape(stage.outputs, *stage.shape[2:])
            dilation = tuple(windows["dilation"])
            p.add_depthwise(weights=kernels, dilation=dilation, bias=bias, **common)
        else:
            held = plan.weights.direct(stage.weight, stage.bias, stage.shape, stage.folds)
            plan.held.append(held)
            assert isinstance(held.native, DirectWeights)
            p.add_direct_conv(weights=held.native, bias=held.bias, **common)

    work = operations(plan, [stage], samples * view.height * view.width)
    info = StepInfo(stage.title, "conv", "depthwise" if depthwise else "direct", work)
    plan.step(info, [source.value, target.value], add)
