"""A packed graph run by PyTorch, node by node: a peer, and what our results must equal."""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

Node = Mapping[str, Any]


def run(graph: Mapping[str, Any], weights: Mapping[str, Tensor], *inputs: Tensor) -> list[Tensor]:
    """The outputs of the graph for a batch: one tensor for each of its inputs."""
    values = dict(zip((value["name"] for value in graph["inputs"]), inputs, strict=True))
    with torch.inference_mode():
        for node in graph["nodes"]:
            operands = [values[name] for name in node["inputs"]]
            values[node["output"]] = _run_node(node, weights, operands)
    return [values[name] for name in graph["outputs"]]


def _run_node(node: Node, weights: Mapping[str, Tensor], inputs: list[Tensor]) -> Tensor:
    def tensor(key: str) -> Tensor | None:
        return None if node[key] is None else weights[node[key]]

    def given(*keys: str) -> list[Any]:
        return [node[key] for key in keys]

    x = inputs[0]
    run: dict[str, Callable[[], Any]] = {
        "conv": lambda: F.conv2d(
            x,
            weights[node["weight"]],
            tensor("bias"),
            *given("stride", "padding", "dilation", "groups"),
        ),
        "linear": lambda: F.linear(x, weights[node["weight"]], tensor("bias")),
        "batch_norm": lambda: F.batch_norm(
            x,
            weights[node["mean"]],
            weights[node["var"]],
            tensor("weight"),
            tensor("bias"),
            eps=node["eps"],
        ),
        "max_pool": lambda: F.max_pool2d(
            x, *given("kernel", "stride", "padding", "dilation", "ceil")
        ),
        "avg_pool": lambda: F.avg_pool2d(
            x, *given("kernel", "stride", "padding", "ceil", "count_include_pad", "divisor")
        ),
        "adaptive_avg_pool": lambda: F.adaptive_avg_pool2d(x, node["size"]),
        "lrn": lambda: F.local_response_norm(x, *given("size", "alpha", "beta", "k")),
        "flatten": lambda: torch.flatten(x, *given("start", "end")),
        "reshape": lambda: x.reshape(len(x), *node["shape"][1:]),
        "add": lambda: inputs[0] + inputs[1],
        "concat": lambda: torch.cat(inputs, node["axis"]),
        "softmax": lambda: torch.softmax(x, node["axis"]),
        "log_softmax": lambda: torch.log_softmax(x, node["axis"]),
        "leaky_relu": lambda: F.leaky_relu(x, node["slope"]),
        "elu": lambda: F.elu(x, node["alpha"]),
        "gelu": lambda: F.gelu(x, approximate=node["approximate"]),
        "hardtanh": lambda: F.hardtanh(x, *given("min", "max")),
    }
    result: Tensor = run.get(node["op"], lambda: getattr(F, node["op"])(x))()
    return result
