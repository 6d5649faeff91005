"""Random small networks: a graph of any operation of docs/format.md, over shapes that fit."""

import math
from random import Random
from typing import Any

import numpy as np
from tests.runtime.builder import Builder

from skinny.runtime.shapes import output_side

Shape = tuple[int, ...]
MOST_FLOATS = 4000  # of one value of one image
ACTIVATIONS: dict[str, dict[str, Any]] = {
    "relu": {}, "relu6": {}, "leaky_relu": {"slope": 0.1}, "elu": {"alpha": 1.3}, "sigmoid": {},
    "tanh": {}, "silu": {}, "gelu": {"approximate": "none"}, "hardswish": {}, "hardsigmoid": {},
    "hardtanh": {"min": -0.4, "max": 0.7},
}  # fmt: skip


class Network:
    """A graph that grows node by node; `values` are the names and shapes a node may read."""

    def __init__(self, rng: Random) -> None:
        self.rng = rng
        rank = rng.choice([1, 1, 2])
        flat = tuple(rng.randint(1, 40) for _ in range(rank))
        shape = _image(rng) if rng.random() < 0.85 else flat
        self.builder = Builder(*shape, seed=rng.randrange(1 << 30))
        self.values: dict[str, Shape] = {"x": shape}

    def grow(self) -> None:
        """One more node, or a chain of nodes that the planner fuses; the first reads the last value
        or, sometimes, another."""
        rng = self.rng
        source = self.builder.last if rng.random() < 0.75 else rng.choice(list(self.values))
        image = len(self.values[source]) == 3
        steps = rng.choice(CHAINS) if image and rng.random() < 0.4 else [rng.choice(ANY)]
        for step in steps:
            shape = self.values[source]
            result = step(self, source, shape) if len(shape) == 3 or step not in IMAGES else None
            if result is not None:
                source = self.builder.last
                self.values[source] = result

    def add(self, source: str, op: str, **attributes: Any) -> None:
        self.builder.add(op, source, **attributes)

    def pair(self, low: int, high: int) -> list[int]:
        return [self.rng.randint(low, high) for _ in range(2)]

    def sparsity(self) -> float:
        return self.rng.choice([0.0, 0.2, 0.5, 0.5, 0.7, 0.8, 0.9, 0.97, 1.0])


def network(rng: Random) -> tuple[Builder, dict[str, Any]]:
    """Tensors (in the builder) and the graph of a network of one to a dozen nodes."""
    made = Network(rng)
    wanted = rng.choice([1, 2, 2, 3, 3, 4, 6, 9])
    for _ in range(3 * wanted):
        if len(made.builder.nodes) < wanted:
            made.grow()
    outputs = [made.builder.last]
    while rng.random() < 0.2:
        outputs.append(rng.choice(list(made.values)))
    for name, tensor in made.builder.tensors.items():
        if rng.random() < 0.05:
            made.builder.tensors[name] = tensor.astype(rng.choice([np.float16, np.float64]))
    return made.builder, made.builder.graph(*outputs)


def preprocessing(rng: Random, shape: Shape) -> dict[str, Any] | None:
    """A record of what to do with images of bytes, for half of the networks that take images."""
    if len(shape) != 3 or rng.random() < 0.5:
        return None
    return {
        "layout": rng.choice(["NCHW", "NHWC"]),
        "mean": [rng.random() for _ in range(shape[0])],
        "std": [0.1 + rng.random() for _ in range(shape[0])],
    }


def _image(rng: Random) -> Shape:
    sides = rng.choice([(1, 12), (5, 20), (12, 24), (1, 2)])
    return (rng.randint(1, 5), rng.randint(*sides), rng.randint(*sides))


