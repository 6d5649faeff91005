"""LSTM and GRU: the input's product for all time steps at once, then the state's in turn."""

from skinny._native import LinearWeights, TensorProgram
from skinny.graph import Node
from skinny.runtime import strided
from skinny.runtime.lowering.linear import multiply
from skinny.runtime.lowering.stages import Stage
from skinny.runtime.step_info import StepInfo
from skinny.runtime.tensor_plan import Facts, Lowering, TensorPlan, Value


def _accepts(facts: Facts, node: Node) -> bool:
    return all(facts.spec(x).is_float for x in node.inputs)


def _vectors(plan: TensorPlan, value: Value) -> Value:
    """The value with the entries of its vectors beside each other."""
    if strided.is_row_major(value.tensor):
        return value
    return plan.copied(value, strided.row_major(value.shape))


def _projected(plan: TensorPlan, node: Node) -> Value:
    """[length, batch, gates * size]"""
    x = plan.value(node.inputs[0])
    rows, columns = plan.weights.shape(node["weight_input"])
    name = f"{node.outputs[0]}/projected"
    plan.specify(name, (*x.shape[:2], rows))
    stage = Stage(node["weight_input"], node["bias_input"], (rows, columns, 1, 1), name)
    # the layer of the other direction reads the same input
    plan.values[str(node.inputs[0])] = multiply(plan, stage, x)
    return _vectors(plan, plan.value(name))


def _recurrent(plan: TensorPlan, node: Node) -> None:
    projected = _projected(plan, node)
    firsts = [_vectors(plan, plan.value(x)) for x in node.inputs[1:]]
    target, *lasts = (plan.new(plan.spec(y).shape) for y in node.outputs)
    plan.values.update(zip(node.outputs, (target, *lasts), strict=True))
    weight = node["weight_hidden"]
    length, batch, _ = projected.shape

    def add(p: TensorProgram) -> None:
        held = plan.weights.linear(weight, node["bias_hidden"], form="rows", folds=())
        assert isinstance(held.native, LinearWeights)
        plan.held.append(held)
        first, last = [plan.at(x) for x in firsts], [plan.at(x) for x in lasts]
        p.add_recurrent(
            projected=plan.at(projected),
            h=first[0],
            c=first[1] if len(first) > 1 else None,
            target=plan.at(target),
            last_h=last[0],
            last_c=last[1] if len(last) > 1 else None,
            weights=held.native,
            bias=held.bias,
            reverse=node["reverse"],
        )

    info = StepInfo(weight, node.op, "rows", 2 * length * batch * plan.weights.kept(weight))
    plan.step(info, [projected, *firsts, target, *lasts], add)


RECURRENT = Lowering(_accepts, _recurrent)
