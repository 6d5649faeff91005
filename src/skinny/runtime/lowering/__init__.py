"""How operations run natively: the lowerings that the registry names, a file per family."""

from skinny.graph import Node, operation
from skinny.runtime.lowering import (
    elementwise,
    gather,
    images,
    int8,
    joining,
    linear,
    matmul,
    norms,
    pixels,
    recurrent,
    transposed,
    views,
)
from skinny.runtime.tensor_plan import Facts, Lowering

LOWERINGS: dict[str, Lowering] = {
    "conv": images.CONV,
    "conv_transpose": transposed.CONV_TRANSPOSE,
    "pool": images.POOL,
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
    "group_norm": norms.GROUP_NORM,
    "reduce": norms.REDUCE,
    "matmul": matmul.MATMUL,
    "attention": matmul.ATTENTION,
    "recurrent": recurrent.RECURRENT,
    "constant": gather.CONSTANT,
    "embedding": gather.EMBEDDING,
}


def lowering(node: Node) -> Lowering:
    return LOWERINGS[operation(node.op).lowering]


def is_native(facts: Facts, node: Node) -> bool:
    """Whether a node runs natively. Empty values are left to the references."""
    if not operation(node.op).lowering:
        return False
    if any(facts.spec(value).size == 0 for value in (*node.inputs, *node.outputs)):
        return False
    return lowering(node).accepts(facts, node)
