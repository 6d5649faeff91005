"""Operations that move nothing: their result is the input with other strides."""

from collections.abc import Callable

from skinny.graph import Node
from skinny.graph.values import axes_of, axis_of
from skinny.runtime import strided
from skinny.runtime.strided import Tensor
from skinny.runtime.tensor_plan import Facts, Lowering, TensorPlan, Value


def of_floats(facts: Facts, node: Node) -> bool:
    """Of floats: integers are few, and NumPy's views of them cost as little."""
    return isinstance(node.inputs[0], str) and facts.spec(node.inputs[0]).is_float


def _permuted(plan: TensorPlan, node: Node, x: Tensor) -> Tensor:
    return strided.permute(x, axes_of(node["axes"], len(x.shape)))


def _expanded(plan: TensorPlan, node: Node, x: Tensor) -> Tensor:
    return strided.expand(x, plan.spec(node.output).shape)


def _sliced(plan: TensorPlan, node: Node, x: Tensor) -> Tensor:
    axis = axis_of(node["axis"], len(x.shape))
    start, _, step = slice(node["start"], node["end"], node["step"]).indices(x.shape[axis])
    return strided.take(x, axis, start, plan.spec(node.output).shape[axis], step)


def _selected(plan: TensorPlan, node: Node, x: Tensor) -> Tensor:
    axis = axis_of(node["axis"], len(x.shape))
    return strided.select(x, axis, node["index"] % x.shape[axis])


_VIEWS: dict[str, Callable[[TensorPlan, Node, Tensor], Tensor]] = {
    "permute": _permuted,
    "expand": _expanded,
    "slice": _sliced,
    "select": _selected,
}


def _view(plan: TensorPlan, node: Node) -> None:
    x = plan.value(node.inputs[0])
    plan.values[node.output] = x.viewed(_VIEWS[node.op](plan, node, x.tensor))


def _reshape(plan: TensorPlan, node: Node) -> None:
    shape = plan.spec(node.output).shape
    plan.values[node.output] = reshaped(plan, plan.value(node.inputs[0]), shape)


def reshaped(plan: TensorPlan, x: Value, shape: tuple[int, ...]) -> Value:
    """The value in another shape, copied if it must be."""
    made = strided.reshape(x.tensor, shape)
    if made is None:
        x = plan.copied(x, strided.reshaped_copy(x.tensor, shape))
        made = strided.reshape(x.tensor, shape)
        assert made is not None
    return x.viewed(made)


def _split(plan: TensorPlan, node: Node) -> None:
    x = plan.value(node.inputs[0])
    axis, start = axis_of(node["axis"], len(x.shape)), 0
    for name, length in zip(node.outputs, node["lengths"], strict=True):
        plan.values[name] = x.viewed(strided.take(x.tensor, axis, start, length))
        start += length


VIEW = Lowering(of_floats, _view)
RESHAPE = Lowering(of_floats, _reshape)
SPLIT = Lowering(of_floats, _split)
