"""Making cases: examples of an operation, and torch's own function where there is one."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

rng = np.random.default_rng(0)


def floats(*shape: int) -> np.ndarray:
    return np.asarray(rng.standard_normal(shape), np.float32)


def positive(*shape: int) -> np.ndarray:
    return np.asarray(np.abs(floats(*shape)) + 0.1, np.float32)


def whole(*shape: int, low: int = -9, high: int = 10, dtype: str = "int64") -> np.ndarray:
    return np.asarray(rng.integers(low, high, shape), dtype)


def bools(*shape: int) -> np.ndarray:
    return rng.integers(0, 2, shape).astype(bool)


@dataclass(frozen=True)
class Case:
    """inputs: arrays, or numbers for literals. torch: the same by torch, on inputs as tensors; it
    is given the stored tensors by name."""

    inputs: tuple[Any, ...]
    attributes: dict[str, Any] = field(default_factory=dict)
    tensors: dict[str, np.ndarray] = field(default_factory=dict)
    torch: Callable[..., Any] | None = None
    outputs: int = 1
    exports: bool = True  # ONNX can express this use


def case(*inputs: Any, torch: Any = None, outputs: int = 1, exports: bool = True,
         tensors: Any = None, **attributes: Any) -> Case:  # fmt: skip
    return Case(inputs, attributes, tensors or {}, torch, outputs, exports)


def stored(torch: Any, *inputs: Any, tensors: dict[str, np.ndarray], **attributes: Any) -> Case:
    """Attributes that name stored tensors have the tensor's own name."""
    names = {name: name for name in tensors}
    return case(*inputs, torch=torch, tensors=tensors, **names, **attributes)


def unary(function: Any, *, make: Any = floats, **attributes: Any) -> list[Case]:
    return [
        case(make(2, 3, 4), torch=function, **attributes),
        case(make(0, 3), torch=function, **attributes),
        case(make(), torch=function, **attributes),
    ]


def floating(function: Any, *, make: Any = floats, **attributes: Any) -> list[Case]:
    """Functions of floats, which make floats of integers."""
    return [
        *unary(function, make=make, **attributes),
        case(whole(3, low=1), torch=lambda x: function(x.float()), **attributes),
    ]


def numeric(function: Any) -> list[Case]:
    return [*unary(function), case(whole(5), torch=function), case(whole(5, dtype="int32"))]


def binary(function: Any, *, make: Any = floats) -> list[Case]:
    return [
        case(make(2, 3), make(2, 3), torch=function),
        case(make(2, 1, 4), make(3, 1), torch=function),
        case(make(2, 3), 2.5, torch=function),
        case(1.5, make(2, 3), torch=function),
        case(whole(4, low=1), make(4), torch=function),
        case(whole(4, low=1), whole(4, low=1), torch=function),
        case(whole(4, low=1, dtype="int32"), 3, torch=function),
        case(whole(4, low=1), 0.5, torch=function),
        case(whole(4, low=1, dtype="int32"), whole(4, low=1), torch=function),
    ]


def logic(function: Any) -> list[Case]:
    def compare(x: Any, y: Any) -> Any:
        return function(torch.as_tensor(x), torch.as_tensor(y))

    return [*binary(compare), case(bools(2, 3), bools(3), torch=function)]


def windows(n: int, **more: Any) -> dict[str, Any]:
    given: dict[str, Any] = {"stride": 1, "padding": 0, "dilation": 1, **more}
    return {k: (v,) * n if isinstance(v, int) and k != "groups" else v for k, v in given.items()}


def _conv(x: Any, weight: Any, bias: Any = None, *, transposed: bool = False, **given: Any) -> Any:
    name = f"conv{'_transpose' if transposed else ''}{weight.dim() - 2}d"
    return getattr(F, name)(x, weight, bias, **given)


def conv(
    shape: tuple[int, ...], weight: tuple[int, ...], *, bias: bool = True, **given: Any
) -> Case:
    tensors = {"weight": floats(*weight)} | ({"bias": floats(weight[0])} if bias else {})
    attributes = {"groups": 1, **windows(len(weight) - 2, **given)}
    return stored(lambda x, **t: _conv(x, **t, **attributes), floats(*shape), tensors=tensors,
                  **attributes)  # fmt: skip


def conv_transpose(
    shape: tuple[int, ...], weight: tuple[int, ...], *, bias: bool = True, **given: Any
) -> Case:
    attributes = {"groups": 1, **windows(len(weight) - 2, **{"output_padding": 0, **given})}
    count = weight[1] * attributes["groups"]
    tensors = {"weight": floats(*weight)} | ({"bias": floats(count)} if bias else {})
    return stored(lambda x, **t: _conv(x, **t, transposed=True, **attributes), floats(*shape),
                  tensors=tensors, **attributes)  # fmt: skip


