"""Small files cannot ask for much: planning is linear in the graph, memory is limited.

What a plan costs is counted in steps, in comparisons and in bytes, never in seconds. The graphs are
large enough that work that is not linear would never end.
"""

import math

import numpy as np
import pytest
from runtime_builder import Builder

from skinny import packing
from skinny.errors import SkinnyError
from skinny.runtime import load, low_memory, plan, reference
from skinny.runtime.layout import Buffer, compact, plan_memory
from skinny.runtime.memory import MemoryLimitError, memory_limit
from skinny.runtime.plan import split_tail
from skinny.runtime.program import Program
from skinny.runtime.shapes import infer

LARGE = 5000


def write(path, builder: Builder, *outputs: str):
    packing.write(path, builder.tensors, graph=builder.graph(*outputs))
    return path


def check(net, builder: Builder, images: int, *outputs: str) -> None:
    x = builder.batch(images)
    wanted = reference.run(builder.graph(*outputs), builder.tensors.__getitem__, x)[0]
    np.testing.assert_allclose(net(x), wanted, rtol=1e-4, atol=1e-5)


def relus_on_an_image(b: Builder) -> None:
    for _ in range(LARGE):
        b.add("relu")


def relus_on_a_vector(b: Builder) -> None:
    b.add("flatten", start=1, end=-1)
    relus_on_an_image(b)


def values_that_all_live_to_the_end(b: Builder) -> None:
    relus_on_an_image(b)
    values = [node["output"] for node in b.nodes]
    for value in values[:-1]:
        b.add("add", b.last, value)


@pytest.mark.parametrize(
    "make", [relus_on_an_image, relus_on_a_vector, values_that_all_live_to_the_end]
)
def test_thousands_of_nodes_are_planned_at_once(make, tmp_path):
    builder = Builder(1, 2, 2)
    make(builder)
    check(load(write(tmp_path / "net.skinny", builder)), builder, 1)


def test_no_slice_lies_in_another_one(tmp_path, monkeypatch):
    """To find where a value lies then takes one look, however deeply concatenations are nested."""
    made = []

    class Kept(Program):
        def __init__(self, *arguments):
            super().__init__(*arguments)
            made.append(self)

    monkeypatch.setattr(plan, "Program", Kept)
    builder = Builder(1, 2, 2)
    for _ in range(100):
        builder.add("concat", builder.last, builder.add("relu", "x"), axis=1)
    for _ in range(3):
        builder.add("reshape", shape=[None, -1])
    builder.add("relu")
    check(load(write(tmp_path / "net.skinny", builder)), builder, 1)
    slices = [program.slices for program in made if program.slices]
    assert max(map(len, slices)) > 200
    for own in slices:
        assert not {whole for whole, _ in own.values()} & own.keys()


def test_low_memory_plans_only_the_layer_that_runs(tmp_path, monkeypatch):
    seen = []

    def planned(graph, shapes, *rest, plan=low_memory.Plan, **options):
        seen.append(len(shapes))
        return plan(graph, shapes, *rest, **options)

    monkeypatch.setattr(low_memory, "Plan", planned)
    builder = Builder(1, 2, 2)
    for _ in range(100):
        builder.add("relu")
    check(load(write(tmp_path / "net.skinny", builder), low_memory=True), builder, 1)
    assert seen == [2] * 100


class Counted(Buffer):
    """A buffer that counts how often anyone looks at its lifetime."""

    looks = 0

    @property
    def first(self) -> int:
        Counted.looks += 1
        return self._first

    @first.setter
    def first(self, step: int) -> None:
        self._first = step


@pytest.mark.parametrize("lifetime", [1, 10 * LARGE], ids=["short", "long"])
def test_memory_planning_does_not_compare_every_value_with_every_other(lifetime):
    count = 10 * LARGE
    buffers = [Counted(compact((i % 50 + 1,)), i) for i in range(count)]
    for i, buffer in enumerate(buffers):
        buffer.last = i + lifetime
    Counted.looks = 0
    total = plan_memory(buffers)
    assert Counted.looks < 100 * count
    assert total <= 2 * 64 * (min(lifetime, count) + 1000)


def test_many_small_values_beside_a_few_large_ones_do_not_overlap():
    rng = np.random.default_rng(0)
    buffers = []
    for first in rng.integers(0, 3000, 3000).tolist():
        buffer = Buffer(compact((int(rng.integers(1, 400)),)), first)
        buffer.last = first + int(rng.integers(0, 40))
        buffers.append(buffer)
    total = plan_memory(buffers)
    begin, end = (
        np.array([b.view.offset + extra * b.view.positions for b in buffers]) for extra in (0, 1)
    )
    first, last = (np.array([getattr(b, name) for b in buffers]) for name in ("first", "last"))
    together = (first[:, None] <= last) & (first <= last[:, None])
    overlap = (begin[:, None] < end) & (begin < end[:, None])
    assert np.array_equal(np.argwhere(together & overlap)[:, 0], np.arange(len(buffers)))
    assert end.max() <= total


