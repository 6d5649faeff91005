"""A specialized graph in order of execution: native segments, and nodes run by their references.

Two queues, so that segments are few and large: all reference nodes that are ready run, then all
native nodes that are ready form a segment, and so on.
"""

import heapq
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from skinny.graph import Node, Specialized, operation


@dataclass(frozen=True)
class Segment:
    """Nodes that run as one native program."""

    nodes: tuple[Node, ...]
    inputs: tuple[str, ...]  # values from outside that are not constants
    outputs: tuple[str, ...]  # values that are read outside


def segments(
    special: Specialized,
    outputs: Sequence[str],
    is_native: Callable[[Node], bool],
    starts_anew: Callable[[Node], bool],
) -> list[Segment | Node]:
    """starts_anew: whether a node goes into another segment than the last such one. Views alone are
    left to NumPy, which does not copy either."""
    items: list[list[Node] | Node] = []
    for nodes in _in_turns(special.nodes, is_native):
        if not is_native(nodes[0]) or all(map(is_view, nodes)):
            items += nodes
            continue
        piece: list[Node] = []
        used = False
        for node in nodes:
            if piece and used and starts_anew(node):
                items.append(piece)
                piece, used = [], False
            piece.append(node)
            used = used or starts_anew(node)
        items.append(piece)
    return _with_ends(items, special, outputs)


def is_view(node: Node) -> bool:
    """Whether a node's result is its input with other strides, mostly."""
    return operation(node.op).lowering in ("view", "reshape", "split")


def _in_turns(nodes: Sequence[Node], is_native: Callable[[Node], bool]) -> list[list[Node]]:
    """The nodes in an order that respects their inputs, reference and native nodes in turn."""
    makers = {name: at for at, node in enumerate(nodes) for name in node.outputs}
    readers: list[list[int]] = [[] for _ in nodes]
    waiting = []
    for at, node in enumerate(nodes):
        sources = {makers[x] for x in node.inputs if isinstance(x, str) and x in makers}
        waiting.append(len(sources))
        for source in sources:
            readers[source].append(at)
    native = [is_native(node) for node in nodes]
    queues: dict[bool, list[int]] = {False: [], True: []}  # heaps: the graph's order is kept
    for at, count in enumerate(waiting):
        if not count:
            heapq.heappush(queues[native[at]], at)
    made: list[list[Node]] = []
    turn = False
    while queues[False] or queues[True]:
        batch: list[Node] = []
        while queues[turn]:
            at = heapq.heappop(queues[turn])
            batch.append(nodes[at])
            for reader in readers[at]:
                waiting[reader] -= 1
                if not waiting[reader]:
                    heapq.heappush(queues[native[reader]], reader)
        if batch:
            made.append(batch)
        turn = not turn
    return made


def _with_ends(
    items: list[list[Node] | Node], special: Specialized, outputs: Sequence[str]
) -> list[Segment | Node]:
    """Segments with what enters and leaves them."""
    wanted = set(outputs)
    final: list[Segment | Node] = []
    for item in reversed(items):
        if isinstance(item, Node):
            wanted.update(value for value in item.inputs if isinstance(value, str))
            final.append(item)
            continue
        made = [name for node in item for name in node.outputs]
        inside = {*made, *special.constants}
        reads = [x for node in item for x in node.inputs if isinstance(x, str) and x not in inside]
        entering = tuple(dict.fromkeys(reads))
        final.append(Segment(tuple(item), entering, tuple(n for n in made if n in wanted)))
        wanted.update(entering)
    return final[::-1]
