"""Structural changes of a packed network, as an attacker or a careless exporter would make them.

Each takes a random generator and the file taken apart (`tests.packing.reseal`), and changes the
latter. Many make nonsense; many others make another valid network, or nearly one.
"""

import copy
from collections.abc import Callable
from random import Random
from typing import Any, NamedTuple

import numpy as np
from tests.runtime.fuzzing.networks import ACTIVATIONS

from skinny.graph import operation, operations
from skinny.graph.attributes import REQUIRED, Stored


class Parts(NamedTuple):
    """A packed file taken apart: header entries, manifest, the bytes of every part, its format."""

    fields: dict[str, Any]
    book: dict[str, Any]
    parts: dict[str, bytearray]
    format: str = "1"


WHOLE = [0, 1, 2, 3, 7, 16, 17, 64, 255, 256, 4096, 4097, 65535, 65536, 1 << 24, 2**31, 2**63]
REAL = [0.0, -0.0, 0.5, 1.0, -1.0, 1e-45, 1e-20, 1e20, 1e38, 1e39, 1e308, float("inf"), 10**400]
WRONG = [None, True, False, "", "3", "none", 1.5, [], {}, [1], [1, 1], [1, 1, 1], [[1], 1], "x"]
DEFAULTS: dict[str, dict[str, Any]] = {
    **ACTIVATIONS,
    "max_pool": {
        "kernel": [2, 2], "stride": [1, 1], "padding": [1, 1], "dilation": [1, 1], "ceil": False,
    },
    "avg_pool": {
        "kernel": [2, 2], "stride": [2, 2], "padding": [0, 0], "ceil": True,
        "count_include_pad": False, "divisor": None,
    },
    "adaptive_avg_pool": {"size": [1, 1]},
    "lrn": {"size": 5, "alpha": 1e-4, "beta": 0.75, "k": 1.0},
    "flatten": {"start": 1, "end": -1},
    "reshape": {"shape": [None, -1]},
    "concat": {"axis": 1},
    "softmax": {"axis": 1},
    "log_softmax": {"axis": -1},
}  # fmt: skip
OWN = {"op", "inputs", "output"}
ACCEPTABLE: list[Any] = [
    0, 1, 2, 3, -1, -2, 7, 4096, 1 << 31, 0.5, 1e-5, 2.0, -3.0, True, False, None, [], [0], [1],
    [2], [-1], [0, 1], [1, 0], [1, 1], [2, 2], [3, 1], [2, 1, 1], [1, 2, 0], [0, 2, 1, 3],
    [None, -1], [None, 2, -1], [[0, 0], [1, 1]], [0, 0, 1, 1], [0, 1, 1, 0, 2, 2], "float32",
    "int64", "bool", "uint8", "none", "tanh", "sum", "mean", "max", "constant", "reflect", "edge",
    "replicate", "nearest", "linear", "bilinear", "cubic", "x",
]  # fmt: skip


def other_value(rng: Random, value: Any) -> Any:
    """A nearby, a boundary, a huge, a negative or a wrongly typed value."""
    choice = rng.random()
    if choice < 0.12:
        return copy.deepcopy(rng.choice(WRONG))
    if isinstance(value, list) and value:
        at = rng.randrange(len(value))
        return [other_value(rng, side) if i == at else side for i, side in enumerate(value)]
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        near = [value - 1, value + 1, value + 1, value * 2, -value]
        return rng.choice(near) if choice < 0.75 else rng.choice(WHOLE)
    if isinstance(value, float):
        near = [value * 2, value / 2, -value]
        return rng.choice(near) if choice < 0.6 else rng.choice(REAL)
    return copy.deepcopy(rng.choice([*WRONG, 1, 2]))


def _attribute(rng: Random, parts: Parts) -> None:
    node = rng.choice(parts.book["graph"]["nodes"])
    names = [name for name in node if name not in OWN]
    if not names:
        return _operation(rng, parts)
    name = rng.choice(names)
    if isinstance(node[name], str) and node[name] in parts.book["tensors"]:
        node[name] = rng.choice([*parts.book["tensors"], None, "no such tensor"])
    else:
        node[name] = other_value(rng, node[name])
    return None