def pool(kind: str, shape: tuple[int, ...], *, exports: bool = True, **given: Any) -> Case:
    n = len(shape) - 2
    given = {key: (v,) * n if type(v) is int and key != "divisor" else v
             for key, v in given.items()}  # fmt: skip
    given = {"stride": given["kernel"], "padding": (0,) * n, "ceil": False, **given}
    if kind == "max_pool":
        given.setdefault("dilation", (1,) * n)
        extra = {"dilation": given["dilation"]}
    else:
        given.setdefault("count_include_pad", True)
        extra = {"count_include_pad": given["count_include_pad"]}
        if "divisor" in given:
            extra["divisor_override"] = given["divisor"]
    function = getattr(F, f"{kind}{n}d")
    return case(
        floats(*shape),
        torch=lambda x: function(x, given["kernel"], given["stride"], given["padding"],
                                 ceil_mode=given["ceil"], **extra),
        exports=exports,
        **given,
    )  # fmt: skip


def adaptive(kind: str) -> list[Case]:
    return [
        case(floats(*shape), size=size, torch=lambda x, s=size: getattr(
            F, f"{kind}{len(s)}d")(x, s))
        for shape, size in (
            ((2, 3, 7), (1,)), ((2, 3, 7), (3,)), ((2, 3, 8, 7), (4, 1)), ((2, 3, 5, 7), (3, 4)),
            ((1, 2, 4, 6, 2), (2, 3, 1)), ((2, 1, 3), (5,)), ((0, 2, 3), (2,)),
        )
    ]  # fmt: skip


def reduction(function: Any, *, make: Any = floats, ints: bool = True) -> list[Case]:
    x = make(2, 3, 4)
    made = [
        case(x, torch=lambda x: function(x, (0, 1, 2), False)),
        case(x, axes=(1,), torch=lambda x: function(x, (1,), False)),
        case(x, axes=(-1, 0), keep=True, torch=lambda x: function(x, (-1, 0), True)),
    ]
    return [*made, case(whole(3, 4), axes=(0,)), case(whole(3, 4, dtype="int32"), axes=(1,)),
            case(bools(3, 4), axes=(1,))] if ints else made  # fmt: skip


def several(function: Any) -> Any:
    """torch functions that take one axis at a time."""

    def reduce(x: Any, axes: Any, keep: bool) -> Any:
        for at in sorted((a % x.dim() for a in axes), reverse=True):
            x = function(x, at, keep)
        return x

    return reduce


def resize(mode: str, shape: tuple[int, ...], size: tuple[int, ...], **given: Any) -> Case:
    n = len(shape) - 2
    name = {"nearest": "nearest", "linear": ("linear", "bilinear", "trilinear")[n - 1],
            "cubic": "bicubic"}[mode]  # fmt: skip
    corners = given.get("align_corners", False)
    extra = {} if mode == "nearest" else {"align_corners": corners}
    return case(
        floats(*shape),
        torch=lambda x: F.interpolate(x, size, mode=name, **extra),
        size=size,
        mode=mode,
        **given,
    )


def _lstm(x: Any, h: Any, c: Any, **w: Any) -> Any:
    weights = [
        w[k] for k in ("weight_input", "weight_hidden", "bias_input", "bias_hidden") if k in w
    ]
    y, h, c = torch.lstm(
        x, (h[None], c[None]), weights, len(weights) == 4, 1, 0.0, False, False, False
    )
    return y, h[0], c[0]


def _gru(x: Any, h: Any, **w: Any) -> Any:
    weights = [
        w[k] for k in ("weight_input", "weight_hidden", "bias_input", "bias_hidden") if k in w
    ]
    y, h = torch.gru(x, h[None], weights, len(weights) == 4, 1, 0.0, False, False, False)
    return y, h[0]


def recurrent(op: str, gates: int, states: int) -> list[Case]:
    function = {"lstm": _lstm, "gru": _gru}[op]
    weights = {"weight_input": floats(gates * 5, 3), "weight_hidden": floats(gates * 5, 5)}
    biases = {"bias_input": floats(gates * 5), "bias_hidden": floats(gates * 5)}
    inputs = (floats(4, 2, 3), *(floats(2, 5) for _ in range(states)))
    return [
        Case(inputs, {**{name: name for name in tensors}, "reverse": reverse}, tensors,
             None if reverse else function, 1 + states)
        for tensors in (weights | biases, weights)
        for reverse in (False, True)
    ]  # fmt: skip


def norm(function: Any, shape: tuple[int, ...], tensors: dict[str, Any], **attributes: Any) -> Case:
    return stored(function, floats(*shape), tensors=tensors, **attributes)


def attention(*, causal: bool = False, scale: Any = None) -> Any:
    return lambda q, k, v, mask=None: F.scaled_dot_product_attention(
        q, k, v, mask, is_causal=causal, scale=scale
    )


def int8(x: np.ndarray, shape: tuple[int, ...], *, zero: int = 77, factor: bool = True,
         bias: bool = True, **attributes: Any) -> Case:  # fmt: skip
    """A layer in int8, some of whose weights are 0 and whose largest is 127 steps."""
    tensors = {"weight": floats(*shape) * bools(*shape), "weight_scale": positive(shape[0]) / 100}
    tensors["weight"][0] = 10
    if factor:
        tensors["factor"] = floats(shape[0])
        tensors["factor"][-1] = 0
    if bias:
        tensors["bias"] = floats(shape[0])
    names = {name: name for name in tensors}
    return case(x, tensors=tensors, input_scale=0.02, input_zero=zero, **names, **attributes)
