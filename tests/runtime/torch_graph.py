"""A graph run by PyTorch: what the runtime's results must equal."""

from typing import Any

import numpy as np
import torch
from torch.nn import functional as F


def run(graph: dict[str, Any], tensors: dict[str, np.ndarray], x: np.ndarray) -> list[np.ndarray]:
    weights = {name: torch.from_numpy(np.array(array)) for name, array in tensors.items()}
    values = {graph["inputs"][0]["name"]: torch.from_numpy(x)}
    with torch.no_grad():
        for node in graph["nodes"]:
            inputs = [values[name] for name in node["inputs"]]
            values[node["output"]] = _node(node, weights, *inputs)
    return [values[name].numpy() for name in graph["outputs"]]


def _node(node: dict[str, Any], weights: dict[str, torch.Tensor], *inputs: torch.Tensor) -> Any:
    x = inputs[0]

    def tensor(key: str) -> Any:
        return None if node[key] is None else weights[node[key]]

    match node["op"]:
        case "conv":
            keys = ("stride", "padding", "dilation", "groups")
            return F.conv2d(x, tensor("weight"), tensor("bias"), *(node[key] for key in keys))
        case "linear":
            return F.linear(x, tensor("weight"), tensor("bias"))
        case "batch_norm":
            arguments = (tensor(key) for key in ("mean", "var", "weight", "bias"))
            return F.batch_norm(x, *arguments, eps=node["eps"])
        case "max_pool":
            keys = ("kernel", "stride", "padding", "dilation", "ceil")
            return F.max_pool2d(x, *(node[key] for key in keys))
        case "avg_pool":
            keys = ("kernel", "stride", "padding", "ceil", "count_include_pad", "divisor")
            return F.avg_pool2d(x, *(node[key] for key in keys))
        case "adaptive_avg_pool":
            return F.adaptive_avg_pool2d(x, node["size"])
        case "lrn":
            return F.local_response_norm(x, *(node[key] for key in ("size", "alpha", "beta", "k")))
        case "flatten":
            return torch.flatten(x, node["start"], node["end"])
        case "reshape":
            return x.reshape(len(x), *node["shape"][1:])
        case "add":
            return inputs[0] + inputs[1]
        case "concat":
            return torch.cat(inputs, node["axis"])
        case "softmax":
            return torch.softmax(x, node["axis"])
        case "log_softmax":
            return torch.log_softmax(x, node["axis"])
        case "leaky_relu":
            return F.leaky_relu(x, node["slope"])
        case "elu":
            return F.elu(x, node["alpha"])
        case "gelu":
            return F.gelu(x, approximate=node["approximate"])
        case "hardtanh":
            return F.hardtanh(x, node["min"], node["max"])
        case op:
            return getattr(F, op)(x)