def _attribute_of_another(rng: Random, parts: Parts) -> None:
    nodes = parts.book["graph"]["nodes"]
    node, other = rng.choice(nodes), rng.choice(nodes)
    shared = [name for name in node if name in other and name not in OWN]
    for name in shared[:1] if rng.random() < 0.5 else shared:
        node[name] = copy.deepcopy(other[name])


def any_node(
    rng: Random, parts: Parts, source: Any, output: str, op: str | None = None
) -> dict[str, Any]:
    """A node of any operation of format 2, with attributes that it accepts."""
    entry = operation(op or rng.choice(sorted(operations())))
    inputs = [source] * rng.randint(entry.inputs[0], min(entry.inputs[1], entry.inputs[0] + 1))
    graph = parts.book["graph"]
    known = [value["name"] for value in graph["inputs"]]
    for node in graph["nodes"]:
        known += node["output"] if isinstance(node["output"], list) else [node["output"]]
    for at in range(1, len(inputs)):
        inputs[at] = rng.choice([source, source, rng.choice(known), 2, 0.5])
    count = rng.randint(*entry.outputs) if entry.outputs[1] < 4 else entry.outputs[0]
    outputs = [output, *[f"{output}-{at}" for at in range(1, count)]]
    node = {"op": entry.name, "inputs": inputs, "output": outputs if count > 1 else output}
    for name, kind in entry.attributes.items():
        if isinstance(kind, Stored):
            node[name] = rng.choice([*parts.book["tensors"], None])
            continue
        fits = [value for value in ACCEPTABLE if kind.accepts(_frozen(value))]
        if fits and (kind.default is REQUIRED or rng.random() < 0.5):
            node[name] = rng.choice(fits)
    return node


def _frozen(value: Any) -> Any:
    return tuple(map(_frozen, value)) if isinstance(value, list) else value


def _operation(rng: Random, parts: Parts) -> None:
    nodes = parts.book["graph"]["nodes"]
    if parts.format == "2" and rng.random() < 0.6:
        at = rng.randrange(len(nodes))
        nodes[at] = any_node(rng, parts, nodes[at]["inputs"][0], nodes[at]["output"])
        return
    node = rng.choice(nodes)
    op = rng.choice(list(DEFAULTS))
    kept = {name: node[name] for name in ("inputs", "output") if name in node}
    attributes = copy.deepcopy(DEFAULTS[op])
    node.clear() if rng.random() < 0.9 else None
    node.update(op=op, **kept, **attributes)


def _insert(rng: Random, parts: Parts) -> None:
    """A new node whose result takes the place of the value it reads."""
    nodes = parts.book["graph"]["nodes"]
    at = rng.randint(0, len(nodes))
    source = nodes[at - 1]["output"] if at else parts.book["graph"]["inputs"][0]["name"]
    for copies in range(rng.choice([1, 1, 1, 2, 3, 40, 1000])):
        op = rng.choice(list(DEFAULTS) if copies < 3 else ["relu", "hardswish"])
        name = f"n{rng.randrange(1 << 40)}"
        new = {"op": op, "inputs": [source], "output": name, **copy.deepcopy(DEFAULTS[op])}
        if parts.format == "2" and copies < 3 and rng.random() < 0.6:
            new = any_node(rng, parts, source, name)
        nodes.insert(at + copies, new)
        source = name
    before = nodes[at]["inputs"][0]
    for node in nodes[at + copies + 1 :]:
        node["inputs"] = [source if name == before else name for name in node["inputs"]]
    _rename_outputs(parts, before, source)


def _append(rng: Random, parts: Parts) -> None:
    """New nodes that nothing else reads: their results are outputs."""
    graph = parts.book["graph"]
    known = [graph["inputs"][0]["name"], *[node["output"] for node in graph["nodes"]]]
    for at in range(rng.choice([1, 1, 2, 3])):
        source = rng.choice([graph["nodes"][-1]["output"], *known])
        if parts.format == "2":
            node = any_node(rng, parts, source, f"a{at}")
        else:
            op = rng.choice(list(DEFAULTS))
            node = {"op": op, "inputs": [source], "output": f"a{at}", **copy.deepcopy(DEFAULTS[op])}
        graph["nodes"].append(node)
        graph["outputs"].append(f"a{at}")


