"""`max_memory` bounds a network of format 2 as a whole: all that it holds, and a call's values."""

import tracemalloc
import warnings

import numpy as np
import pytest

from skinny import native, packing
from skinny.runtime import load
from skinny.runtime.memory import MemoryLimitError

MB = 1_000_000
needs_kernels = pytest.mark.skipif(native.extension() is None, reason="there are no kernels")


def node(op, *inputs, out="y", **attributes):
    return {"op": op, "inputs": list(inputs), "output": out, **attributes}


def conv(source, out, weight="w"):
    return node("conv", source, out=out, weight=weight, bias=None, stride=[1, 1], padding=[1, 1],
                dilation=[1, 1], groups=1)  # fmt: skip


def full(out, shape, value=1.0, dtype="float32"):
    return node("full", out=out, shape=list(shape), value=value, dtype=dtype)


@pytest.fixture
def network(tmp_path):
    """(nodes, tensors, shape of the input beside the batch, max_memory) -> a network"""

    def make(nodes, tensors=None, shape=(1,), outputs=("y",), **options):
        inputs = [{"name": "x", "shape": ["batch", *shape], "dtype": "float32"}]
        graph = {"inputs": inputs, "nodes": nodes, "outputs": list(outputs)}
        packing.write(tmp_path / "net.skinny", tensors or {}, graph=graph, format=2)
        return load(tmp_path / "net.skinny", threads=1, **options)

    return make


def call(net, *shape):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        return net(np.ones(shape, np.float32))


def peak_of_call(net, *shape):
    """Bytes that NumPy takes at most."""
    x = np.ones(shape, np.float32)
    tracemalloc.start()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        net(x)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak


WEIGHT = {"w": np.ones((16, 16, 3, 3), np.float32)}


@needs_kernels
@pytest.mark.parametrize("low_memory", [False, True])
def test_the_memory_of_all_segments_counts(network, low_memory):
    """Each keeps its arena, of half a megabyte and more."""

    def chain(count):
        nodes = []
        for i in range(count):  # a cumulative sum has no kernel
            source = "x" if i == 0 else f"v{i - 1}"
            nodes += [conv(source, f"c{i}"), node("cumsum", f"c{i}", out=f"v{i}", axis=1)]
        return nodes

    def make(count):
        return network(chain(count), WEIGHT, (16, 64, 64), (f"v{count - 1}",),
                       max_memory=8 * MB, low_memory=low_memory)  # fmt: skip

    assert call(make(1), 1, 16, 64, 64).shape == (1, 16, 64, 64)
    if low_memory:  # one after the other
        assert call(make(20), 1, 16, 64, 64).shape == (1, 16, 64, 64)
    else:
        with pytest.raises(MemoryLimitError):
            call(make(20), 1, 16, 64, 64)


@needs_kernels
def test_programs_of_other_shapes_make_room(network):
    nodes = [conv("x", "c"), node("cumsum", "c", axis=1)]
    large = network(nodes, WEIGHT, (16, "height", "width"))
    call(large, 1, 16, 64, 64)
    (alone,) = large._by_shape.values()
    limit = large._held + alone.values + 50_000
    small = network(nodes, WEIGHT, (16, "height", "width"), max_memory=limit)
    for side in (64, 60, 62, 64, 58):
        for net in (large, small):
            assert call(net, 1, 16, side, side).shape == (1, 16, side, side)
        assert small._held + max(mixed.values for mixed in small._by_shape.values()) <= limit
        assert len(small._by_shape) == 1
    assert len(large._by_shape) == 4


@needs_kernels
def test_a_shape_seen_before_makes_room_for_its_values(network):
    """Programs that came later, of shapes that need little, may not be in the way."""
    nodes = [conv("x", "c"), node("cumsum", "c", axis=1)]
    large = network(nodes, WEIGHT, (16, "height", "width"))
    call(large, 1, 16, 64, 64)
    (alone,) = large._by_shape.values()
    limit = large._held + alone.values + 50_000
    net = network(nodes, WEIGHT, (16, "height", "width"), max_memory=limit)
    call(net, 1, 16, 64, 64)
    call(net, 1, 16, 40, 40)  # whose program there is room for, as it needs few values
    assert len(net._by_shape) == 2
    call(net, 1, 16, 64, 64)
    assert len(net._by_shape) == 1
    assert net._held + alone.values <= limit


def test_tensors_are_not_read_into_more_memory_than_allowed(network):
    zeros = {"w": np.zeros((4096, 4096), np.float32)}  # a bitmask of 2 MB, in a file of kilobytes
    nodes = [node("linear", "x", weight="w", bias=None)]
    with pytest.raises(MemoryLimitError, match="the network needs about"):
        network(nodes, zeros, (4096,), max_memory=1 * MB)


