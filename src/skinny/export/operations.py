"""What each operation of torch becomes in a packed graph.

`TRANSLATE` maps the name of an ATen operation to a function of its arguments (by their names in the
operation's schema) that gives the nodes it becomes: a list of attributes, each feeding the next. An
empty list drops the operation. docs/format.md says what the operations of a graph mean.
"""

from collections.abc import Callable
from typing import Any

Arguments = dict[str, Any]
Nodes = list[dict[str, Any]]


class UnsupportedError(Exception):
    """An operation that a packed graph has, used in a way it does not have."""


def pair(value: Any, default: Any = None) -> list[int]:
    """torch writes a square as one number, and an empty list for the default."""
    if not isinstance(value, int) and not value:
        value = default
    values = [value] if isinstance(value, int) else list(value)
    if not all(isinstance(side, int) for side in values):
        raise UnsupportedError("with a size that depends on the input's")
    if len(values) not in (1, 2):
        raise UnsupportedError(f"over {len(values)} dimensions")
    return values * 2 if len(values) == 1 else values


def _plain(op: str, **renamed: str) -> Callable[[Arguments], Nodes]:
    """An operation with the same attributes under our names: ours=theirs."""
    return lambda a: [{"op": op, **{ours: a[theirs] for ours, theirs in renamed.items()}}]


