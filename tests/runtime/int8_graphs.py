"""Graphs with layers in int8, and whether the kernels give the very bits of the reference."""

import numpy as np
from tests.graph import running
from tests.runtime.native_graphs import mixed

from skinny.graph import Graph, Input, Node
from skinny.graph.graph import complete

rng = np.random.default_rng(7)


class Net:
    """A graph in the making, its tensors among it."""

    def __init__(self, *shape):
        self.nodes, self.tensors, self.shape = [], {}, shape

    def node(self, op, *inputs, **attributes):
        name = f"v{len(self.nodes)}"
        self.nodes.append(Node(op, inputs, (name,), complete(op, attributes, op)))
        return name

    def layer(self, op, x, shape, *, density=0.5, scale=0.03, zero=0, bias=True, extreme=False,
              factor=False, **attributes):  # fmt: skip
        at = len(self.tensors)
        weight = rng.standard_normal(shape) * (rng.random(shape) < density)
        if extreme:
            weight = np.where(rng.random(shape) < 0.5, -9.0, 9.0) * (weight != 0)
        self.tensors[f"w{at}"] = weight.astype(np.float32)
        self.tensors[f"s{at}"] = (0.01 + 0.02 * rng.random(shape[0])).astype(np.float32)
        given = {"weight": f"w{at}", "weight_scale": f"s{at}"}
        for name, there in (("bias", bias), ("factor", factor)):
            if there:
                given[name] = f"{name}{at}"
                self.tensors[given[name]] = rng.standard_normal(shape[0]).astype(np.float32)
        return self.node(op, x, input_scale=scale, input_zero=zero, **given, **attributes)

    def conv(self, x, shape, *, stride=1, padding=0, dilation=1, groups=1, **given):
        spatial = len(shape) - 2
        window = {"stride": stride, "padding": padding, "dilation": dilation}
        lists = {name: (value,) * spatial for name, value in window.items()}
        return self.layer("conv_int8", x, shape, groups=groups, **lists, **given)

    def check(self, *outputs, threads=1, scale=3):
        graph = Graph((Input("x", "float32", self.shape),), tuple(self.nodes), outputs)
        given = {"x": (scale * rng.standard_normal(self.shape)).astype(np.float32)}
        want = running.run(graph, given, self.tensors)
        made = mixed(graph, given, self.tensors, threads=threads)
        assert not made.interpreted
        for got, expected in zip(made.run(given), want, strict=True):
            np.testing.assert_array_equal(got, expected)
        return [info.kernel for item in made._natives.values() for info in item.steps]
