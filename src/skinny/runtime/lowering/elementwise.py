"""Functions of single elements, with broadcasting: chains of them are one step.

An operation whose only reader is elementwise too is not computed by itself: it joins the
reader's expression.
"""

import math
from collections.abc import Callable

from skinny._native import MAX_MAP_REGISTERS, MAX_MAP_SOURCES, Opcode
from skinny.graph import Node, operation
from skinny.graph.graph import Operand
from skinny.runtime import strided
from skinny.runtime.fold import batch_norm_scale
from skinny.runtime.lowering.gates import gated
from skinny.runtime.step_info import StepInfo
from skinny.runtime.strided import Shape, Tensor
from skinny.runtime.tensor_plan import Constant, Expression, Facts, Lowering, TensorPlan, Value

Term = Value | Expression | float
_MOST_REGISTERS = MAX_MAP_REGISTERS - 12  # one more node adds at most six
_MOST_SOURCES = MAX_MAP_SOURCES - 3  # one more node adds at most three
_READABLE = ("float32", "bool", "uint8", "int32")


def _accepts(facts: Facts, node: Node) -> bool:
    """Floats come out; what goes in is floats, or integers that a cell of the arena can hold."""
    if not facts.spec(node.output).is_float:
        return False
    return all(
        not isinstance(x, str) or x in facts.constants or facts.spec(x).dtype in _READABLE
        for x in node.inputs
    )


def _lower(plan: TensorPlan, node: Node) -> None:
    terms = [_term(plan, x, cut=False) for x in node.inputs]
    if _registers(terms) > _MOST_REGISTERS or _sources(terms) > _MOST_SOURCES:
        terms = [_term(plan, x, cut=True) for x in node.inputs]
    shape = plan.spec(node.output).shape
    define(plan, node.output, _FUNCTIONS.get(node.op, _direct)(node, terms, shape))


def define(plan: TensorPlan, name: str, made: Term) -> None:
    """Gives a name to an expression, and computes it unless its only reader will."""
    shape = plan.spec(name).shape
    if isinstance(made, Value):  # a cast to what it is already
        plan.values[name] = made
        return
    assert isinstance(made, Expression)
    made = Expression(made.opcode, made.operands, shape, name)
    plan.values[name] = made
    user = plan.sole_user(name)
    if gated(plan, user, made) is not None:
        return
    if (
        user is None
        or operation(user.op).lowering != "map"
        or plan.spec(user.output).shape != shape
    ):
        plan.value(name)


def _term(plan: TensorPlan, operand: Operand, *, cut: bool) -> Term:
    if not isinstance(operand, str):
        return float(operand)
    constant = plan.facts.constants.get(operand)
    if constant is not None and constant.size == 1:
        return float(constant.reshape(()))
    found = plan.values.get(operand)
    if isinstance(found, Expression) and not cut:
        return found
    value = plan.value(operand)
    if plan.spec(operand).is_float:
        return value
    return Expression("from_int", (value,), value.shape)


def _direct(node: Node, terms: list[Term], shape: Shape) -> Term:
    return Expression(node.op, tuple(terms), shape)


def _power(node: Node, terms: list[Term], shape: Shape) -> Term:
    x, power = terms
    if power in (2.0, 3.0) and not isinstance(x, float):
        square = Expression("mul", (x, x), shape)
        return square if power == 2 else Expression("mul", (square, x), shape)
    if power == 0.5:
        return Expression("sqrt", (x,), shape)
    return Expression("pow", (x, power), shape)


def _clamp(node: Node, terms: list[Term], shape: Shape) -> Term:
    low, high = {"relu": (0.0, None), "relu6": (0.0, 6.0)}.get(node.op) or (
        node["min"],
        node["max"],
    )
    limits = (-math.inf if low is None else float(low), math.inf if high is None else float(high))
    return Expression("clamp", (terms[0], *limits), shape)


def _with_number(attribute: str) -> Callable[[Node, list[Term], Shape], Term]:
    return lambda node, terms, shape: Expression(node.op, (terms[0], float(node[attribute])), shape)


def _gelu(node: Node, terms: list[Term], shape: Shape) -> Term:
    name = "gelu" if node["approximate"] == "none" else "gelu_tanh"
    return Expression(name, (terms[0],), shape)


def _softplus(node: Node, terms: list[Term], shape: Shape) -> Term:
    numbers = (float(node["beta"]), float(node["threshold"]))
    return Expression("softplus", (terms[0], *numbers), shape)


def _cast(node: Node, terms: list[Term], shape: Shape) -> Term:
    return terms[0]


def _prelu(node: Node, terms: list[Term], shape: Shape) -> Term:
    """A slope for each channel stands along axis 1."""
    x, slope = terms
    if isinstance(slope, Value) and len(slope.shape) == 1 and len(shape) > 2:
        tensor = strided.reshape(slope.tensor, (slope.shape[0], *[1] * (len(shape) - 2)))
        assert tensor is not None
        slope = slope.viewed(tensor)
    return Expression("prelu", (x, slope), shape)


