"""Small graphs with random weights, for the runtime's tests."""

from typing import Any

import numpy as np


class Builder:
    """Adds nodes one after the other; `last` is the value the next one reads."""

    def __init__(self, *shape: int, seed: int = 0) -> None:
        self.rng = np.random.default_rng(seed)
        self.tensors: dict[str, np.ndarray] = {}
        self.nodes: list[dict[str, Any]] = []
        self.inputs = [{"name": "x", "shape": [None, *shape], "dtype": "float32"}]
        self.shape = shape
        self.last = "x"

    def add(self, op: str, *inputs: str, **attributes: Any) -> str:
        self.last = f"v{len(self.nodes)}" if not inputs else f"w{len(self.nodes)}"
        before = self.nodes[-1]["output"] if self.nodes else "x"
        node = {"op": op, "inputs": list(inputs) or [before], "output": self.last}
        self.nodes.append({**node, **attributes})
        return self.last

    def weight(self, *shape: int, sparsity: float) -> str:
        name = f"t{len(self.tensors)}.weight"
        fan_in = max(1.0, np.prod(shape[1:]) * (1 - sparsity))
        weight = self.rng.standard_normal(shape) * np.sqrt(2 / fan_in)
        weight[self.rng.random(shape) < sparsity] = 0
        self.tensors[name] = weight.astype(np.float32)
        return name

    def vector(self, size: int) -> str:
        name = f"t{len(self.tensors)}.bias"
        self.tensors[name] = (self.rng.standard_normal(size) * 0.3).astype(np.float32)
        return name

    def conv(
        self,
        inputs: int,
        outputs: int,
        kernel: tuple[int, int] = (1, 1),
        *,
        stride: tuple[int, int] = (1, 1),
        padding: tuple[int, int] = (0, 0),
        dilation: tuple[int, int] = (1, 1),
        groups: int = 1,
        sparsity: float = 0.5,
        bias: bool = True,
    ) -> str:
        return self.add(
            "conv",
            weight=self.weight(outputs, inputs // groups, *kernel, sparsity=sparsity),
            bias=self.vector(outputs) if bias else None,
            stride=list(stride),
            padding=list(padding),
            dilation=list(dilation),
            groups=groups,
        )

    def linear(self, inputs: int, outputs: int, *, sparsity: float = 0.5, bias: bool = True) -> str:
        weight = self.weight(outputs, inputs, sparsity=sparsity)
        return self.add("linear", weight=weight, bias=self.vector(outputs) if bias else None)

    def max_pool(
        self,
        kernel: tuple[int, int] = (2, 2),
        stride: tuple[int, int] = (2, 2),
        padding: tuple[int, int] = (0, 0),
        dilation: tuple[int, int] = (1, 1),
        ceil: bool = False,
    ) -> str:
        return self.add(
            "max_pool",
            kernel=list(kernel),
            stride=list(stride),
            padding=list(padding),
            dilation=list(dilation),
            ceil=ceil,
        )

    def avg_pool(
        self,
        kernel: tuple[int, int] = (2, 2),
        stride: tuple[int, int] = (2, 2),
        padding: tuple[int, int] = (0, 0),
        ceil: bool = False,
        count_include_pad: bool = True,
        divisor: int | None = None,
    ) -> str:
        return self.add(
            "avg_pool",
            kernel=list(kernel),
            stride=list(stride),
            padding=list(padding),
            ceil=ceil,
            count_include_pad=count_include_pad,
            divisor=divisor,
        )

    def batch_norm(self, channels: int) -> str:
        var = self.vector(channels)
        self.tensors[var] = np.abs(self.tensors[var]) + 0.1
        return self.add(
            "batch_norm",
            weight=self.vector(channels),
            bias=self.vector(channels),
            mean=self.vector(channels),
            var=var,
            eps=1e-5,
        )

    def graph(self, *outputs: str) -> dict[str, Any]:
        return {
            "inputs": self.inputs,
            "nodes": self.nodes,
            "outputs": list(outputs) or [self.last],
        }

    def batch(self, images: int, seed: int = 1) -> np.ndarray:
        rng = np.random.default_rng(seed)
        return rng.standard_normal((images, *self.shape)).astype(np.float32)
