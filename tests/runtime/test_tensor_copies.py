"""Inputs, outputs, copies and fills of a tensor program, for tensors of any strides. No torch here:
`make sanitize` runs this file too, and test_isa.py with every instruction set."""

import threading

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from runtime_tensors import Workbench, broadcast, layouts

from skinny import _native

SIDES = st.sampled_from([1, 1, 2, 3, 4, 5, 7, 8, 9, 16, 17, 33])


@st.composite
def shapes(draw, most: int = 8) -> tuple[int, ...]:
    shape: list[int] = []
    for _ in range(draw(st.integers(0, most))):
        side = draw(SIDES)
        shape.append(side if np.prod(shape, dtype=int) * side <= 4000 else 1)
    return tuple(shape)


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_a_copy_between_any_strides_keeps_every_element(data):
    shape = data.draw(shapes())
    values = np.arange(np.prod(shape, dtype=int), dtype=np.float32).reshape(shape)
    bench = Workbench()
    source = bench.input(values, data.draw(layouts(len(shape))))
    target = bench.place(shape, data.draw(layouts(len(shape))))
    bench.program.add_copy(source=source, target=target)
    bench.output(target)
    bench.output(source)
    for result in bench.run(data.draw(st.integers(1, 3))):
        np.testing.assert_array_equal(result, values)


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_entries_of_every_axis_in_any_order_are_numpys(data):
    shape = data.draw(shapes(5))
    values = np.arange(np.prod(shape, dtype=int), dtype=np.float32).reshape(shape)
    index = [np.array(data.draw(_entries(side)), np.int32) for side in shape]
    bench = Workbench(1 << 22)
    source = bench.input(values, data.draw(layouts(len(shape))))
    sides = tuple(len(own) for own in index)
    target = bench.place(sides, data.draw(layouts(len(shape))))
    bench.program.add_reindex(source=source, target=target, index=index)
    bench.output(target)
    (result,) = bench.run(data.draw(st.integers(1, 3)))
    np.testing.assert_array_equal(result, values[np.ix_(*index)] if shape else values)


def _entries(side: int) -> st.SearchStrategy[list[int]]:
    """As they lie, reversed, or any; some twice."""
    every = list(range(side))
    whole = st.sampled_from([every, every[::-1], [0, *every, side - 1]])
    return whole | st.lists(st.integers(0, side - 1), min_size=1, max_size=4)


@settings(max_examples=50, deadline=None)
@given(data=st.data())
def test_a_copy_writes_its_target_alone(data):
    """What lies between the elements of the target stays as it was."""
    shape = data.draw(shapes(4))
    bench = Workbench()
    whole = bench.place((8192,))
    bench.program.add_fill(target=whole, value=7)
    bench.used = 0
    target = bench.place(shape, data.draw(layouts(len(shape))))
    extent = bench.used
    assume(extent <= 8192)
    bench.used = 8192
    source = bench.input(np.full(shape, -1, np.float32))
    bench.program.add_copy(source=source, target=target)
    bench.output(whole)
    (result,) = bench.run()
    assert (result == -1).sum() == np.prod(shape, dtype=int)
    assert (result[extent:] == 7).all()


@pytest.mark.parametrize("side", [(64, 100), (257, 31), (16, 16), (1000, 3), (5, 5)])
@pytest.mark.parametrize("threads", [1, 2, 3])
def test_matrices_are_transposed(side, threads):
    values = np.random.default_rng(0).random((2, *side), dtype=np.float32)
    bench = Workbench(1 << 18)
    source = bench.input(values)
    target = bench.place((2, *side[::-1]))
    view = source._replace(
        shape=(2, *side[::-1]), strides=(source.strides[0], source.strides[2], source.strides[1])
    )
    bench.program.add_copy(source=view, target=target)
    bench.output(target)
    np.testing.assert_array_equal(bench.run(threads)[0], values.transpose(0, 2, 1))