_FUNCTIONS: dict[str, Callable[[Node, list[Term], Shape], Term]] = {
    "pow": _power,
    **dict.fromkeys(("relu", "relu6", "clamp", "hardtanh"), _clamp),
    "leaky_relu": _with_number("slope"),
    "elu": _with_number("alpha"),
    "gelu": _gelu,
    "softplus": _softplus,
    "cast": _cast,
    "prelu": _prelu,
}


def _batch_norm(plan: TensorPlan, node: Node) -> None:
    """scale x + shift, per channel, where it was not folded into the layer before."""
    x, shape = _term(plan, node.inputs[0], cut=False), plan.spec(node.output).shape
    sides = (shape[1], *[1] * (len(shape) - 2))

    def vector(at: int) -> Value:
        return plan.constant(
            (node.output, at),
            sides,
            lambda: batch_norm_scale(node.attributes, plan.weights.weights.dense)[at],
        )

    scale, shift = vector(0), vector(1)
    define(plan, node.output, affine(x, scale, shift, shape))


def affine(x: Term, scale: Term | None, shift: Term | None, shape: Shape) -> Term:
    """scale x + shift, either of which may be missing."""
    if scale is not None:
        x = Expression("mul", (x, scale), shape)
    return x if shift is None else Expression("add", (x, shift), shape)


# ---- an expression as a step


def _registers(terms: list[Term]) -> int:
    """At most: one for each instruction, source and number."""
    inner = (_registers(list(term.operands)) for term in terms if isinstance(term, Expression))
    return len(terms) + sum(inner)


def _leaves(term: Term) -> list[Value]:
    if isinstance(term, Expression):
        return [leaf for operand in term.operands for leaf in _leaves(operand)]
    return [term] if isinstance(term, Value) else []


def _sources(terms: list[Term]) -> int:
    return len({id(leaf) for term in terms for leaf in _leaves(term)})


def compute(plan: TensorPlan, expression: Expression) -> Value:
    """The value of an expression, made by one step, laid out like its largest source."""
    shape = expression.shape
    leaves = list({id(leaf): leaf for leaf in _leaves(expression)}.values())
    like = _model(leaves, shape)
    strides = strided.row_major(shape) if like is None else strided.like(shape, like, plan.lanes)
    target = plan.make(expression.name, strides) if expression.name else plan.new(shape, strides)
    sources = [_relaid(plan, leaf, strides) for leaf in leaves]
    numbers, code = _code(expression, leaves)
    plan.step(
        StepInfo(expression.name, "map", " ".join(dict.fromkeys(name for name, *_ in code))),
        [*sources, target],
        lambda p: p.add_map(
            sources=[strided.expand(plan.at(source), shape) for source in sources],
            target=plan.at(target),
            code=[(Opcode[name], to, a, b, c) for name, to, a, b, c in code],
            numbers=numbers,
        ),
    )
    return target


def _model(leaves: list[Value], shape: Shape) -> Tensor | None:
    """The source whose order of axes the result gets: a whole one, of the arena if there is any."""
    whole = [leaf for leaf in leaves if leaf.shape == shape and leaf.tensor.size > 1]
    whole.sort(key=lambda leaf: (isinstance(leaf.home, Constant), 0 in leaf.tensor.strides))
    return whole[0].tensor if whole else None


def _relaid(plan: TensorPlan, value: Value, strides: Shape) -> Value:
    """A constant in the order of axes of the result, so that both are read alike."""
    home, tensor = value.home, value.tensor
    real = [axis for axis, side in enumerate(tensor.shape) if side > 1]
    if not isinstance(home, Constant) or len(real) < 2 or not strided.is_row_major(tensor):
        return value
    if tensor.offset or tensor.size != home.size:
        return value
    order = strided.order_of(
        Tensor(0, 0, tensor.shape, strides[len(strides) - len(tensor.shape) :])
    )
    wanted = strided.ordered(tensor.shape, order)
    return plan.constant((id(home), "relaid"), tensor.shape, home.make, wanted)


_Instruction = tuple[str, int, int, int, int]  # opcode, destination, operands


def _code(root: Expression, leaves: list[Value]) -> tuple[list[float], list[_Instruction]]:
    """Registers are the sources, then the numbers, then what instructions make."""
    numbers = list(dict.fromkeys(_numbers(root)))
    register = {id(leaf): at for at, leaf in enumerate(leaves)}
    first = len(leaves)
    code: list[_Instruction] = []

    def visit(term: Term) -> int:
        if isinstance(term, float):
            return first + numbers.index(term)
        if id(term) in register:
            return register[id(term)]
        assert isinstance(term, Expression)
        operands = [visit(operand) for operand in term.operands]
        register[id(term)] = first + len(numbers) + len(code)
        a, b, c = (*operands, *[0] * (3 - len(operands)))
        code.append((term.opcode, register[id(term)], a, b, c))
        return register[id(term)]

    visit(root)
    return numbers, code


def _numbers(term: Term) -> list[float]:
    if isinstance(term, Expression):
        return [number for operand in term.operands for number in _numbers(operand)]
    return [term] if isinstance(term, float) else []


MAP = Lowering(_accepts, _lower)
BATCH_NORM = Lowering(_accepts, _batch_norm)
