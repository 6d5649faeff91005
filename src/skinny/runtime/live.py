"""Which nodes of a graph its outputs depend on."""

from collections.abc import Mapping
from typing import Any


def live(graph: Mapping[str, Any]) -> dict[str, Any]:
    """The graph without nodes that no output depends on."""
    needed = set(graph["outputs"])
    nodes = []
    for node in reversed(graph["nodes"]):
        if node["output"] in needed:
            needed.update(node["inputs"])
            nodes.append(node)
    return {**graph, "nodes": nodes[::-1]}
