"""A packed model, ready to run."""

import math
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray

from skinny import native, packing
from skinny.errors import SkinnyError
from skinny.packing import GraphError, PackedFile
from skinny.runtime.classifier import Classifier
from skinny.runtime.fold import fold_batch_norms
from skinny.runtime.general import GeneralNetwork
from skinny.runtime.images import Images
from skinny.runtime.inputs import only_input
from skinny.runtime.interpreted import Interpreted
from skinny.runtime.live import live
from skinny.runtime.memory import memory_limit
from skinny.runtime.profile import Profile, profile
from skinny.runtime.shapes import infer
from skinny.runtime.tuning import store_choice, stored_choice, tune
from skinny.runtime.weights import Kernel, Weights

if TYPE_CHECKING:  # both need the native extension
    from skinny.runtime.low_memory import LayerByLayer
    from skinny.runtime.plan import Plan

Floats = NDArray[np.float32]


def load(
    path: str | os.PathLike[str],
    *,
    threads: int | None = None,
    low_memory: bool = False,
    max_memory: int | None = None,
) -> "Network | GeneralNetwork":
    """Read a packed model, wholly: a later change of the file does not matter.

    threads: how many to compute with; all cores by default. max_memory: how many bytes the network
    may take for weights and for the values of a batch, by default an eighth of the machine's memory
    but at least 1 GiB; what needs more is a `MemoryLimitError` before it is allocated.
    low_memory: read and decode each layer's weights from the file when the layer runs and drop them
    afterwards, so that only one layer's are in memory; slower, and the file must stay as it is: a
    change is a `ChecksumError`. If `Network.tune` has stored its choice of kernels beside the file,
    it is used.
    """
    file = packing.open(path)
    try:
        file.prefetch()
        if file.graph is not None and file.format > 1:
            return GeneralNetwork(
                file, threads=threads, low_memory=low_memory, max_memory=max_memory
            )
        return Network(
            file,
            threads=threads,
            low_memory=low_memory,
            max_memory=max_memory,
            kernels=stored_choice(file),
        )
    finally:
        if not low_memory:
            file.close()


class Network(Classifier):
    """A network from a packed file. Call it with a batch of images:

        net = skinny.load("digits.skinny")
        scores = net(images)             # [batch, classes]

    Images are [batch, channels, height, width], any batch. If the file stores preprocessing, they
    are what it is applied to, usually uint8 (or paths of image files, or uint8 images of another
    size where the preprocessing resizes or crops); floats that went through it already must come
    with `preprocessed=True`. Without stored preprocessing they are floats, prepared as in training.
    Several threads may call one network.
    """

    def __init__(
        self,
        file: PackedFile,
        *,
        threads: int | None = None,
        low_memory: bool = False,
        max_memory: int | None = None,
        kernels: Mapping[str, Kernel] | None = None,
    ) -> None:
        if file.graph is None:
            raise GraphError(f"{file.path} holds weights without a graph and cannot run")
        if len(file.graph["inputs"]) != 1:
            count = len(file.graph["inputs"])
            raise GraphError(f"{file.path} wants {count} inputs; a network that runs has one")
        self.threads = native.threads() if threads is None else threads
        self.labels = file.labels
        self._path, self._identity = file.path, file.identity
        self._low_memory, self._limit = low_memory, memory_limit(max_memory)
        self._shapes = infer(file.graph, Weights(file).shape)
        self._graph = live(file.graph)
        self._input = self._graph["inputs"][0]["name"]
        self._images = Images(self._shapes[self._input], file.preprocessing)
        self._plan = self._make_plan(file, kernels or {})

    def _make_plan(
        self, file: PackedFile, kernels: Mapping[str, Kernel]
    ) -> "Plan | LayerByLayer | Interpreted":
        weights = Weights(file)
        if native.extension() is None:
            return Interpreted(self._graph, self._shapes, weights, self._limit, self._low_memory)
        from skinny.runtime.low_memory import LayerByLayer
        from skinny.runtime.plan import Plan

        graph, folded = fold_batch_norms(self._graph, weights.dense)
        make = LayerByLayer if self._low_memory else Plan
        return make(graph, self._shapes, Weights(file, kernels, folded), self._threads, self._limit)

    def _whole_plan(self) -> "Plan | None":
        """The plan of the whole network; None without the extension, and layer by layer."""
        if self._low_memory or isinstance(self._plan, Interpreted):
            return None
        return cast("Plan", self._plan)

    @property
    def input_shape(self) -> tuple[int, ...]:
        """The shape of one image: channels, height, width."""
        return self._images.shape

    @property
    def inputs(self) -> dict[str, tuple[int | str, ...]]:
        (value,) = self._graph["inputs"]
        return {value["name"]: ("batch", *self._images.shape)}

    @property
    def preprocessing(self) -> Mapping[str, Any] | None:
        """What the file does to uint8 images before the first layer."""
        return self._images.preprocessing

    def __call__(self, *args: Any, preprocessed: bool = False, **named: Any) -> NDArray[Any] | Any:
        """The network's output for a batch, [batch, ...]; a tuple where it has several outputs.

        The batch is given by position or by the input's name. preprocessed: the images are floats
        to which the file's preprocessing was applied.
        """
        x = args[0] if len(args) == 1 and not named else only_input(self._input, args, named)
        batch = self._images.check(x, preprocessed=preprocessed)
        outputs = self._split(self._plan.run(batch, self._images, self._threads))
        return outputs[0] if len(outputs) == 1 else tuple(outputs)

    @property
    def _last_operation(self) -> str:
        makers = {node["output"]: str(node["op"]) for node in self._graph["nodes"]}
        return makers.get(self._graph["outputs"][0], "")

    def profile(self, batch: int = 1, repeats: int = 10) -> Profile:
        """Milliseconds, GFLOP/s and chosen kernel of each step, for a batch of random images."""
        plan = self._whole_plan()
        if plan is None:
            raise SkinnyError(
                "there is nothing to profile: the compiled kernels are missing, or the network "
                "was loaded with low_memory"
            )
        return profile(plan, self._images, batch, self._threads, repeats)

    def tune(self, batch: int = 1) -> dict[str, Kernel]:
        """Measure for each layer whether its sparse or its dense kernel is faster, and store it.

        The choice goes into a small file beside the model (`tuned_path`), for this instruction set;
        this network uses it from now on, and so does every later `load`.
        """
        if self._whole_plan() is None:
            raise SkinnyError("there is nothing to tune without the compiled kernels")
        with packing.open(self._path) as file:
            if file.identity != self._identity:
                raise SkinnyError(f"{self._path} has changed since it was loaded; load it again")

            def milliseconds(kernels: Mapping[str, Kernel]) -> float:
                plan = cast("Plan", self._make_plan(file, kernels))
                return profile(plan, self._images, batch, self._threads, 5).milliseconds

            choice = tune(self._graph, Weights(file), milliseconds)
            store_choice(file, choice)
            self._plan = self._make_plan(file, choice)
        return choice

    def _split(self, rows: Floats) -> list[Floats]:
        """The outputs from what the plan returns: all of them, one after the other."""
        shapes = [self._shapes[name] for name in self._graph["outputs"]]
        if len(shapes) == 1:
            return [rows.reshape(-1, *shapes[0])]
        ends = np.cumsum([math.prod(shape) for shape in shapes])[:-1]
        outputs = np.split(rows, ends, axis=1)
        return [
            np.ascontiguousarray(output.reshape(-1, *shape))
            for output, shape in zip(outputs, shapes, strict=True)
        ]
