"""One node of an ONNX graph, as the registry's import functions see it."""

from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np

from skinny.graph.builder import Builder, UnsupportedError
from skinny.graph.graph import Operand
from skinny.graph.values import Array, own_dtype, spec_of


class Tensors(Protocol):
    """The model's initializers, and tensors made while importing."""

    def array(self, name: str) -> Array | None: ...
    def stored(self, name: str) -> str: ...
    def add(self, array: Array, value: str | None = None) -> str: ...


class Call:
    """`which` is an input's index or an attribute's name; "opset" and "outputs" (how many there
    are) are there for every node.

    values: what each value of the ONNX graph has become. dtypes: ONNX's numbers of types -> ours.
    """

    def __init__(
        self,
        inputs: list[str],
        outputs: list[str],
        attributes: Mapping[str, Any],
        builder: Builder,
        values: Mapping[str, Operand],
        tensors: Tensors,
        dtypes: Mapping[int, str],
    ) -> None:
        self._inputs, self._outputs, self._attributes = inputs, outputs, attributes
        self._g, self._values, self._tensors, self._dtypes = builder, values, tensors, dtypes

    @property
    def result_dtype(self) -> str:
        if "to" not in self._attributes:  # CastLike
            return self._g.spec(self.value(1)).dtype
        kind = self._attributes["to"]
        if kind not in self._dtypes:
            raise UnsupportedError(f"to the type {kind}")
        return self._dtypes[kind]

    @property
    def first(self) -> Operand:
        return self.value(0)

    def has(self, which: int | str) -> bool:
        if isinstance(which, str):
            return which in self._attributes
        return which < len(self._inputs) and self._inputs[which] != ""

    def value(self, which: int | str) -> Operand:
        name = self._name(which)
        if name in self._values:
            return self._values[name]
        array = self._tensors.array(name)
        if array is None:
            raise UnsupportedError(f"of {name!r:.60}, which nothing computes")
        if array.ndim == 0 and np.isfinite(array):
            number: bool | int | float = array.item()
            if spec_of(number).dtype == array.dtype:
                return number
        return str(self._g.emit("constant", tensor=self._tensors.stored(name)))

    def values(self, which: int | str) -> list[Operand]:
        assert isinstance(which, int)
        return [self.value(at) for at in range(which, len(self._inputs))]

    def is_stored(self, which: int | str) -> bool:
        return self._array(which) is not None

    def stored(self, which: int | str) -> str | None:
        if not self.has(which):
            return None
        array, name = self.array(which), self._name(which)
        if name not in self._values:
            return self._tensors.stored(name)
        return self._g.stored_as(self._values[name]) or self._tensors.add(array, name)

    def stored_list(self, which: int | str) -> list[str]:
        raise UnsupportedError("with a list of weights")

    def array(self, which: int | str) -> Array:
        array = self._array(which)
        if array is None:
            raise UnsupportedError("with weights that depend on the input")
        return array

    def _array(self, which: int | str) -> Array | None:
        """A stored tensor, or what is computed from such alone."""
        name = self._name(which)
        if name in self._values:
            return self._g.known(self._values[name])
        return self._tensors.array(name)

    def store(self, array: Array) -> str:
        return self._tensors.add(array)

    def shape(self, which: int | str) -> tuple[int, ...]:
        if self.is_stored(which):
            return self.array(which).shape
        shape = self._g.shape(self.value(which))
        if None in shape:
            raise UnsupportedError("with sizes that depend on the input's")
        return tuple(side for side in shape if side is not None)

    def plain(self, which: int | str, default: Any = None) -> Any:
        if isinstance(which, str):
            own = {"outputs": len(self._outputs)}
            return self._attributes.get(which, own.get(which, default))
        if not self.has(which):
            return default
        if self.is_stored(which):
            return self.array(which).tolist()
        value = self.value(which)
        known = self._g.known(value)
        if known is not None:
            return known.tolist()
        spec = self._g.spec(value)
        if spec.dtype not in ("int64", "int32") or spec.ndim > 1:
            raise UnsupportedError("with an argument that is computed")
        if spec.ndim == 0:
            return value
        (count,) = self._g.shape(value)
        if count is None:
            raise UnsupportedError("with a number of arguments that depends on the input")
        items = [self._g.emit("select", value, axis=0, index=at) for at in range(count)]
        found = [self._g.known(item) for item in items]
        return [n if a is None else a.item() for n, a in zip(items, found, strict=True)]

    def size(self, which: int | str) -> int | str:
        given = self.plain(which)
        if isinstance(given, list):
            (given,) = given
        if not isinstance(given, int | str):
            raise UnsupportedError("with a size that is not an integer")
        return given

    def _name(self, which: int | str) -> str:
        if not isinstance(which, int) or not self.has(which):
            raise UnsupportedError(f"without its input {which}")
        return self._inputs[which]


def as_own(array: Array) -> Array:
    """An array in the type it is computed in."""
    return np.asarray(array, own_dtype(array.dtype))
