"""The plan of a tensor program: where the values of a segment lie, and its steps in order.

First all steps and their memory are planned, without reading any weights; then `emit` hands them to
the native program. A value is a strided tensor in a buffer of the arena, or in a constant.
"""

import math
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from skinny._native import Engine, TensorProgram
from skinny.graph import Node, Spec
from skinny.graph.graph import Operand, TensorSpec
from skinny.graph.ops.int8 import INT8_OPS
from skinny.graph.values import Array, spec_of
from skinny.runtime import strided
from skinny.runtime.layout import Buffer, View, compact, plan_memory
from skinny.runtime.shared_weights import SharedWeights
from skinny.runtime.step_info import StepInfo
from skinny.runtime.strided import Shape, Tensor

Floats = NDArray[np.float32]
_WEIGHTS = {  # of each kind of layer
    **dict.fromkeys(("conv", "conv_transpose", "linear", *INT8_OPS), ("weight",)),
    **dict.fromkeys(("lstm", "gru"), ("weight_input", "weight_hidden")),
}


@dataclass(eq=False)
class Constant:
    """Numbers that are known before the program runs. `make` is called when the program is made."""

    make: Callable[[], Floats]
    size: int
    storage: int = 0


@dataclass(frozen=True, eq=False)
class Value:
    """A tensor, its offset counted from the start of its buffer or constant."""

    home: Buffer | Constant
    tensor: Tensor
    padding: View | None = None  # of an image whose buffer has zeros around its rows

    @property
    def shape(self) -> Shape:
        return self.tensor.shape

    def viewed(self, tensor: Tensor) -> "Value":
        return Value(self.home, tensor)


@dataclass(frozen=True, eq=False)
class Expression:
    """An elementwise function that is not computed yet, because its only reader may do so."""

    opcode: str
    operands: "tuple[Value | Expression | float, ...]"
    shape: Shape
    name: str = ""  # of the graph's value


@dataclass(eq=False)
class Cells:
    """A value in eight bits (lowering/cells.py): four channels of a pixel are a cell.

    view: of one sample, from the start of the buffer. shape: of the graph's value. tokens: of a
    linear layer, whose features are the channels.
    """

    home: Buffer
    view: View
    stride: int  # from one sample to the next
    samples: int
    shape: Shape
    scale: float
    zero: int
    tokens: bool = False


class Facts(NamedTuple):
    """What a lowering may know of a node before anything is planned."""

    specs: Mapping[str, Spec]
    constants: Mapping[str, Array]
    tensor_spec: TensorSpec

    def spec(self, operand: Operand) -> Spec:
        return self.specs[operand] if isinstance(operand, str) else spec_of(operand)


class Lowering(NamedTuple):
    """How an operation runs natively. A node that is not accepted runs by its reference."""

    accepts: Callable[[Facts, Node], bool]
    lower: Callable[["TensorPlan", Node], None]