def _conv(net: Network, source: str, shape: Shape) -> Shape | None:
    rng = net.rng
    groups = rng.choice([g for g in (1, 1, 1, 2, 3, shape[0]) if shape[0] % g == 0])
    out = groups * rng.randint(1, 8)
    kernel = [1, 1] if rng.random() < 0.3 else net.pair(1, 5)
    stride = [1, 1] if rng.random() < 0.5 else net.pair(1, 4)
    padding = [0, 0] if rng.random() < 0.4 else net.pair(0, 3)
    dilation = [1, 1] if rng.random() < 0.7 else net.pair(1, 3)
    sides = _sides(shape, kernel, stride, padding, dilation)
    if sides is None or out * math.prod(sides) > MOST_FLOATS:
        return None
    builder = net.builder
    weight = builder.weight(out, shape[0] // groups, *kernel, sparsity=net.sparsity())
    bias = builder.vector(out) if rng.random() < 0.6 else None
    net.add(source, "conv", weight=weight, bias=bias, stride=stride, padding=padding,
            dilation=dilation, groups=groups)  # fmt: skip
    return (out, *sides)


def _pool(net: Network, source: str, shape: Shape) -> Shape | None:
    rng = net.rng
    kernel = net.pair(1, 4)
    padding = [rng.randint(0, side // 2) for side in kernel]
    attributes = {"kernel": kernel, "stride": net.pair(1, 3), "padding": padding}
    attributes["ceil"] = rng.random() < 0.4
    dilation = [1, 1]
    if rng.random() < 0.5:
        dilation = [1, 1] if rng.random() < 0.5 else net.pair(1, 3)
        op, attributes["dilation"] = "max_pool", dilation
    else:
        op, attributes["count_include_pad"] = "avg_pool", rng.random() < 0.5
        attributes["divisor"] = rng.choice([None, None, 3])
    sides = _sides(shape, kernel, attributes["stride"], padding, dilation, ceil=attributes["ceil"])
    if sides is None:
        return None
    net.add(source, op, **attributes)
    return (shape[0], *sides)


def _adaptive(net: Network, source: str, shape: Shape) -> Shape | None:
    size = net.rng.choice([[1, 1], net.pair(1, 6)])
    net.add(source, "adaptive_avg_pool", size=size)
    return (shape[0], *size)


def _lrn(net: Network, source: str, shape: Shape) -> Shape | None:
    net.add(source, "lrn", size=net.rng.randint(1, 7), alpha=0.1, beta=0.75, k=1.0)
    return shape


def _linear(net: Network, source: str, shape: Shape) -> Shape | None:
    out = net.rng.randint(1, 30)
    if math.prod(shape[:-1]) * out > MOST_FLOATS:
        return None
    weight = net.builder.weight(out, shape[-1], sparsity=net.sparsity())
    bias = net.builder.vector(out) if net.rng.random() < 0.6 else None
    net.add(source, "linear", weight=weight, bias=bias)
    return (*shape[:-1], out)


def _activation(net: Network, source: str, shape: Shape) -> Shape | None:
    op = net.rng.choice(list(ACTIVATIONS))
    net.add(source, op, **ACTIVATIONS[op])
    return shape


def _norm(net: Network, source: str, shape: Shape) -> Shape | None:
    net.builder.batch_norm(shape[0])
    net.builder.nodes[-1]["inputs"] = [source]
    return shape


def _softmax(net: Network, source: str, shape: Shape) -> Shape | None:
    axis = net.rng.choice([*range(1, len(shape) + 1), -1])
    net.add(source, net.rng.choice(["softmax", "log_softmax"]), axis=axis)
    return shape


def _flatten(net: Network, source: str, shape: Shape) -> Shape | None:
    start = net.rng.randint(1, len(shape))
    end = net.rng.randint(start, len(shape))
    net.add(
        source, "flatten", start=start, end=end if net.rng.random() < 0.5 else end - len(shape) - 1
    )
    return (*shape[: start - 1], math.prod(shape[start - 1 : end]), *shape[end:])


def _reshape(net: Network, source: str, shape: Shape) -> Shape | None:
    total = math.prod(shape)
    first = net.rng.choice([side for side in range(1, 13) if total % side == 0])
    rest = total // first
    second = net.rng.choice([side for side in range(1, 13) if rest % side == 0])
    sides = net.rng.choice([(total,), (first, rest), (first, second, rest // second)])
    net.add(source, "reshape", shape=[None, *sides[:-1], net.rng.choice([-1, sides[-1]])])
    return sides


def _join(net: Network, source: str, shape: Shape) -> Shape | None:
    """A sum or a concatenation with another value, where one fits."""
    rng = net.rng
    if rng.random() < 0.5:
        others = [name for name, other in net.values.items() if _broadcasts(shape, other)]
        other = rng.choice(others)
        net.add(source, "add")
        net.builder.nodes[-1]["inputs"] = rng.sample([source, other], 2)
        return tuple(map(max, shape, net.values[other]))
    axis = rng.randint(1, len(shape))
    fits = [
        name
        for name, other in net.values.items()
        if len(other) == len(shape)
        and all(a == b for at, (a, b) in enumerate(zip(shape, other, strict=True), 1) if at != axis)
    ]
    chosen = [rng.choice(fits) for _ in range(rng.randint(1, 3))]
    sides = list(shape)
    sides[axis - 1] = sum(net.values[name][axis - 1] for name in chosen)
    if math.prod(sides) > MOST_FLOATS:
        return None
    net.add(source, "concat", axis=rng.choice([axis, axis - len(shape) - 1]))
    net.builder.nodes[-1]["inputs"] = chosen
    return tuple(sides)


def _broadcasts(shape: Shape, other: Shape) -> bool:
    return len(shape) == len(other) and all(
        a == b or 1 in (a, b) for a, b in zip(shape, other, strict=True)
    )


def _sides(
    shape: Shape,
    kernel: list[int],
    stride: list[int],
    padding: list[int],
    dilation: list[int],
    ceil: bool = False,
) -> list[int] | None:
    """Rows and columns of a convolution or pooling; None where the window does not fit."""
    sides = []
    for side, k, s, p, d in zip(shape[1:], kernel, stride, padding, dilation, strict=True):
        room = side + 2 * p - d * (k - 1) - 1
        if room < 0:
            return None
        sides.append(output_side(side, d * (k - 1) + 1, s, p, ceil))
    return sides


IMAGES = [_conv, _conv, _conv, _pool, _pool, _adaptive, _lrn]
ANY = [*IMAGES, _linear, _activation, _activation, _norm, _softmax, _flatten, _reshape, _join]
CHAINS = [
    [_conv, _pool],
    [_conv, _activation, _pool],
    [_conv, _norm, _activation],
    [_conv, _activation, _conv, _activation, _pool],
]
