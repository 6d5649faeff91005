"""What every loaded network has: threads, labels, and class probabilities."""

from abc import ABC, abstractmethod
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from skinny.errors import SkinnyError
from skinny.runtime.images import Batch

Floats = NDArray[np.float32]


class Prediction(NamedTuple):
    """The most likely class of an image."""

    label: str  # its number where the file has no labels
    probability: float
    number: int  # of the class


class Classifier(ABC):
    """A network, used as a classifier where it is one: its one output is a row of class scores."""

    labels: list[str] | None

    @abstractmethod
    def __call__(self, *args: Any, preprocessed: bool = False, **named: Any) -> Any: ...

    @property
    @abstractmethod
    def inputs(self) -> dict[str, tuple[int | str, ...]]:
        """The shape of each input; names are sizes that the caller chooses."""

    @property
    @abstractmethod
    def input_shape(self) -> tuple[int, ...]:
        """The shape of one image: channels, height, width."""

    @property
    @abstractmethod
    def _last_operation(self) -> str:
        """The operation that computes the network's first output."""

    @property
    def threads(self) -> int:
        """How many threads a call computes with."""
        return self._threads

    @threads.setter
    def threads(self, count: int) -> None:
        if isinstance(count, bool) or not isinstance(count, int) or not 1 <= count <= 1024:
            raise SkinnyError(f"threads={count!r} is not possible; it may be 1 to 1024")
        self._threads = count

    def __repr__(self) -> str:
        inputs = ", ".join(f"{name} {list(shape)}" for name, shape in self.inputs.items())
        classes = "" if self.labels is None else f", {len(self.labels)} labels"
        return f"<{type(self).__name__} of {inputs}{classes}>"

    def label(self, index: int) -> str:
        """The name of a class; its number where the file has no labels."""
        known = self.labels is not None and index < len(self.labels)
        return self.labels[index] if self.labels is not None and known else str(index)

    def predict(self, x: Batch, *, preprocessed: bool = False) -> list[Prediction]:
        """The most likely class of each image of a batch, with its probability."""
        probabilities = self.probabilities(x, preprocessed=preprocessed)
        result = []
        for row, index in zip(probabilities, probabilities.argmax(1), strict=True):
            result.append(Prediction(self.label(int(index)), float(row[index]), int(index)))
        return result

    def probabilities(self, x: Batch, *, preprocessed: bool = False) -> Floats:
        """[batch, classes]: the softmax of the output, unless the network ends with one."""
        scores = self(x, preprocessed=preprocessed)
        if not isinstance(scores, np.ndarray) or scores.ndim != 2 or scores.dtype.kind != "f":
            raise SkinnyError("this network does not classify: its output is not one row of scores")
        if self._last_operation == "softmax":
            return scores
        shifted = np.exp(scores - scores.max(1, keepdims=True))
        result: Floats = shifted / shifted.sum(1, keepdims=True)
        return result
