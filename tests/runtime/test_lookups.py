"""Lookups by integers run natively: views of indices, bags of one size, indices known ahead."""

import numpy as np
import pytest
from tests.graph import running
from tests.runtime.native_graphs import mixed, nodes

from skinny.graph import Node
from skinny.graph.graph import Graph, Input
from skinny.runtime.images import InputError

RNG = np.random.default_rng(0)
TABLE = RNG.standard_normal((9, 4)).astype(np.float32)
ITEMS = RNG.integers(0, 9, (3, 2, 5))


def run(given, outputs, *records, tensors=None):
    declared = tuple(Input(name, str(x.dtype), x.shape) for name, x in given.items())
    graph = Graph(declared, nodes(*records), outputs)
    tensors = {"table": TABLE, **(tensors or {})}
    want = running.run(graph, given, tensors)
    made = mixed(graph, given, tensors)
    for got, expected in zip(made.run(given), want, strict=True):
        running.same(got, expected, 1e-5)
    return [item.op for item in made.items if isinstance(item, Node)]


def test_views_of_indices_are_no_calls_of_numpy():
    left = run(
        {"i": ITEMS},
        ("y",),
        ("select", ("i",), ("a",), {"axis": 1, "index": -1}),
        ("slice", ("a",), ("b",), {"axis": 1, "start": 1, "end": 5, "step": 2}),
        ("permute", ("b",), ("c",), {"axes": (1, 0)}),
        ("reshape", ("c",), ("d",), {"shape": (6,)}),
        ("embedding", ("d",), ("y",), {"weight": "table"}),
    )
    assert left == []


@pytest.mark.parametrize("shape", [(), (3,), (2, 40)])  # many rows are written feature by feature
def test_a_table_in_int8_gives_the_bits_of_the_reference(shape):
    given = {"i": RNG.integers(0, 9, shape)}
    tensors = {"table": TABLE, "scale": (0.01 + RNG.random(9)).astype(np.float32)}
    graph = Graph(
        (Input("i", "int64", shape),),
        nodes(("embedding_int8", ("i",), ("y",), {"weight": "table", "weight_scale": "scale"})),
        ("y",),
    )
    made = mixed(graph, given, tensors)
    assert not made.interpreted
    (want,) = running.run(graph, given, tensors)
    np.testing.assert_array_equal(made.run(given)[0], want)
    with pytest.raises(InputError, match="9"):
        made.run({"i": np.full(shape, 9)})


def test_a_view_of_indices_that_somebody_else_reads_stays_what_it_is():
    first = ("select", ("i",), ("a",), {"axis": 1, "index": 0})
    lookup = ("embedding", ("a",), ("y",), {"weight": "table"})
    assert run({"i": ITEMS}, ("y", "a"), first, lookup) == ["select"]
    double = ("mul", ("a", 2), ("z",), {})
    assert run({"i": ITEMS}, ("y", "z"), first, lookup, double) == ["select", "mul"]


def test_an_index_out_of_range_is_refused_only_where_it_is_used():
    graph = Graph(
        (Input("i", "int64", (3, 2)),),
        nodes(
            ("select", ("i",), ("a",), {"axis": 1, "index": 0}),
            ("embedding", ("a",), ("y",), {"weight": "table"}),
        ),
        ("y",),
    )
    indices = np.array([[1, 2**40], [0, -(2**40)], [8, 9]])
    made = mixed(graph, {"i": indices}, {"table": TABLE})
    np.testing.assert_array_equal(made.run({"i": indices})[0], TABLE[indices[:, 0]])
    for bad in (9, -1, 2**40):
        with pytest.raises(InputError, match="out of range for 9 rows"):
            made.run({"i": np.array([[bad, 0]] * 3)})


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
@pytest.mark.parametrize("last", [False, True])
def test_bags_of_one_size_run_natively_and_others_by_the_reference(mode, last):
    def left(offsets, padding=None):
        attributes = {"weight": "table", "mode": mode, "include_last_offset": last,
                      "padding_index": padding}  # fmt: skip
        return run(
            {"i": ITEMS[:, 0]},
            ("y",),
            ("reshape", ("i",), ("flat",), {"shape": (15,)}),
            ("constant", (), ("o",), {"tensor": "offsets"}),
            ("embedding_bag", ("flat", "o"), ("y",), attributes),
            tensors={"offsets": np.array(offsets)},
        )

    end = [15] if last else []
    assert left([0, 5, 10, *end]) == []
    assert left([0, *end]) == []
    assert "embedding_bag" in left([0, 4, 10, *end])
    assert "embedding_bag" in left([0, 5, 5, 10, *end])
    assert "embedding_bag" in left([0, 5, 10, *end], padding=3)


@pytest.mark.parametrize(
    ("axes", "index", "native"),
    [
        ((1, 2), ([0, 2, -1], [3, 0, 1]), True),
        ((1, 2), ([[0], [2]], [3, 0, 1]), True),
        ((0,), ([1, 1, 0, -2],), True),
        ((2, 3), ([[0, 1], [2, 3]], 4), True),
        ((0, 2), ([0, 1], [1, 0]), False),
    ],
)
def test_indices_known_ahead(axes, index, native):
    x = RNG.standard_normal((2, 3, 4, 5)).astype(np.float32)
    tensors = {f"i{at}": np.array(i) for at, i in enumerate(index)}
    constants = [("constant", (), (f"v{at}",), {"tensor": name}) for at, name in enumerate(tensors)]
    values = tuple(f"v{at}" for at in range(len(index)))
    end = ("relu", ("y",), ("z",), {})
    found = run({"x": x}, ("z",), *constants, ("index", ("x", *values), ("y",), {"axes": axes}),
                end, tensors=tensors)  # fmt: skip
    assert found == ([] if native else ["index"])
    if len(axes) == 1:
        rows = ("gather_rows", ("x", "v0"), ("y",), {"axis": axes[0]})
        assert run({"x": x}, ("z",), *constants, rows, end, tensors=tensors) == []