def _rename_outputs(parts: Parts, before: Any, after: Any) -> None:
    graph = parts.book["graph"]
    graph["outputs"] = [after if name == before else name for name in graph["outputs"]]


def _duplicate(rng: Random, parts: Parts) -> None:
    nodes = parts.book["graph"]["nodes"]
    at = rng.randrange(len(nodes))
    twin = copy.deepcopy(nodes[at])
    if rng.random() < 0.9:
        twin["output"] = "twin"
    nodes.insert(rng.randint(at + 1, len(nodes)), twin)
    choice = rng.random()
    if choice < 0.4:
        twin["inputs"] = [nodes[at]["output"], *twin["inputs"][1:]]
        _rename_outputs(parts, nodes[at]["output"], twin["output"])
    elif choice < 0.8:
        parts.book["graph"]["outputs"].append(twin["output"])


def _drop(rng: Random, parts: Parts) -> None:
    """One node less; mostly its readers then read what it read."""
    nodes = parts.book["graph"]["nodes"]
    gone = nodes.pop(rng.randrange(len(nodes)))
    if rng.random() < 0.8 and gone["inputs"]:
        for node in nodes:
            replaced = [gone["inputs"][0] if n == gone["output"] else n for n in node["inputs"]]
            node["inputs"] = replaced
        _rename_outputs(parts, gone["output"], gone["inputs"][0])


def _reorder(rng: Random, parts: Parts) -> None:
    nodes = parts.book["graph"]["nodes"]
    a, b = rng.randrange(len(nodes)), rng.randrange(len(nodes))
    if rng.random() < 0.3:
        nodes[a], nodes[b] = nodes[b], nodes[a]
        return
    # The operations change places, the wires stay.
    wires = [{name: node.pop(name) for name in ("inputs", "output")} for node in nodes]
    nodes[a], nodes[b] = nodes[b], nodes[a]
    for node, wire in zip(nodes, wires, strict=True):
        node.update(wire)


def _rewire(rng: Random, parts: Parts) -> None:
    graph = parts.book["graph"]
    at = rng.randrange(len(graph["nodes"]))
    node = graph["nodes"][at]
    known = [value["name"] for value in graph["inputs"]]
    known += [other["output"] for other in graph["nodes"][: at + (rng.random() < 0.1)]]
    choice = rng.random()
    if choice < 0.7 and node["inputs"]:
        node["inputs"][rng.randrange(len(node["inputs"]))] = rng.choice(known)
    elif choice < 0.9:
        node["inputs"] += [rng.choice(known)] * rng.choice([1, 1, 2, 300])
    else:
        node["inputs"].clear()


def _input(rng: Random, parts: Parts) -> None:
    inputs = parts.book["graph"]["inputs"]
    value = rng.choice(inputs)
    choice = rng.random()
    if choice < 0.6:
        value["shape"] = other_value(rng, value["shape"])
    elif choice < 0.7:
        value["shape"] = [*value["shape"], rng.choice([1, 2, 65536])]
    elif choice < 0.8:
        value["shape"] = value["shape"][:-1]
    elif choice < 0.9:
        inputs.append({**value, "name": rng.choice(["y", value["name"]])})
    elif parts.format == "2" and choice < 0.96:
        value["shape"][rng.randrange(len(value["shape"]))] = rng.choice(["batch", "side", "x"])
        value["dtype"] = rng.choice(["float32", "float32", "int64", "bool", "uint8"])
    else:
        value[rng.choice(["name", "dtype"])] = copy.deepcopy(rng.choice([*WRONG, "int8"]))


def _output(rng: Random, parts: Parts) -> None:
    graph = parts.book["graph"]
    known = [graph["inputs"][0]["name"], *[node["output"] for node in graph["nodes"]]]
    choice = rng.random()
    if choice < 0.4:
        graph["outputs"] = [rng.choice(known)]
    elif choice < 0.8:
        graph["outputs"] += rng.choices(known, k=rng.choice([1, 1, 2, 5]))
    elif choice < 0.9:
        graph["outputs"] = [name for name in known if rng.random() < 0.8]
    else:
        graph["outputs"] = copy.deepcopy(rng.choice([[], ["nothing"], [None], "x", None]))


