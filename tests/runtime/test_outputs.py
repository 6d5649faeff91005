"""Which values of a graph may be its outputs: any, in any number."""

import numpy as np
import pytest
from runtime_builder import Builder

from skinny import packing
from skinny.runtime import load, reference


def two_convolutions(b: Builder) -> list[str]:
    first = b.conv(2, 3, (3, 3), padding=(1, 1))
    return [first, b.conv(3, 4)]


def two_convolutions_of_the_input(b: Builder) -> list[str]:
    first = b.conv(2, 3, (3, 3))
    second = b.conv(2, 5, (1, 1), stride=(2, 2))
    b.nodes[-1]["inputs"] = ["x"]
    return [second, first]


def the_same_value_twice(b: Builder) -> list[str]:
    return [b.conv(2, 3, (3, 3))] * 2


def a_value_before_and_after_pooling(b: Builder) -> list[str]:
    first = b.conv(2, 3, (3, 3), padding=(1, 1))
    return [b.max_pool(), first]


def a_value_that_the_network_goes_on_with(b: Builder) -> list[str]:
    b.conv(2, 3, (3, 3))
    middle = b.add("relu")
    b.add("flatten", start=1, end=-1)
    return [b.linear(3 * 4 * 7, 5), middle]


def two_vectors_of_the_tail(b: Builder) -> list[str]:
    b.add("flatten", start=1, end=-1)
    first = b.linear(2 * 6 * 9, 5)
    b.add("relu")
    return [b.linear(5, 4), first]


def the_input_alone(b: Builder) -> list[str]:
    return ["x"]


def the_input_beside_a_convolution(b: Builder) -> list[str]:
    return ["x", b.conv(2, 3, (3, 3), padding=(1, 1)), "x"]


def the_input_beside_nodes_without_use(b: Builder) -> list[str]:
    b.conv(2, 3, (3, 3))
    return ["x"]


def nodes_after_the_output(b: Builder) -> list[str]:
    output = b.conv(2, 3, (3, 3))
    b.add("flatten", start=1, end=-1)
    b.linear(3 * 4 * 7, 5)
    b.add("softmax", axis=1)
    return [output]


def nodes_without_use_before_the_output(b: Builder) -> list[str]:
    first = b.conv(2, 3, (3, 3), padding=(1, 1))
    b.add("relu")
    b.max_pool()
    b.conv(3, 4, (3, 3))
    b.nodes[-1]["inputs"] = [first]
    return [b.last]


def names_the_planner_might_choose(b: Builder) -> list[str]:
    first = b.conv(2, 3, (3, 3))
    b.conv(3, 4)
    b.nodes[-1]["output"] = f"{first} (output 0)"
    b.add("relu")
    b.nodes[-1]["output"] = "all outputs"
    return [first, f"{first} (output 0)", "all outputs"]


OUTPUTS = [
    two_convolutions,
    two_convolutions_of_the_input,
    the_same_value_twice,
    a_value_before_and_after_pooling,
    a_value_that_the_network_goes_on_with,
    two_vectors_of_the_tail,
    the_input_alone,
    the_input_beside_a_convolution,
    the_input_beside_nodes_without_use,
    nodes_after_the_output,
    nodes_without_use_before_the_output,
    names_the_planner_might_choose,
]


@pytest.mark.parametrize("low_memory", [False, True])
@pytest.mark.parametrize("make", OUTPUTS, ids=lambda make: make.__name__)
def test_outputs_equal_the_references(make, low_memory, tmp_path):
    builder = Builder(2, 6, 9)
    outputs = make(builder)
    graph = builder.graph(*outputs)
    packing.write(tmp_path / "net.skinny", builder.tensors, graph=graph)
    net = load(tmp_path / "net.skinny", low_memory=low_memory)
    for images in (1, 3, 17):
        x = builder.batch(images)
        wanted = reference.run(graph, builder.tensors.__getitem__, x)
        results = net(x)
        results = results if len(outputs) > 1 else [results]
        for result, expected in zip(results, wanted, strict=True):
            np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-5)