def _conv(a: Arguments) -> Nodes:
    weight = a["weight"]
    kernel, dilation = list(weight.meta["val"].shape[2:]), pair(a["dilation"])
    if len(kernel) != 2:
        raise UnsupportedError(f"over {len(kernel)} dimensions")
    if a["padding"] == "same":
        total = [d * (k - 1) for d, k in zip(dilation, kernel, strict=True)]
        if any(side % 2 for side in total):
            raise UnsupportedError("with padding='same' that is not the same on both sides")
        padding = [side // 2 for side in total]
    else:
        padding = [0, 0] if a["padding"] == "valid" else pair(a["padding"])
    return [
        {
            "op": "conv",
            "weight": weight,
            "bias": a["bias"],
            "stride": pair(a["stride"]),
            "padding": padding,
            "dilation": dilation,
            "groups": a["groups"],
        }
    ]


def _batch_norm(a: Arguments) -> Nodes:
    if a.get("training") or a["running_mean"] is None or a["running_var"] is None:
        raise UnsupportedError("with the statistics of the batch instead of running ones")
    return [
        {
            "op": "batch_norm",
            "weight": a["weight"],
            "bias": a["bias"],
            "mean": a["running_mean"],
            "var": a["running_var"],
            "eps": a["eps"],
        }
    ]


def _max_pool(a: Arguments) -> Nodes:
    kernel = pair(a["kernel_size"])
    return [
        {
            "op": "max_pool",
            "kernel": kernel,
            "stride": pair(a["stride"], kernel),
            "padding": pair(a["padding"]),
            "dilation": pair(a["dilation"]),
            "ceil": a["ceil_mode"],
        }
    ]


def _avg_pool(a: Arguments) -> Nodes:
    kernel = pair(a["kernel_size"])
    return [
        {
            "op": "avg_pool",
            "kernel": kernel,
            "stride": pair(a["stride"], kernel),
            "padding": pair(a["padding"]),
            "ceil": a["ceil_mode"],
            "count_include_pad": a["count_include_pad"],
            "divisor": a["divisor_override"],
        }
    ]


def _mean(a: Arguments) -> Nodes:
    """The mean over both sides of an image is global average pooling; other means are not ours."""
    axes = sorted(axis % 4 for axis in a["dim"] or [])
    if len(a["self"].meta["val"].shape) != 4 or axes != [2, 3] or a["dtype"] is not None:
        raise UnsupportedError("over other dimensions than height and width")
    pooled = {"op": "adaptive_avg_pool", "size": [1, 1]}
    return [pooled] if a["keepdim"] else [pooled, {"op": "flatten", "start": 1, "end": -1}]


def _elu(a: Arguments) -> Nodes:
    if a["scale"] != 1 or a["input_scale"] != 1:
        raise UnsupportedError("with a scale")
    return [{"op": "elu", "alpha": a["alpha"]}]


def _hardtanh(a: Arguments) -> Nodes:
    low, high = a.get("min_val", a.get("min")), a.get("max_val", a.get("max"))
    if not isinstance(low, int | float) or not isinstance(high, int | float):
        raise UnsupportedError("without both limits")
    if (low, high) == (0, 6):
        return [{"op": "relu6"}]
    return [{"op": "hardtanh", "min": low, "max": high}]


def _softmax(op: str) -> Callable[[Arguments], Nodes]:
    return lambda a: [{"op": op, "axis": a["dim"]}]


def _add(a: Arguments) -> Nodes:
    if not hasattr(a["other"], "meta") or a["alpha"] != 1:
        raise UnsupportedError("of a number, or scaled")
    return [{"op": "add"}]


def _reshape(a: Arguments) -> Nodes:
    """The shape that came out, with the batch kept: needs no -1 and no arithmetic on sizes."""
    before, after = list(a["self"].meta["val"].shape), list(a["result"].meta["val"].shape)
    batch, sides = after[0], after[1:]
    if not all(isinstance(side, int) for side in sides) or str(batch) != str(before[0]):
        raise UnsupportedError("that changes the batch")
    if sides == before[1:]:
        return []
    if len(sides) == 1:
        return [{"op": "flatten", "start": 1, "end": -1}]
    return [{"op": "reshape", "shape": [None, *sides]}]


def _same(a: Arguments) -> Nodes:
    return []


def _same_type(a: Arguments) -> Nodes:
    if a["self"].meta["val"].dtype != a["result"].meta["val"].dtype:
        raise UnsupportedError("to another type")
    return []


TRANSLATE: dict[str, Callable[[Arguments], Nodes]] = {
    "conv2d": _conv,
    "linear": _plain("linear", weight="weight", bias="bias"),
    "batch_norm": _batch_norm,
    "_native_batch_norm_legit_no_training": _batch_norm,
    "relu": _plain("relu"),
    "relu6": _plain("relu6"),
    "leaky_relu": _plain("leaky_relu", slope="negative_slope"),
    "elu": _elu,
    "sigmoid": _plain("sigmoid"),
    "tanh": _plain("tanh"),
    "silu": _plain("silu"),
    "gelu": _plain("gelu", approximate="approximate"),
    "hardswish": _plain("hardswish"),
    "hardsigmoid": _plain("hardsigmoid"),
    "hardtanh": _hardtanh,
    "clamp": _hardtanh,
    "max_pool2d": _max_pool,
    "max_pool2d_with_indices": _max_pool,
    "avg_pool2d": _avg_pool,
    "adaptive_avg_pool2d": lambda a: [{"op": "adaptive_avg_pool", "size": pair(a["output_size"])}],
    "mean": _mean,
    "flatten": _reshape,
    "view": _reshape,
    "_unsafe_view": _reshape,
    "reshape": _reshape,
    "squeeze": _reshape,
    "unsqueeze": _reshape,
    "add": _add,
    "cat": lambda a: [{"op": "concat", "axis": a["dim"]}],
    "softmax": _softmax("softmax"),
    "_softmax": _softmax("softmax"),
    "log_softmax": _softmax("log_softmax"),
    "_log_softmax": _softmax("log_softmax"),
    "dropout": _same,
    "feature_dropout": _same,
    "alpha_dropout": _same,
    "feature_alpha_dropout": _same,
    "clone": _same,
    "contiguous": _same,
    "detach": _same,
    "alias": _same,
    "lift_fresh_copy": _same,
    "to": _same_type,
    "_to_copy": _same_type,
}