def _preprocessing(rng: Random, parts: Parts) -> None:
    sides = parts.book["graph"]["inputs"][0]["shape"]
    channels = sides[1] if len(sides) > 1 and isinstance(sides[1], int) else 1
    count = rng.choice([1, 2, min(max(channels, 1), 5000)])
    record = parts.book["preprocessing"] or {
        "input": "uint8", "layout": "NCHW", "scale": 1 / 255, "mean": [0.5] * count,
        "std": [0.2] * count, "resize": None, "crop": None,
    }  # fmt: skip
    parts.book["preprocessing"] = record
    field = rng.choice(list(record))
    if field in ("mean", "std") and rng.random() < 0.5:
        record["mean"], record["std"] = [0.1] * count, [rng.choice([1.0, 1e-38, 1e-45])] * count
    else:
        texts = {"input": ["uint8", "float32"], "layout": ["NCHW", "NHWC"]}
        new = other_value(rng, record[field])
        record[field] = rng.choice([*texts.get(field, [new]), new])


def _labels(rng: Random, parts: Parts) -> None:
    parts.book["labels"] = copy.deepcopy(
        rng.choice([None, [], ["a"], ["\x1b[31m", "\n"], [1], "ab", ["x"] * 100, {}])
    )


def _tensor_shape(rng: Random, parts: Parts) -> None:
    """Other sides: of the same number of elements, so that the values still fit, or not."""
    name = rng.choice(list(parts.book["tensors"]))
    record = parts.book["tensors"][name]
    if "shape" not in record:
        return
    if rng.random() < 0.7:
        shape = list(record["shape"])
        rng.shuffle(shape)
        if len(shape) > 1 and shape[0] % 2 == 0 and rng.random() < 0.4:
            shape[0], shape[1] = shape[0] // 2, shape[1] * 2
    else:
        shape = other_value(rng, record["shape"])
    record["shape"] = shape
    for part in (name, f"{name}:values"):
        if record["form"] == "dense" and part in parts.fields:
            parts.fields[part]["shape"] = shape


def _tensors(rng: Random, parts: Parts) -> None:
    """Two tensors change names, one becomes another name of the other, or is left out."""
    tensors = parts.book["tensors"]
    a, b = rng.choice(list(tensors)), rng.choice(list(tensors))
    if rng.random() < 0.6:
        swap = {a: b, b: a}
        for node in parts.book["graph"]["nodes"]:
            for field, value in node.items():
                if isinstance(value, str) and field not in OWN:
                    node[field] = swap.get(value, value)
    else:
        tensors[a] = {"tied": rng.choice([b, a, "no such tensor", 3])}
        for part in [part for part in parts.parts if part == a or part.startswith(f"{a}:")]:
            del parts.parts[part], parts.fields[part]


def _numbers(rng: Random, parts: Parts) -> None:
    """Values of a dense tensor: huge, tiny, zero, infinite or not a number."""
    dense = [name for name in parts.parts if parts.fields[name]["dtype"] == "F32"]
    if dense:
        part = parts.parts[rng.choice(dense)]
        floats = np.frombuffer(part, np.float32).copy()
        at = slice(None) if rng.random() < 0.3 else rng.randrange(len(floats))
        floats[at] = rng.choice([0, -0.0, 1e-40, 1e10, 1e38, -1e38, np.inf, np.nan])
        part[:] = floats.tobytes()


MUTATIONS: list[Callable[[Random, Parts], None]] = [
    _attribute, _attribute, _attribute, _attribute, _attribute, _attribute_of_another, _operation,
    _operation, _insert, _append, _append, _append, _duplicate, _duplicate, _drop, _reorder,
    _reorder, _rewire, _rewire, _input, _input, _output, _output, _preprocessing, _labels,
    _tensor_shape, _tensors, _numbers,
]  # fmt: skip


def mutate(seed: str, parts: Parts) -> str:
    """One change, which the seed decides; its name. What an earlier change left may be so broken
    that this one has nothing to hold on to: then there is none."""
    rng = Random(seed)
    change = rng.choice(MUTATIONS)
    untouched = copy.deepcopy(parts)
    try:
        change(rng, parts)
    except (TypeError, ValueError, KeyError, IndexError, AttributeError):
        for own, before in zip(parts[:3], untouched[:3], strict=True):
            own.clear()
            own.update(before)
        return "nothing"
    return change.__name__.strip("_")