@pytest.mark.parametrize(
    "nodes",
    [
        [full("i", [2], 0, "int64"), node("embedding", "i", out="z", weight="w")],
        [full("i", [1, 3000]), node("linear", "i", out="z", weight="w", bias=None)],
    ],
    ids=["embedding", "linear"],
)
def test_a_constant_made_of_a_large_tensor_is_not_computed_ahead(network, nodes):
    zeros = {"w": np.zeros((3000, 3000), np.float32)}  # 36 MB
    net = network([*nodes, node("add", "x", "z")], zeros, max_memory=20 * MB)
    tracemalloc.start()
    with pytest.raises(MemoryLimitError):
        call(net, 1, 1)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 20 * MB


def test_small_constants_count(network):
    nodes = [full(f"c{i}", [1000], float(i)) for i in range(3000)]
    sums = [node("add", f"s{i - 1}" if i else "x", f"c{i}", out=f"s{i}") for i in range(3000)]
    with pytest.raises(MemoryLimitError):
        call(network([*nodes, *sums], outputs=("s2999",), max_memory=8 * MB), 1, 1)


CHAINS = {
    "slices of large values": [
        n for i in range(30) for n in (
            node("expand", f"c{i - 1}" if i else "x", out=f"a{i}", shape=[1, 1_000_000]),
            node("cumsum", f"a{i}", out=f"b{i}", axis=0),
            node("slice", f"b{i}", out=f"c{i}", axis=1, start=0, end=1),
        )
    ],
    "results that nobody reads": [
        n for i in range(30) for n in (
            node("expand", f"c{i - 1}" if i else "x", out=f"a{i}", shape=[1, 1_000_000]),
            node("topk", f"a{i}", out=[f"t{i}", f"i{i}"], k=1_000_000, axis=1),
            node("prod", f"t{i}", out=f"c{i}", axes=[1], keep=True),
        )
    ],
}  # fmt: skip


@pytest.mark.parametrize("nodes", CHAINS.values(), ids=CHAINS)
def test_what_nobody_needs_any_more_is_not_in_memory(network, nodes):
    """Thirty values of 4 MB, one after the other."""
    joined = node("concat", *(f"c{i}" for i in range(30)), axis=1)
    net = network([*nodes, joined], max_memory=60 * MB)
    assert peak_of_call(net, 1, 1) < 60 * MB
    assert call(net, 1, 1).shape == (1, 30)


@pytest.mark.parametrize(
    "nodes",
    [
        [node("layer_norm", "e", axes=1, eps=1e-5)],
        [node("topk", "e", out=["y", "i"], k=1000, axis=1)],
        [node("gelu", "e", approximate="none")],
        [node("resize", "e4", size=[1000, 2000], mode="cubic")],
    ],
    ids=lambda nodes: nodes[-1]["op"],
)
def test_numpy_takes_no_more_than_the_limit(network, nodes):
    expand = node("expand", "x", out="e", shape=[1, 2_000_000])
    image = node("reshape", "e", out="e4", shape=[1, 1, 1000, 2000])
    for limit in (20 * MB, 40 * MB, 80 * MB, 160 * MB):
        net = network([expand, image, *nodes], max_memory=limit)
        try:
            assert peak_of_call(net, 1, 1) <= limit
            return
        except MemoryLimitError:
            tracemalloc.stop()
    pytest.fail("even the largest limit is not enough")


def test_a_large_stored_tensor_as_output_is_the_callers_own(network):
    table = {"t": np.ones((2_000, 1_000), np.float32)}  # too large to be computed ahead
    net = network([node("constant", out="c", tensor="t"), node("mul", "x", 2.0)], table,
                  outputs=("c", "y"))  # fmt: skip
    call(net, 1, 1)[0][:] = 7
    assert (call(net, 1, 1)[0] == 1).all()


def test_many_outputs_that_are_one_value_count_each(network):
    net = network([node("mul", "x", 2.0)], shape=(100_000,), outputs=["y"] * 100,
                  max_memory=20 * MB)  # fmt: skip
    with pytest.raises(MemoryLimitError):
        call(net, 1, 100_000)


@pytest.mark.parametrize(
    "nodes",
    [
        [node("expand", "x", out="e", shape=[1, 1, 1 << 24]),
         node("max_pool", "e", kernel=[2], stride=[1], padding=[0], dilation=[1], ceil=False)],
        [node("resize", "x", size=[1 << 24], mode="linear")],
    ],
    ids=["pool", "resize"],
)  # fmt: skip
def test_nothing_is_planned_that_there_is_no_memory_for(network, nodes):
    """Of a window for each of 16 million outputs, say."""
    net = network(nodes, shape=(1, 1), max_memory=200 * MB)
    tracemalloc.start()
    with pytest.raises(MemoryLimitError):
        call(net, 1, 1, 1)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 20 * MB
