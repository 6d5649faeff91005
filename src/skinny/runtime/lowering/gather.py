"""Stored tensors as values, and rows of them chosen by integers: embeddings."""

from skinny.graph import Node
from skinny.runtime import strided
from skinny.runtime.lowering.linear import feature_major
from skinny.runtime.step_info import StepInfo
from skinny.runtime.tensor_plan import Facts, Lowering, TensorPlan


def _accepts(facts: Facts, node: Node) -> bool:
    index = node.inputs[0]
    return isinstance(index, str) and index not in facts.constants


def _embedding(plan: TensorPlan, node: Node) -> None:
    """The rows are written feature-major, as linear layers read them."""
    index, weight = plan.value(node.inputs[0]), node["weight"]
    shape = plan.spec(node.output).shape
    table = plan.constant(weight, plan.weights.shape(weight), lambda: plan.tensor(weight))
    many = len(shape) > 1 and shape[-2] >= plan.lanes
    strides = feature_major(shape, plan.lanes) if many else strided.row_major(shape)
    y = plan.make(node.output, strides)
    plan.step(
        StepInfo(weight.removesuffix(".weight"), node.op, "gather"),
        [index, table, y],
        lambda p: p.add_gather(table=plan.at(table), index=plan.at(index), target=plan.at(y)),
    )


def _constant(plan: TensorPlan, node: Node) -> None:
    name = node["tensor"]
    shape = plan.spec(node.output).shape
    plan.values[node.output] = plan.constant(name, shape, lambda: plan.tensor(name))


CONSTANT = Lowering(lambda facts, node: facts.spec(node.output).is_float, _constant)
EMBEDDING = Lowering(_accepts, _embedding)
