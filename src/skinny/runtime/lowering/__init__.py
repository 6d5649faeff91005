"""How operations run natively: the lowerings that the registry names, a file per family."""

from collections.abc import Sequence

from skinny.graph import Node, operation
from skinny.runtime.lowering import (
    elementwise,
    gather,
    int8,
    joining,
    linear,
    lrn,
    matmul,
    norms,
    pixels,
    recurrent,
    transposed,
    views,
    volumes,
)
from skinny.runtime.segments import is_view
from skinny.runtime.tensor_plan import Facts, Lowering

LOWERINGS: dict[str, Lowering] = {
    "conv": volumes.CONV,
    "conv_transpose": transposed.CONV_TRANSPOSE,
    "pool": volumes.POOL,
    "conv_int8": int8.CONV,
    "linear_int8": int8.LINEAR,
    "fake_quantize": int8.FAKE_QUANTIZE,
    "linear": linear.LINEAR,
    "batch_norm": elementwise.BATCH_NORM,
    "map": elementwise.MAP,
    "view": views.VIEW,
    "reshape": views.RESHAPE,
    "split": views.SPLIT,
    "concat": joining.CONCAT,
    "pad": joining.PAD,
    "flip": joining.FLIP,
    "tile": joining.TILE,
    "shuffle": pixels.SHUFFLE,
    "resize": pixels.RESIZE,
    "softmax": norms.SOFTMAX,
    "norm": norms.NORM,
    "lrn": lrn.LRN,
    "group_norm": norms.GROUP_NORM,
    "reduce": norms.REDUCE,
    "matmul": matmul.MATMUL,
    "attention": matmul.ATTENTION,
    "recurrent": recurrent.RECURRENT,
    "constant": gather.CONSTANT,
    "embedding": gather.EMBEDDING,
    "embedding_int8": gather.EMBEDDING_INT8,
    "embedding_bag": gather.EMBEDDING_BAG,
    "index": gather.INDEX,
}
_LOOKUPS = ("embedding", "embedding_int8", "embedding_bag")


def lowering(node: Node) -> Lowering:
    return LOWERINGS[operation(node.op).lowering]


def native_nodes(facts: Facts, nodes: Sequence[Node], outputs: Sequence[str]) -> set[str]:
    """The first results of the nodes that run natively. Views of integers do where embeddings alone
    read them: to call NumPy for each takes longer than a small network."""
    found = {node.outputs[0] for node in nodes if is_native(facts, node)}
    readers: dict[str, list[Node]] = {}
    for node in reversed(nodes):
        if _is_index(facts, node) and not any(name in outputs for name in node.outputs):
            users = [user for name in node.outputs for user in readers.get(name, [])]
            if all(user.outputs[0] in found and _takes_index(facts, user) for user in users):
                found.add(node.outputs[0])
        for name in node.inputs:
            if isinstance(name, str):
                readers.setdefault(name, []).append(node)
    return found


def _is_index(facts: Facts, node: Node) -> bool:
    """Whether a node is a view of integers that a call is given."""
    if not is_view(node) or not isinstance(node.inputs[0], str):
        return False
    spec = facts.spec(node.inputs[0])
    sizes = [facts.spec(name).size for name in (node.inputs[0], *node.outputs)]
    return spec.dtype in ("int64", "int32") and min(sizes) > 0


def _takes_index(facts: Facts, node: Node) -> bool:
    return operation(node.op).lowering in _LOOKUPS or _is_index(facts, node)


def is_native(facts: Facts, node: Node) -> bool:
    """Whether a node runs natively whoever reads it. Empty values are left to the references."""
    if not operation(node.op).lowering:
        return False
    if any(facts.spec(value).size == 0 for value in (*node.inputs, *node.outputs)):
        return False
    return lowering(node).accepts(facts, node)
