"""Graphs of arrays in memory, run by native programs as far as they have lowerings."""

import numpy as np
from tests.graph import running

from skinny.graph import Node, specialize
from skinny.graph.graph import Graph, Input, complete
from skinny.packing.codec import Entry, SparseTensor
from skinny.runtime.memory import Account, MemoryLimit
from skinny.runtime.mixed import Mixed
from skinny.runtime.shared_weights import SharedWeights
from skinny.runtime.weights import Weights


class Arrays:
    """What `Weights` asks of a file."""

    def __init__(self, tensors):
        self.tensors = tensors

    def entry(self, name):
        return Entry("F32", self.tensors[name].shape)

    def kept(self, name):
        return int(np.count_nonzero(self.tensors[name]))

    def read_sparse(self, name):
        array = np.ascontiguousarray(self.tensors[name], np.float32)
        mask = np.packbits(array.reshape(-1) != 0, bitorder="little")
        return SparseTensor(array.shape, "F32", mask, array[array != 0])

    def read_float32(self, name):
        return np.array(self.tensors[name], np.float32)


def mixed(graph, given, tensors, *, threads=1, low_memory=False):
    spec, tensor = running.specs_of(tensors), tensors.__getitem__
    shapes = {name: array.shape for name, array in given.items()}
    special = specialize(graph, shapes, spec, tensor)
    weights = SharedWeights(Weights(Arrays(tensors)), threads)
    made = Mixed(graph, special, tensor, spec, weights, threads, low_memory=low_memory)
    made.prepare(Account(MemoryLimit(1 << 30)))
    return made


def nodes(*records):
    """(op, inputs, outputs, attributes) each."""
    return tuple(
        Node(op, inputs, outputs, complete(op, attributes, op))
        for op, inputs, outputs, attributes in records
    )


def random(seed, *shape):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def check(graph, given, tensors, **options):
    want = running.run(graph, given, tensors)
    made = mixed(graph, given, tensors, **options)
    for got, expected in zip(made.run(given), want, strict=True):
        running.same(got, expected, 1e-4)
    return made


def graph_of(inputs, outputs, *records):
    declared = tuple(Input(name, "float32", array.shape) for name, array in inputs.items())
    return Graph(declared, nodes(*records), tuple(outputs))


def steps(made):
    return [info.op for segment in made._natives.values() for info in segment.steps]
