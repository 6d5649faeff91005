"""Local response normalisation, over neighbouring channels."""

import math

from skinny._native import MAX_LRN_IN_PLACE
from skinny.graph import Node
from skinny.runtime import strided
from skinny.runtime.layout import View, compact
from skinny.runtime.step_info import StepInfo
from skinny.runtime.tensor_plan import Facts, Lowering, TensorPlan, Value


def _accepts(facts: Facts, node: Node) -> bool:
    return isinstance(node.inputs[0], str) and facts.spec(node.inputs[0]).is_float


def _lrn(plan: TensorPlan, node: Node) -> None:
    given = plan.value(node.inputs[0])
    x = plan.in_arena(given)
    if not strided.is_row_major(x.tensor):
        x = plan.copied(x, strided.row_major(x.shape))
    replaceable = x is not given or plan.is_last_use(str(node.inputs[0]))
    if replaceable and node["size"] <= MAX_LRN_IN_PLACE:
        y = plan.values[node.output] = x
    else:
        y = plan.make(node.output)
    samples, channels, *sides = x.shape
    view = compact((channels, math.prod(sides)))

    def placed(value: Value) -> View:
        return view._replace(offset=plan.at(value).offset)

    plan.step(
        StepInfo(node.output, node.op, "lrn"),
        [x, y],
        lambda p: p.add_lrn(
            samples=samples,
            source_sample_stride=x.tensor.strides[0] if samples > 1 else 0,
            target_sample_stride=y.tensor.strides[0] if samples > 1 else 0,
            source=placed(x),
            target=placed(y),
            size=node["size"],
            alpha=float(node["alpha"]),
            beta=float(node["beta"]),
            k=float(node["k"]),
        ),
    )


LRN = Lowering(_accepts, _lrn)
