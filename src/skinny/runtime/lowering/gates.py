"""Images times a number for each channel, as squeeze-and-excitation ends: the 1x1 convolution that
reads the product multiplies its tiles when it copies them, and the product is not made."""

from typing import NamedTuple

from skinny.graph import Node
from skinny.runtime import strided
from skinny.runtime.layout import Buffer
from skinny.runtime.tensor_plan import Expression, TensorPlan, Value


class Gated(NamedTuple):
    """image: [samples, channels, height, width]; factors: [samples, channels]."""

    image: Value
    factors: Value


def gated(plan: TensorPlan, user: Node | None, made: Expression) -> Gated | None:
    """The operands of a product whose only reader is a 1x1 convolution; None for anything else."""
    if (
        user is None
        or made.opcode != "mul"
        or len(made.shape) != 4
        or not _is_pointwise(plan, user)
    ):
        return None
    values = [value for value in made.operands if isinstance(value, Value)]
    samples, channels, *sides = made.shape
    images = [value for value in values if value.shape == made.shape]
    numbers = [value for value in values if value.shape == (samples, channels, 1, 1)]
    if len(images) != 1 or len(numbers) != 1 or sides == [1, 1] or channels == 1:
        return None
    rows = strided.reshape(numbers[0].tensor, (samples, channels))
    in_arena = all(isinstance(value.home, Buffer) for value in values)
    if rows is None or rows.strides[1] != 1 or not in_arena:
        return None
    return Gated(images[0], numbers[0].viewed(rows))


def _is_pointwise(plan: TensorPlan, node: Node) -> bool:
    if node.op != "conv" or node["groups"] != 1:
        return False
    plain = set(node["stride"]) == {1} and set(node["padding"]) == {0}
    return plain and plan.weights.shape(node["weight"])[2:] == (1, 1)
