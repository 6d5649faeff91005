"""Views of strided tensors are what NumPy makes of them."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.lib.stride_tricks import as_strided

from skinny.runtime import strided
from skinny.runtime.strided import Tensor

SHAPES = st.lists(st.integers(1, 4), max_size=5).map(tuple)


@st.composite
def tensors(draw, *, broadcast=False):
    """A tensor without gaps, its axes in any order, then sliced; perhaps with repeated axes."""
    shape = draw(SHAPES)
    order = draw(st.permutations(range(len(shape))))
    tensor = Tensor(0, draw(st.integers(0, 3)), shape, strided.ordered(shape, order))
    for axis, side in enumerate(shape):
        start = draw(st.integers(0, side - 1))
        step = draw(st.integers(1, 2))
        count = draw(st.integers(1, len(range(start, side, step))))
        if draw(st.booleans()):
            tensor = strided.take(tensor, axis, start, count, step)
        if broadcast and tensor.shape[axis] == 1 and draw(st.booleans()):
            wider = (*tensor.shape[:axis], 3, *tensor.shape[axis + 1 :])
            tensor = strided.expand(tensor, wider)
    return tensor


def array_of(tensor):
    storage = np.arange(tensor.offset + tensor.extent, dtype=np.int64)
    strides = [8 * stride for stride in tensor.strides]
    return as_strided(storage[tensor.offset :], tensor.shape, strides, writeable=False)


def factors(draw, total, most):
    sides = []
    while total > 1 and len(sides) < most:
        side = draw(st.sampled_from([n for n in range(1, total + 1) if total % n == 0]))
        sides.append(side)
        total //= side
    return (*sides, total) if total > 1 or draw(st.booleans()) else tuple(sides)


@given(tensors(broadcast=True), st.data())
def test_permuting_is_numpys(tensor, data):
    axes = data.draw(st.permutations(range(len(tensor.shape))))
    found = array_of(strided.permute(tensor, axes))
    np.testing.assert_array_equal(found, array_of(tensor).transpose(axes))


@given(tensors(), st.data())
def test_selecting_is_numpys(tensor, data):
    if not tensor.shape:
        return
    axis = data.draw(st.integers(0, len(tensor.shape) - 1))
    index = data.draw(st.integers(0, tensor.shape[axis] - 1))
    found = array_of(strided.select(tensor, axis, index))
    np.testing.assert_array_equal(found, np.take(array_of(tensor), index, axis))


@given(tensors(), st.data())
def test_expanding_is_numpys(tensor, data):
    shape = (*data.draw(SHAPES), *(3 if side == 1 else side for side in tensor.shape))
    found = array_of(strided.expand(tensor, shape))
    np.testing.assert_array_equal(found, np.broadcast_to(array_of(tensor), shape))


@given(tensors(broadcast=True), st.data())
def test_reshaping_is_a_view_exactly_where_numpy_makes_none_either(tensor, data):
    shape = factors(data.draw, tensor.size, 5)
    found, source = strided.reshape(tensor, shape), array_of(tensor)
    try:
        expected = source.view()
        expected.shape = shape
    except AttributeError:
        assert found is None
        copied = tensor._replace(offset=0, strides=strided.reshaped_copy(tensor, shape))
        assert strided.is_dense(copied)
        assert strided.reshape(copied, shape) is not None
    else:
        assert found is not None
        np.testing.assert_array_equal(array_of(found), source.reshape(shape))


@given(tensors())
def test_a_layout_like_another_keeps_the_order_of_the_axes_in_memory(tensor):
    like = tensor._replace(offset=0, strides=strided.like(tensor.shape, tensor, 1))
    assert strided.is_dense(like)
    assert like.extent == like.size
    flat = np.argsort(array_of(tensor), axis=None)
    np.testing.assert_array_equal(np.argsort(array_of(like), axis=None), flat)


@given(tensors(broadcast=True), st.data())
def test_joined_axes_are_the_same_elements_around_an_axis(tensor, data):
    if not tensor.shape:
        return
    axes = sorted(data.draw(st.sets(st.integers(0, len(tensor.shape) - 1), min_size=1)))
    made = strided.around([tensor], axes)
    if strided.is_dense(tensor) and len(axes) == 1:
        assert made is not None
    if made is None:
        return
    (found,) = made
    sums = np.sort(array_of(found).sum(1), axis=None)
    np.testing.assert_array_equal(sums, np.sort(array_of(tensor).sum(tuple(axes)), axis=None))


@given(tensors(), st.data())
def test_entries_of_a_joined_axis_keep_their_order(tensor, data):
    if not tensor.shape:
        return
    first = data.draw(st.integers(0, len(tensor.shape) - 1))
    axes = range(first, len(tensor.shape))
    made = strided.around([tensor], axes, keep_order=True)
    if made is None:
        return
    source = array_of(tensor).reshape(-1, math.prod(tensor.shape[first:]))
    found = array_of(made[0]).swapaxes(1, 2).reshape(source.shape)
    assert {tuple(row) for row in found} == {tuple(row) for row in source}


@pytest.mark.parametrize(
    ("shape", "strides", "wanted", "copy"),
    [
        # heads split off feature-major tokens [2, 5, 12], and joined again
        ((2, 5, 12), (60, 1, 5), (2, 5, 3, 4), None),
        ((2, 5, 3, 4), (60, 1, 20, 5), (2, 5, 12), None),
        # tokens first, and the batch joined with the heads: a part of three is copied, tokens last
        ((5, 2, 12), (1, 180, 5), (5, 6, 4), (1, 60, 5)),
    ],
)
def test_tokens_stay_feature_major(shape, strides, wanted, copy):
    tensor = Tensor(0, 0, shape, strides)
    if copy is None:
        assert strided.reshape(tensor, wanted) is not None
    else:
        assert strided.reshape(tensor, wanted) is None
        assert strided.reshaped_copy(tensor, wanted) == copy


def test_long_rows_begin_at_whole_vectors_where_those_of_the_model_do():
    tokens = Tensor(0, 0, (2, 197, 12), strided.ordered((2, 197, 12), (0, 2, 1), 1, 8))
    assert tokens.strides == (2400, 1, 200)
    assert strided.like((2, 198, 12), tokens, 8) == (2400, 1, 200)
    assert strided.like((2, 201, 12), tokens, 8) == (208 * 12, 1, 208)
    dense = tokens._replace(strides=strided.ordered(tokens.shape, (0, 2, 1)))
    assert strided.like(tokens.shape, dense, 8) == dense.strides
    assert strided.ordered((3, 9), (0, 1), 1, 8) == (9, 1)  # rows too short to be worth it
    # rows that would evict each other from the cache
    assert strided.ordered((12, 128), (0, 1), 1, 8) == (144, 1)
    assert strided.ordered((12, 1024), (0, 1), 1, 8) == (1040, 1)