def test_the_tail_is_found_in_one_pass():
    class Inputs(list):
        reads = 0

        def __iter__(self):
            Inputs.reads += 1
            return super().__iter__()

    from skinny.runtime.fuse import fuse

    builder = Builder(3)
    relus_on_an_image(builder)
    layers = fuse(builder.graph())
    for layer in layers:
        layer.inputs = Inputs(layer.inputs)
    shapes = infer(builder.graph(), lambda name: builder.tensors[name].shape)
    assert split_tail(layers, builder.last, shapes) == (0, "x")
    assert Inputs.reads <= 5 * LARGE


def test_strides_larger_than_a_large_kernel_are_planned_at_once(tmp_path):
    """Space-to-depth makes one channel of every tap: 90,000 of them."""
    builder = Builder(1, 600, 700)
    builder.conv(1, 1, (300, 300), stride=(301, 400), sparsity=1.0)
    builder.tensors["t0.weight"][0, 0, [0, 7, 299], [0, 250, 299]] = [1, 2, 3]
    path = write(tmp_path / "net.skinny", builder)
    assert path.stat().st_size < 3000
    for images in (1, 9):
        check(load(path), builder, images)


@pytest.mark.parametrize("images", [1, 9])
def test_a_linear_layer_is_one_step_however_many_rows_it_has(images, tmp_path):
    builder = Builder(300, 1000, 2)
    builder.linear(2, 3)
    net = load(write(tmp_path / "net.skinny", builder), max_memory=1 << 30)
    assert [row.step.op for row in net.profile(images, repeats=1).rows] == ["linear"]
    check(net, builder, images)


def gigabytes_of_values(b: Builder) -> None:
    b.conv(1, 3, padding=(4096, 4096))
    b.add("tanh")


def gigabytes_of_rows(b: Builder) -> None:
    b.add("adaptive_avg_pool", size=[4096, 4096])
    b.add("reshape", shape=[None, 4096 * 4096, 1])
    b.linear(1, 16)


def gigabytes_of_convolution_weights(b: Builder) -> None:
    b.add("adaptive_avg_pool", size=[512, 512])
    b.tensors["t"] = np.zeros((2000, 1, 500, 500), np.float32)
    b.add("conv", weight="t", bias=None, stride=[1, 1], padding=[0, 0], dilation=[1, 1], groups=1)


def gigabytes_of_linear_weights(b: Builder) -> None:
    b.add("reshape", shape=[None, 4])
    b.tensors["t"] = np.zeros((100_000_000, 4), np.float32)
    b.add("linear", weight="t", bias=None)


GIGABYTES = [
    gigabytes_of_values,
    gigabytes_of_rows,
    gigabytes_of_convolution_weights,
    gigabytes_of_linear_weights,
]


@pytest.mark.parametrize("frugal", [False, True])
@pytest.mark.parametrize("make", GIGABYTES, ids=lambda make: make.__name__)
def test_a_network_that_needs_too_much_memory_is_refused_when_loaded(make, frugal, tmp_path):
    builder = Builder(1, 2, 2)
    make(builder)
    path = write(tmp_path / "net.skinny", builder)
    allocated = most_memory()
    with pytest.raises(
        MemoryLimitError, match=r"needs about [\d,]+ bytes, more than max_memory=200_"
    ):
        load(path, low_memory=frugal, max_memory=200_000_000)
    assert most_memory() - allocated < 300_000_000


def most_memory() -> int:
    import resource

    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def test_a_batch_that_needs_too_much_memory_is_refused_and_a_smaller_one_runs(tmp_path):
    builder = Builder(4, 64, 64)
    builder.conv(4, 8, (3, 3), padding=(1, 1))
    builder.add("tanh")
    builder.add("flatten", start=1, end=-1)
    path = write(tmp_path / "net.skinny", builder)
    for frugal in (False, True):
        net = load(path, threads=1, max_memory=4_000_000, low_memory=frugal)
        check(net, builder, 1)
        with pytest.raises(MemoryLimitError, match=r"batch of 64 images.*fewer images"):
            net(builder.batch(64))
        check(net, builder, 1)


def test_the_reference_is_limited_too(tmp_path, monkeypatch):
    from skinny import native

    builder = Builder(4, 64, 64)
    builder.conv(4, 8, (5, 5), padding=(2, 2))
    path = write(tmp_path / "net.skinny", builder)
    monkeypatch.setenv("SKINNY_NATIVE", "0")
    native.extension.cache_clear()
    try:
        net = load(path, max_memory=6_000_000)
        check(net, builder, 1)
        with pytest.raises(MemoryLimitError, match="batch of 9 on the NumPy reference"):
            net(builder.batch(9))
        with pytest.raises(MemoryLimitError, match="batch of 1 on the NumPy reference"):
            load(path, max_memory=1_000_000)
    finally:
        monkeypatch.undo()
        native.extension.cache_clear()


@pytest.mark.parametrize("wish", [0, -1, 1.5, True, "1G"])
def test_an_impossible_limit_is_refused(wish):
    with pytest.raises(SkinnyError, match="max_memory="):
        memory_limit(wish)


def test_by_default_a_network_may_take_an_eighth_of_the_machine_or_a_gibibyte():
    assert memory_limit(None).max_memory >= 1 << 30
    assert math.log10(memory_limit(None).max_memory) < 15
