"""A segment of a graph as a native program."""

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np

from skinny._native import MAX_OFFSET, TensorProgram
from skinny.graph.values import Array
from skinny.runtime.images import InputError
from skinny.runtime.layout import empty
from skinny.runtime.lowering import lowering
from skinny.runtime.memory import Account, MemoryLimitError
from skinny.runtime.samples import of_one_sample
from skinny.runtime.segments import Segment
from skinny.runtime.shared_weights import Held, SharedWeights
from skinny.runtime.step_info import StepInfo
from skinny.runtime.tensor_plan import Facts, TensorPlan

Tensor = Callable[[str], Array]


class NativeSegment:
    """Planned when it is made; `prepare` reads the weights."""

    def __init__(
        self,
        segment: Segment,
        facts: Facts,
        weights: SharedWeights,
        tensor: Tensor,
        threads: int,
        samples: int,
    ) -> None:
        """samples: how many its nodes compute one by one (samples.py); 1 if they do not."""
        self._samples = samples
        self._plan = TensorPlan(
            segment.nodes,
            segment.inputs,
            segment.outputs,
            of_one_sample(segment, facts) if samples > 1 else facts,
            weights,
            tensor,
            threads,
        )
        self._program: TensorProgram | None = None
        self.code: list[int] = []  # bytes of each step's generated code, or pairs
        self._plan.lower(lowering)
        if self._plan.cells > MAX_OFFSET:
            raise MemoryLimitError(
                "the values of an input of this size are too large to address; give the network "
                "smaller inputs"
            )
        self._inputs = [
            (name, np.dtype(_taken(facts.specs[name].dtype))) for name in segment.inputs
        ]
        self._outputs = [(name, facts.specs[name].shape) for name in segment.outputs]

    @property
    def steps(self) -> list[StepInfo]:
        """With the operations of all samples, and the form that layers have."""
        infos = self._plan.infos
        pairs = [False] * len(infos) if self._program is None else self._program.has_pairs
        return [
            replace(s, operations=self._samples * s.operations, form="pairs" if has else s.form)
            for s, has in zip(infos, pairs, strict=True)
        ]

    def estimate(self) -> int:
        """About how many bytes the program takes: its arena, constants and weights, and most of
        these while they are made."""
        plan = self._plan
        arena = 4 * plan.cells * min(self._samples, plan.threads)
        return arena + plan.constant_bytes + sum(self.layers().values()) + self.making()

    def layers(self) -> dict[str, int]:
        """About how many bytes the weights of each layer take, by the name of its result."""
        estimate = self._plan.weights.estimate
        return {
            output: sum(estimate(name)[0] for name in names)
            for output, names in self._plan.layers.items()
        }

    def making(self) -> int:
        """Bytes that making the weights takes beside, one after the other."""
        plan = self._plan
        names = {name for names in plan.layers.values() for name in names}
        return max([plan.weights.estimate(name)[1] for name in names], default=0)

    def hold(self, account: Account, threads: int) -> None:
        """Adds what the program holds: its arena, constants and, once they are read, weights."""
        arena = 4 * self._plan.cells * min(self._samples, threads)
        if self._program is not None:
            arena = self._program.workspace_bytes(samples=self._samples, threads=threads)
        account.add(id(self), arena + self._plan.constant_bytes + sum(self.code))
        for held in self._plan.held:
            if isinstance(held, Held):
                account.add(id(held), held.native.bytes + held.bias.nbytes)

    def prepare(self, max_code: int) -> None:
        """Reads the weights and keeps them, and makes code of at most `max_code` bytes for layers
        where that is faster. Without this, every run reads and drops the weights."""
        if self._program is None:
            self._program = self._plan.emit()
            self.code = self._program.generate(max_bytes=max_code)

    def run(self, values: Mapping[str, Array], threads: int, *, timed: bool) -> tuple[
        dict[str, Array], list[float]
    ]:  # fmt: skip
        """The segment's outputs, and each step's seconds if `timed`."""
        inputs = [np.asarray(values[name], dtype, order="C") for name, dtype in self._inputs]
        made = {name: empty(shape) for name, shape in self._outputs}
        program = self._program or self._plan.emit()
        try:
            seconds = program.run(
                inputs=inputs,
                outputs=list(made.values()),
                samples=self._samples,
                threads=threads,
                timed=timed,
            )
        except IndexError as problem:
            raise InputError(f"the network cannot take this input: {problem}") from None
        if self._program is None:
            self._plan.held.clear()
        return made, seconds


def _taken(dtype: str) -> str:
    return "int32" if dtype == "int8" else dtype