@dataclass
class TensorPlan:
    """nodes: of a segment, in order. outputs: values read by others. A step's function is called
    when the program is made; `at` tells it where a value lies."""

    nodes: Sequence[Node]
    inputs: Sequence[str]
    outputs: Sequence[str]
    facts: Facts
    weights: SharedWeights
    tensor: Callable[[str], Array]  # a stored tensor, dense
    threads: int
    values: dict[str, Value | Expression | Cells] = field(default_factory=dict)
    in_cells: dict[Hashable, Cells] = field(default_factory=dict)  # copies of values in eight bits
    taken_pads: dict[str, Node] = field(default_factory=dict)  # by the convolutions after them
    copies: dict[Hashable, Value] = field(default_factory=dict)  # of images, in other layouts
    infos: list[StepInfo] = field(default_factory=list)
    cells: int = 0  # of the arena
    held: list[object] = field(default_factory=list)  # weights that the program shares

    def __post_init__(self) -> None:
        self.lanes = Engine.lanes()
        self._steps: list[Callable[[TensorProgram], None]] = []
        self._buffers: list[Buffer] = []
        self._constants: dict[Hashable, Constant] = {}
        self._claimed: set[str] = set()
        self._joined: dict[str, Value] = {}  # concatenations that their inputs are written into
        self._entered: list[Value] = []  # where inputs are written
        self._between: dict[str, Spec] = {}
        self._users: dict[str, list[Node]] = {}
        for node in self.nodes:
            for name in node.inputs:
                if isinstance(name, str):
                    self._users.setdefault(name, []).append(node)
        self._outside = Counter(self.outputs)

    # ---- what is known of the graph

    def spec(self, operand: Operand) -> Spec:
        if isinstance(operand, str) and operand in self._between:
            return self._between[operand]
        return self.facts.spec(operand)

    def specify(self, name: str, shape: Shape) -> None:
        """A value between two steps of one node, which the graph does not have."""
        self._between[name] = Spec("float32", shape)

    def users(self, name: str) -> list[Node]:
        """The nodes of the segment that read a value."""
        return self._users.get(name, [])

    def is_output(self, name: str) -> bool:
        return name in self._outside

    def sole_user(self, name: str) -> Node | None:
        """The only reader of a value, if it is a node of this segment that has one result."""
        users = self.users(name)
        if len(users) != 1 or self.is_output(name) or len(users[0].outputs) != 1:
            return None
        return users[0]

    def is_last_use(self, name: str) -> bool:
        """Whether the only reader of a value may write its result over it: no other value lies
        where it does."""
        value = self.values.get(name)
        if self.sole_user(name) is None or not isinstance(value, Value) or name in self.inputs:
            return False
        others = [*self._joined.values(), *(v for n, v in self.values.items() if n != name)]
        return all(getattr(other, "home", None) is not value.home for other in others)

    def claim(self, node: Node) -> None:
        """Another node's step computes this node too."""
        self._claimed.update(node.outputs)

    # ---- values

    def value(self, operand: Operand) -> Value:
        """Where an operand lies; an expression is computed now."""
        found = self.values.get(operand) if isinstance(operand, str) else None
        if isinstance(found, Expression):
            from skinny.runtime.lowering.elementwise import compute

            found = compute(self, found)
        if isinstance(found, Cells):
            from skinny.runtime.lowering.cells import dequantized

            found = dequantized(self, found)
        if found is None:
            found = self._constant_value(operand)
        if isinstance(operand, str):
            self.values[operand] = found
        return found

    def _constant_value(self, operand: Operand) -> Value:
        spec = self.spec(operand)
        array = self.facts.constants[operand] if isinstance(operand, str) else np.asarray(operand)
        return self.constant(("value", operand), spec.shape, lambda: np.asarray(array))

    def constant(
        self, key: Hashable, shape: Shape, make: Callable[[], Array], strides: Shape | None = None
    ) -> Value:
        """Numbers known ahead, laid out by `strides`, row-major unless given."""
        strides = strides or strided.row_major(shape)
        key = (key, strides)
        if key not in self._constants:
            self._constants[key] = Constant(
                lambda: _laid_out(make(), shape, strides), math.prod(shape)
            )
        return Value(self._constants[key], Tensor(0, 0, shape, strides))

    def new(self, shape: Shape, strides: Shape | None = None) -> Value:
        """A new buffer, which the next step writes."""
        tensor = Tensor(0, 0, shape, strided.row_major(shape) if strides is None else strides)
        cells = max((n * s for n, s in zip(tensor.shape, tensor.strides, strict=True)), default=1)
        buffer = Buffer(compact((max(1, cells),)), len(self._steps))
        self._buffers.append(buffer)
        return Value(buffer, tensor)

    def make(self, name: str, strides: Shape | None = None) -> Value:
        """The value that the next step writes: a buffer of its own, or a slice of the concatenation
        that is its only reader, if that lies the same way."""
        shape = self.spec(name).shape
        wanted = strided.row_major(shape) if strides is None else strides
        made = self._in_concatenation(name, Tensor(0, 0, shape, wanted)) or self.new(shape, wanted)
        self.values[name] = made
        return made

    def make_padded(self, name: str, samples: int, view: View) -> Value:
        """An image with zeros around its rows, which the step that writes it must write too."""
        shape = (samples, view.channels, view.height, view.width)
        buffer = Buffer(compact((samples * view.positions,)), len(self._steps))
        self._buffers.append(buffer)
        strides = (view.positions, view.channel_stride, view.row_stride, 1)
        tensor = strided.reshape(Tensor(0, view.origin, shape, strides), self.spec(name).shape)
        assert tensor is not None
        made = Value(buffer, tensor, view)
        self.values[name] = made
        return made

    def _in_concatenation(self, name: str, wanted: Tensor) -> Value | None:
        user = self.sole_user(name)
        if user is None or user.op != "concat" or user.inputs.count(name) != 1:
            return None
        shapes = [self.spec(value).shape for value in user.inputs]
        axis, shape = user["axis"] % len(wanted.shape), self.spec(user.output).shape
        whole = self._joined.get(user.output)
        strides = strided.like(shape, wanted, self.lanes)
        tensor = whole.tensor if whole else Tensor(0, 0, shape, strides)
        at = user.inputs.index(name)
        target = strided.take(tensor, axis, sum(s[axis] for s in shapes[:at]), shapes[at][axis])
        if any(n > 1 and a != b for n, a, b in zip(*target[2:], wanted.strides, strict=True)):
            return None
        if whole is None:
            whole = self._joined[user.output] = self.new(shape, tensor.strides)
        return whole.viewed(target)

    def joined(self, name: str) -> Value | None:
        """The buffer of a concatenation into which some of its inputs were written."""
        return self._joined.get(name)

    def in_arena(self, value: Value) -> Value:
        """The value, or a copy where it is a constant: for steps that read the arena alone."""
        if isinstance(value.home, Buffer):
            return value
        return self.copied(value, strided.row_major(value.shape))

    def copied(self, value: Value, strides: Shape) -> Value:
        """A copy of a value in another layout."""
        made = self.new(value.shape, strides)
        self.copy(value, made)
        return made

    def copy(self, source: Value, target: Value, name: str = "") -> None:
        self.step(
            StepInfo(name or "layout", "copy", "strided"),
            [source, target],
            lambda p: p.add_copy(source=self.at(source), target=self.at(target)),
        )

    # ---- steps

    def step(
        self,
        info: StepInfo,
        values: Iterable[Value | Cells | None],
        add: Callable[[TensorProgram], None],
    ) -> None:
        """The next step reads and writes `values`; `add` adds it to the program."""
        for value in values:
            if value is not None and isinstance(value.home, Buffer):
                value.home.last = max(value.home.last, len(self._steps))
        self._steps.append(add)
        self.infos.append(info)

    def at(self, value: Value) -> Tensor:
        """Where a value lies, once memory is planned."""
        tensor = value.tensor
        if isinstance(value.home, Constant):
            return tensor._replace(storage=value.home.storage)
        return tensor._replace(offset=tensor.offset + value.home.view.offset)

    def lower(self, lowerings: Callable[[Node], Lowering]) -> None:
        """Plans all steps and their memory."""
        self._entered = [self.make(name) for name in self.inputs]
        for node in self.nodes:
            if self._claimed.isdisjoint(node.outputs):
                lowerings(node).lower(self, node)
        for name in self.outputs:
            home = self.value(name).home
            if isinstance(home, Buffer):
                home.last = len(self._steps)
        self.cells = plan_memory(self._buffers)

    def emit(self) -> TensorProgram:
        """The program, with its weights."""
        program = TensorProgram(cells=self.cells)
        for constant in self._constants.values():
            constant.storage = program.add_constant(values=constant.make())
        for name, value in zip(self.inputs, self._entered, strict=True):
            dtype = _stored_dtype(self.spec(name).dtype)
            program.add_input(target=self.at(value), dtype=dtype)
        for add in self._steps:
            add(program)
        for name in self.outputs:
            program.add_output(source=self.at(self.value(name)))
        return program

    @property
    def layers(self) -> dict[str, tuple[str, ...]]:
        """The stored weights of each layer, by the name of its first result."""
        return {
            node.outputs[0]: tuple(node[field] for field in _WEIGHTS[node.op])
            for node in self.nodes
            if node.op in _WEIGHTS
        }

    @property
    def constant_bytes(self) -> int:
        return 4 * sum(constant.size for constant in self._constants.values())


def _stored_dtype(dtype: str) -> str:
    return "int32" if dtype == "int8" else dtype


def _laid_out(array: Array, shape: Shape, strides: Shape) -> Any:
    """An array's elements in the order in which strides without gaps have them; integers and
    booleans as the bits of int32."""
    dtype = np.float32 if array.dtype.kind == "f" else np.int32
    order = strided.order_of(Tensor(0, 0, shape, strides))
    flat = np.ascontiguousarray(array.reshape(shape).transpose(order), dtype).reshape(-1)
    return flat.view(np.float32)