def test_a_broadcast_source_and_a_constant_are_copied():
    row = np.arange(5, dtype=np.float32)
    bench = Workbench()
    for source in (bench.input(row), bench.constant(row)):
        target = bench.place((3, 4, 5))
        bench.program.add_copy(source=broadcast(source, (3, 4, 5)), target=target)
        bench.output(target)
    for result in bench.run():
        np.testing.assert_array_equal(result, np.broadcast_to(row, (3, 4, 5)))


def test_a_constant_lives_as_long_as_the_program():
    bench = Workbench()
    constant = bench.constant(np.full(1000, 3, np.float32))
    bench.output(constant)
    np.full(1000, 4, np.float32)
    assert (bench.run()[0] == 3).all()


@settings(max_examples=30, deadline=None)
@given(data=st.data())
def test_a_fill_reaches_every_element(data):
    shape = data.draw(shapes())
    bench = Workbench()
    target = bench.place(shape, data.draw(layouts(len(shape))))
    bench.program.add_fill(target=target, value=-2.5)
    bench.output(target)
    assert (bench.run()[0] == -2.5).all()


@pytest.mark.parametrize("dtype", ["int64", "int32", "uint8", "bool"])
def test_integers_are_stored_in_32_bits(dtype):
    values = np.array([[0, 1, 200], [1, 0, 3]]).astype(dtype)
    bench = Workbench()
    bench.output(bench.input(values))
    np.testing.assert_array_equal(bench.run()[0].view(np.int32), values.astype(np.int32))


@pytest.mark.parametrize(
    ("value", "stored"),
    [(2**31, 2**31 - 1), (-(2**31) - 1, -(2**31)), (2**40, 2**31 - 1), (-5, -5)],
)
def test_integers_beyond_32_bits_become_the_largest(value, stored):
    bench = Workbench()
    bench.output(bench.input(np.array([0, value])))
    assert bench.run()[0].view(np.int32).tolist() == [0, stored]


@pytest.mark.parametrize(
    ("value", "said"), [(2**40, "2147483647 or more"), (-(2**40), "-2147483648 or less"), (3, "3")]
)
def test_no_such_integer_is_the_index_of_a_row(value, said):
    bench = Workbench()
    table, index = bench.input(np.zeros((3, 4), np.float32)), bench.input(np.array([0, value]))
    bench.program.add_gather(table=table, index=index, target=bench.place((2, 4)))
    with pytest.raises(IndexError, match=f"index {said} is out of range for 3 rows"):
        bench.run()


def test_calls_at_the_same_time_do_not_disturb_each_other():
    bench = Workbench()
    source = bench.input(np.zeros((50, 40), np.float32))
    target = bench.place((50, 40))
    for _ in range(20):
        bench.program.add_copy(source=source, target=target)
    bench.output(target)
    wrong = []

    def call(value: int) -> None:
        x, y = np.full((50, 40), value, np.float32), np.empty((50, 40), np.float32)
        for _ in range(50):
            bench.program.run(inputs=[x], outputs=[y], threads=2, timed=False)
            if not (y == value).all():
                wrong.append(value)

    threads = [threading.Thread(target=call, args=(value,)) for value in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


@pytest.mark.parametrize("grain", [0.0, 5000.0])
def test_every_step_is_timed(grain):
    bench = Workbench(grain=grain)
    tensor = bench.place((100, 100))
    for _ in range(3):
        bench.program.add_fill(target=tensor, value=1)
    run = bench.program.run
    assert run(inputs=[], outputs=[], threads=2, timed=False) == []
    seconds = run(inputs=[], outputs=[], threads=2, timed=True)
    assert len(seconds) == 3
    assert all(0 < each < 1 for each in seconds)


def test_the_workspace_is_the_arena_and_what_threads_need():
    program = _native.TensorProgram(cells=10_000)
    one, two = (program.workspace_bytes(threads=threads) for threads in (1, 2))
    assert 40_000 <= one < two < 45_000
