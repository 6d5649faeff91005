"""What a network computes, apart from how: typed nodes, and one registry entry per operation."""

from skinny.graph.errors import GraphError
from skinny.graph.graph import Graph, Input, Node, check, from_json, to_json
from skinny.graph.reference import run
from skinny.graph.registry import Operation, operation, operations
from skinny.graph.specialize import Specialized, specialize
from skinny.graph.values import Spec

__all__ = [
    "Graph",
    "GraphError",
    "Input",
    "Node",
    "Operation",
    "Spec",
    "Specialized",
    "check",
    "from_json",
    "operation",
    "operations",
    "run",
    "specialize",
    "to_json",
]
