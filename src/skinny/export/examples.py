"""Example inputs of a model: by position or by name, and which of their sizes are free."""

import inspect
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from skinny.errors import SkinnyError
from skinny.graph.builder import sample_sizes

Dynamic = Mapping[str, Mapping[int, str]]


class Examples:
    """An example as torch.export takes it.

    example: a tensor, a sequence of them by position, or a mapping by name. Axis 0 of every input
    is the batch. dynamic: {input: {axis: name}} of further free sizes; the same name means the same
    size. The example's values do not matter, but sizes that are not free do.
    """

    def __init__(self, model: nn.Module, example: Any, dynamic: Dynamic | None = None) -> None:
        positional, named = _sorted(example)
        parameters = list(inspect.signature(model.forward).parameters.values())
        labels = _labels(parameters, len(positional))
        self.names = [*labels, *named]
        self._free = _free_sizes(dict(zip(self.names, [*positional, *named.values()], strict=True)),
                                 dynamic or {})  # fmt: skip
        device, dtype = _home(model)
        made = [
            self._example(label, value, device, dtype)
            for label, value in zip(self.names, [*positional, *named.values()], strict=True)
        ]
        self.tensors = made
        self.args = tuple(made[: len(positional)])
        self.kwargs = dict(zip(named, made[len(positional) :], strict=True))
        self.dynamic_shapes = self._dynamic_shapes(parameters, labels, list(named))

    @property
    def samples(self) -> list[dict[str, int]]:
        """Choices of all free sizes: the example's own first."""
        sizes: dict[str, int] = {}
        for label, tensor in zip(self.names, self.tensors, strict=True):
            for axis, name in self._free.get(label, {}).items():
                sizes[name] = int(tensor.shape[axis])
        return sample_sizes(sizes)

    def sizes(self, label: str) -> tuple[int | str, ...]:
        """An input's shape, names for its free sizes."""
        tensor = self.tensors[self.names.index(label)]
        free = self._free.get(label, {})
        return tuple(free.get(axis, int(side)) for axis, side in enumerate(tensor.shape))

    def _example(
        self, label: str, value: Tensor, device: torch.device, dtype: torch.dtype
    ) -> Tensor:
        """On the model's device and in its type. torch.export takes a size of 1 for a constant, so
        a free size is at least 2."""
        shape = [
            max(2, side) if axis in self._free.get(label, {}) else side
            for axis, side in enumerate(value.shape)
        ]
        shape[0] = 2
        kind = dtype if value.is_floating_point() else value.dtype
        if list(value.shape) == shape:
            return value.detach().to(device, kind)
        # repeated, so that integers stay within the range the model expects
        grown = value.detach()
        for axis, side in enumerate(shape):
            if grown.shape[axis] != side:
                times = -(-side // max(1, grown.shape[axis]))
                grown = torch.cat([grown] * times, axis).narrow(axis, 0, side)
        return grown.to(device, kind)

    def _dynamic_shapes(
        self, parameters: list[inspect.Parameter], labels: list[str], named: list[str]
    ) -> Any:
        def spec(label: str) -> dict[int, Any]:
            return dict.fromkeys(self._free.get(label, {}), torch.export.Dim.DYNAMIC)

        kinds = {p.name: p.kind for p in parameters}
        made: dict[str, Any] = {}
        rest: list[Any] = []
        variadic = next((p.name for p in parameters if p.kind == p.VAR_POSITIONAL), None)
        for label in labels:
            if kinds.get(label) is None and variadic is not None:
                rest.append(spec(label))
            else:
                made[label] = spec(label)
        if rest and variadic is not None:
            made[variadic] = tuple(rest)
        keywords = next((p.name for p in parameters if p.kind == p.VAR_KEYWORD), None)
        for label in named:
            if label in kinds or keywords is None:
                made[label] = spec(label)
            else:
                made.setdefault(keywords, {})[label] = spec(label)
        return made


def _sorted(example: Any) -> tuple[list[Tensor], dict[str, Tensor]]:
    if isinstance(example, Tensor):
        positional, named = [example], {}
    elif isinstance(example, Mapping):
        positional, named = [], dict(example)
    elif isinstance(example, Sequence) and not isinstance(example, str):
        positional, named = list(example), {}
    else:
        positional, named = [example], {}
    for value in (*positional, *named.values()):
        if not isinstance(value, Tensor) or value.dim() < 1:
            got = type(value).__name__
            raise SkinnyError(
                "the example must be a tensor with a batch dimension, or several by position or "
                f"name; got {got}"
            )
    if not positional and not named:
        raise SkinnyError("the example is empty; give at least one input")
    return positional, named


def _labels(parameters: list[inspect.Parameter], count: int) -> list[str]:
    """Names of positional inputs: those of the forward's arguments."""
    names = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)][
        :count
    ]
    variadic = next((p.name for p in parameters if p.kind == p.VAR_POSITIONAL), None)
    extra = count - len(names)
    if extra and variadic is None:
        raise SkinnyError(f"the model's forward takes {len(names)} inputs, the example has {count}")
    return names + [f"{variadic}_{i}" for i in range(extra)]


def _free_sizes(inputs: Mapping[str, Tensor], dynamic: Dynamic) -> dict[str, dict[int, str]]:
    free = {name: {0: "batch"} for name in inputs}
    if not isinstance(dynamic, Mapping) or not all(
        isinstance(axes, Mapping) for axes in dynamic.values()
    ):
        raise SkinnyError('dynamic names free sizes as {"input_ids": {1: "length"}}')
    for name, axes in dynamic.items():
        if name not in inputs:
            raise SkinnyError(f"dynamic names {name!r}; the inputs are {', '.join(inputs)}")
        for axis, label in axes.items():
            rank = inputs[name].dim()
            if type(axis) is not int or not -rank <= axis < rank:
                raise SkinnyError(f"dynamic names axis {axis!r} of {name!r}, which has {rank}")
            if not isinstance(label, str) or not label.isidentifier():
                raise SkinnyError(f"a free size is named by a word, not by {label!r}")
            free[name][axis % rank] = label
    return free


def _home(model: nn.Module) -> tuple[torch.device, torch.dtype]:
    weight = next((p for p in model.parameters() if p.is_floating_point()), torch.zeros(0))
    return weight.device, weight.dtype
