"""Stored tensors as values."""

from skinny.graph import Node
from skinny.runtime.tensor_plan import Lowering, TensorPlan


def _constant(plan: TensorPlan, node: Node) -> None:
    name = node["tensor"]
    shape = plan.spec(node.output).shape
    plan.values[node.output] = plan.constant(name, shape, lambda: plan.tensor(name))


CONSTANT = Lowering(lambda facts, node: facts.spec(node.output).is_float, _constant)
