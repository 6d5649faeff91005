import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from skinny.packing import codebook

numbers = arrays(np.float64, st.integers(1, 60), elements=st.floats(-1e3, 1e3, width=32))


def distance(values, book):
    return np.abs(values[:, None] - book.astype(np.float64)).min(axis=1)


@given(numbers, st.integers(2, 16))
def test_every_value_gets_its_nearest_number(values, size):
    book = codebook.make(values, size)
    assert 1 <= book.size <= size
    assert np.all(np.diff(book) > 0)
    chosen = np.abs(values - book[codebook.nearest(values, book)].astype(np.float64))
    np.testing.assert_allclose(chosen, distance(values, book), rtol=1e-12, atol=1e-12)


@given(numbers, st.integers(2, 16))
def test_a_codebook_is_no_worse_than_even_steps(values, size):
    even = np.linspace(values.min(), values.max(), size).astype(np.float32)
    made = codebook.make(values, size)
    lost = np.square(distance(values, made)).sum()
    assert lost <= np.square(distance(values, even)).sum() * 1.001 + 1e-3


def test_few_different_values_come_back_exactly():
    values = np.repeat([-3.0, 0.5, 8.0], [5, 1, 9])
    assert codebook.make(values, 8).tolist() == [-3.0, 0.5, 8.0]


def test_no_values_and_equal_values_have_a_codebook():
    assert codebook.make(np.zeros(0), 16).size == 1
    assert codebook.make(np.full(7, 2.5), 16).tolist() == [2.5]
    assert codebook.nearest(np.full(7, 2.5), np.array([2.5], np.float32)).tolist() == [0] * 7
