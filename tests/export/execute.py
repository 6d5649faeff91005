"""What each operation of a graph means, in torch: one line each, to compare models with."""

import torch
import torch.nn.functional as F

OPERATIONS = {
    "conv": lambda n, t, x: F.conv2d(
        x, t(n["weight"]), t(n["bias"]), n["stride"], n["padding"], n["dilation"], n["groups"]
    ),
    "linear": lambda n, t, x: F.linear(x, t(n["weight"]), t(n["bias"])),
    "batch_norm": lambda n, t, x: F.batch_norm(
        x, t(n["mean"]), t(n["var"]), t(n["weight"]), t(n["bias"]), eps=n["eps"]
    ),
    "relu": lambda n, t, x: x.relu(),
    "relu6": lambda n, t, x: x.clamp(0, 6),
    "leaky_relu": lambda n, t, x: torch.where(x > 0, x, x * n["slope"]),
    "elu": lambda n, t, x: torch.where(x > 0, x, n["alpha"] * torch.expm1(x)),
    "sigmoid": lambda n, t, x: x.sigmoid(),
    "tanh": lambda n, t, x: x.tanh(),
    "silu": lambda n, t, x: x * x.sigmoid(),
    "gelu": lambda n, t, x: F.gelu(x, approximate=n["approximate"]),
    "hardswish": lambda n, t, x: x * (x + 3).clamp(0, 6) / 6,
    "hardsigmoid": lambda n, t, x: (x + 3).clamp(0, 6) / 6,
    "hardtanh": lambda n, t, x: x.clamp(n["min"], n["max"]),
    "max_pool": lambda n, t, x: F.max_pool2d(
        x, n["kernel"], n["stride"], n["padding"], n["dilation"], n["ceil"]
    ),
    "avg_pool": lambda n, t, x: F.avg_pool2d(
        x,
        n["kernel"],
        n["stride"],
        n["padding"],
        n["ceil"],
        n["count_include_pad"],
        n["divisor"],
    ),
    "adaptive_avg_pool": lambda n, t, x: F.adaptive_avg_pool2d(x, n["size"]),
    "lrn": lambda n, t, x: F.local_response_norm(x, n["size"], n["alpha"], n["beta"], n["k"]),
    "flatten": lambda n, t, x: x.flatten(n["start"], n["end"]),
    "reshape": lambda n, t, x: x.reshape([x.shape[0] if s is None else s for s in n["shape"]]),
    "add": lambda n, t, x, y: x + y,
    "concat": lambda n, t, *x: torch.cat(x, n["axis"]),
    "softmax": lambda n, t, x: x.softmax(n["axis"]),
    "log_softmax": lambda n, t, x: x.log_softmax(n["axis"]),
}


def execute(graph, state, *inputs):
    """The outputs of a graph whose tensors are in `state`."""
    values = dict(zip((value["name"] for value in graph["inputs"]), inputs, strict=True))

    def tensor(name):
        return None if name is None else state[name]

    for node in graph["nodes"]:
        arguments = [values[name] for name in node["inputs"]]
        values[node["output"]] = OPERATIONS[node["op"]](node, tensor, *arguments)
    return [values[name] for name in graph["outputs"]]
