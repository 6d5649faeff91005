"""Which nodes of a segment compute each sample of a batch by itself.

Such nodes are planned for one sample, and each thread runs all of them for one sample after the
other: the values of a sample stay in its caches, where those of a batch would not, and the arena is
that of one sample for each thread.
"""

from skinny.graph import Node, operation
from skinny.runtime.segments import Segment
from skinny.runtime.tensor_plan import Facts

# Lowerings whose operations take the first axis as a batch. Layers of few rows are not among them:
# their weights are read once for all samples.
_BY_SAMPLE = ("conv", "conv_int8", "fake_quantize", "pool", "batch_norm", "map", "lrn", "reshape")


def divided(segment: Segment, facts: Facts) -> list[tuple[Segment, int]]:
    """The segment's first nodes with the number of samples they compute one by one, and the others,
    with 1. Only where layers in int8 are among the first: their values are small."""
    batches = {facts.specs[name].shape[:1] for name in segment.inputs}
    if len(batches) != 1 or batches <= {(), (1,)}:
        return [(segment, 1)]
    ((batch,),) = batches
    made = set(segment.inputs)
    for node in segment.nodes:
        if not _by_sample(node, facts, made, batch):
            break
        made.update(node.outputs)
    first = tuple(node for node in segment.nodes if made.issuperset(node.outputs))
    rest = segment.nodes[len(first) :]
    if not any(node.op == "conv_int8" for node in first):
        return [(segment, 1)]
    read = {name for node in rest for name in node.values}
    results = [name for node in first for name in node.outputs]
    leaving = tuple(name for name in results if name in read or name in segment.outputs)
    found = [(Segment(first, segment.inputs, leaving), batch)]
    if rest:
        entering = tuple(x for x in (*segment.inputs, *leaving) if x in read)
        others = tuple(name for name in segment.outputs if name not in made)
        found.append((Segment(rest, entering, others), 1))
    return found


def _by_sample(node: Node, facts: Facts, made: set[str], batch: int) -> bool:
    """Whether a node reads samples and numbers alone, and makes a sample of each."""
    return (
        operation(node.op).lowering in _BY_SAMPLE
        and not made.isdisjoint(node.values)
        and all(name in made or facts.specs[name].size == 1 for name in node.values)
        and all(not isinstance(x, str) or facts.specs[x].ndim > 1 for x in node.inputs)
        and all(facts.specs[x].shape[:1] == (batch,) for x in node.outputs)
    )


def of_one_sample(segment: Segment, facts: Facts) -> Facts:
    """What is known of the nodes when they compute a single sample."""
    names = {*segment.inputs, *(name for node in segment.nodes for name in node.outputs)}
    specs = dict(facts.specs)
    for name in names:
        specs[name] = specs[name]._replace(shape=(1, *specs[name].shape[1:]))
    return facts._replace(specs=specs)
