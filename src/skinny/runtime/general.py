"""A network of any graph: several inputs of any type, free sizes, operations without a kernel."""

import functools
import threading
import warnings
from collections import Counter, OrderedDict
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from skinny import native
from skinny.errors import SkinnyError
from skinny.graph import Graph, from_json, operation, specialize
from skinny.graph.ops.int8 import INT8_OPS
from skinny.graph.specialize import ROOM
from skinny.graph.values import Shape
from skinny.packing import PackedFile
from skinny.runtime.classifier import Classifier
from skinny.runtime.held import HeldTensors, tensor_spec
from skinny.runtime.images import Images
from skinny.runtime.inputs import bind, only_input, random_inputs
from skinny.runtime.memory import Account, MemoryLimitError, memory_limit
from skinny.runtime.mixed import Mixed, largest_result
from skinny.runtime.profile import Profile, profile_mixed
from skinny.runtime.weights import Weights

if TYPE_CHECKING:  # needs the native extension
    from skinny.runtime.shared_weights import SharedWeights

_MOST_SHAPES = 8  # input shapes whose plans are kept


class GeneralNetwork(Classifier):
    """Runs a graph of format 2. Call it with arrays, by position or by name:

        net = skinny.load("bert.skinny")
        outputs = net(input_ids=ids, attention_mask=mask)

    Returns what the model returned: an array, a tuple, or a dictionary with the model's keys. Plans
    are made for each shape of the inputs; the latest eight are kept, fewer where memory is short.
    Several threads may call one network; `max_memory` is then for each of them.
    """

    def __init__(
        self,
        file: PackedFile,
        *,
        threads: int | None = None,
        low_memory: bool = False,
        max_memory: int | None = None,
    ) -> None:
        self._graph: Graph = from_json(file.graph, lambda name: tensor_spec(file, name))
        names = {
            node[field]
            for node in self._graph.nodes
            for field in operation(node.op).stored
            if node[field] is not None
        }
        self._low_memory, self._limit = low_memory, memory_limit(max_memory)
        self._tensors = HeldTensors(file, names, self._limit)
        self._spec = {name: tensor_spec(file, name) for name in names}
        self._dense: dict[str, NDArray[Any]] = {}  # tensors of references, unless low_memory
        self._by_shape: OrderedDict[tuple[Any, ...], Mixed] = OrderedDict()
        self._held = 0  # bytes that the network keeps between calls, with all of these
        self._images = _images(self._graph, file.preprocessing)
        self._lock = threading.Lock()
        self._warned = False
        self.labels = file.labels
        self.threads = native.threads() if threads is None else threads
        self._weights: SharedWeights | None = None  # made with the first native program

    @property
    def inputs(self) -> dict[str, tuple[int | str, ...]]:
        return {value.name: value.shape for value in self._graph.inputs}

    @property
    def input_shape(self) -> tuple[int, ...]:
        sides = self._graph.inputs[0].shape[1:]
        fixed = tuple(side for side in sides if isinstance(side, int))
        floats = self._graph.inputs[0].dtype == "float32"
        if len(self._graph.inputs) != 1 or len(fixed) != len(sides) or not floats:
            raise SkinnyError(
                f"this network does not take images of one size; its inputs are {self.inputs}"
            )
        return fixed

    @property
    def _last_operation(self) -> str:
        makers = {name: node.op for node in self._graph.nodes for name in node.outputs}
        return makers.get(self._graph.outputs[0], "")

    def __call__(self, *args: Any, preprocessed: bool = False, **named: Any) -> NDArray[Any] | Any:
        """The network's outputs. preprocessed: as for images, where the file stores how."""
        inputs = self._inputs(args, named, preprocessed)
        outputs = self._mixed(inputs).run(inputs)
        if self._graph.returns is None:
            return outputs[0] if len(outputs) == 1 else outputs
        return _structured(outputs, self._graph.returns)

    @property
    def preprocessing(self) -> Mapping[str, Any] | None:
        """What the file does to uint8 images before the first layer."""
        return None if self._images is None else self._images.preprocessing

    def profile(
        self,
        *args: Any,
        batch: int = 1,
        repeats: int = 10,
        preprocessed: bool = False,
        **named: Any,
    ) -> Profile:
        """Milliseconds of each native step and each operation that runs by its reference.

        For inputs given as in a call; without any, for a batch of random numbers (and of integers
        that are zero), if no other size is free.
        """
        if args or named:
            inputs = self._inputs(args, named, preprocessed)
        else:
            inputs = random_inputs(self._graph, batch)
        return profile_mixed(self._mixed(inputs), inputs, self.threads, repeats)

    def _inputs(
        self, args: tuple[Any, ...], named: Mapping[str, Any], preprocessed: bool
    ) -> dict[str, NDArray[Any]]:
        if self._images is None:
            return bind(self._graph, args, named)
        (name,) = self.inputs
        checked = self._images.check(only_input(name, args, named), preprocessed=preprocessed)
        return {name: self._images.floats(checked)}

    def _mixed(self, inputs: Mapping[str, NDArray[Any]]) -> Mixed:
        shapes: dict[str, Shape] = {name: array.shape for name, array in inputs.items()}
        key = (self._threads, *sorted(shapes.items()))
        with self._lock:  # one thread plans; others wait rather than plan the same
            known = self._by_shape.pop(key, None)
            while len(self._by_shape) >= _MOST_SHAPES:
                self._by_shape.popitem(last=False)
            if known is None or self._held + known.values > self._limit.max_memory:
                known = self._prepared(known or self._specialized(shapes))
            self._by_shape[key] = known
            return known

    def _specialized(self, shapes: Mapping[str, Shape]) -> Mixed:
        taken, limit = self._tensors.bytes, self._limit
        special = specialize(
            self._graph,
            shapes,
            self._spec.get,
            self._tensors.tensor,
            room=min(ROOM, limit.max_memory // 64),
            on_constants=lambda size: limit.check(
                taken + size, "an input of this size", "give it smaller inputs"
            ),
        )
        limit.check(
            taken + largest_result(special), "an input of this size", "give it smaller inputs"
        )
        if self._weights is None:
            self._weights = _shared_weights(self._tensors, self.threads, self._int8_weights())
        return Mixed(
            self._graph,
            special,
            self._tensor,
            self._spec.get,
            self._weights,
            self._threads,
            low_memory=self._low_memory,
        )

    def _prepared(self, mixed: Mixed) -> Mixed:
        """With its weights. Where there is not memory enough, programs of other shapes are
        dropped."""
        try:
            self._prepare(mixed)
        except MemoryLimitError:
            if not self._by_shape:
                raise
            self._by_shape.clear()
            self._dense.clear()
            self._prepare(mixed)
        self._warn(mixed)
        return mixed

    def _prepare(self, mixed: Mixed) -> None:
        account = Account(self._limit)
        account.add("packed tensors", self._tensors.bytes)
        for held in self._weights.kept_forms if self._weights is not None else ():
            account.add(id(held), held.native.bytes + held.bias.nbytes)
        shared: set[str] = set()  # layers whose weights programs of other shapes hold
        for other in self._by_shape.values():
            other.hold(account)
            shared.update(other.layers)
        mixed.hold(account)
        account.add("values", mixed.values)
        if not mixed.prepared:
            new = sum(size for name, size in mixed.layers.items() if name not in shared)
            account.check(account.total + new)
        mixed.prepare(account)
        self._held = account.total - mixed.values

    def _int8_weights(self) -> list[str]:
        """The weights that one layer in int8 alone reads, unless they are read at every run."""
        if self._low_memory:
            return []
        reads = Counter(name for node in self._graph.nodes for name in node.tensors)
        layers = [n for n in self._graph.nodes if n.op in INT8_OPS]
        return [node["weight"] for node in layers if reads[node["weight"]] == 1]

    def _tensor(self, name: str) -> NDArray[Any]:
        """A tensor for a reference, decoded once."""
        if self._low_memory:
            return self._tensors.tensor(name)
        if name not in self._dense:
            self._dense[name] = self._tensors.tensor(name)
        return self._dense[name]

    def _warn(self, made: Mixed) -> None:
        if made.interpreted and not self._warned and native.extension() is not None:
            self._warned = True
            warnings.warn(
                f"these operations have no kernel and run by their NumPy references: "
                f"{', '.join(made.interpreted)}",
                RuntimeWarning,
                stacklevel=5,
            )


def _shared_weights(
    tensors: HeldTensors, threads: int, int8: Iterable[str]
) -> "SharedWeights | None":
    if native.extension() is None:
        return None
    from skinny.runtime.shared_weights import SharedWeights

    release = {name: functools.partial(tensors.release, name) for name in int8}
    return SharedWeights(Weights(tensors), threads, release)


def _images(graph: Graph, preprocessing: Mapping[str, Any] | None) -> Images | None:
    """What the network takes if it takes images and the file says how they are prepared."""
    if preprocessing is None or len(graph.inputs) != 1:
        return None
    shape = graph.inputs[0].shape[1:]
    if graph.inputs[0].dtype != "float32" or not all(isinstance(side, int) for side in shape):
        return None
    return Images(tuple(int(side) for side in shape), preprocessing)


def _structured(outputs: tuple[NDArray[Any], ...], returns: Any) -> Any:
    """The outputs nested as the model returned them; None inside of it is what the model returned
    there."""
    if returns is None:
        return None
    if isinstance(returns, dict):
        return {key: _structured(outputs, value) for key, value in returns.items()}
    if isinstance(returns, list):
        return tuple(_structured(outputs, value) for value in returns)
    return outputs[returns]
