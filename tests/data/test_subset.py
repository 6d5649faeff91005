import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from skinny.data.errors import DataError
from skinny.data.subset import balanced_subset, stratified_split


def labels_of(counts):
    labels = torch.arange(len(counts)).repeat_interleave(torch.tensor(counts))
    return labels[torch.randperm(len(labels), generator=torch.Generator().manual_seed(5))]


@pytest.mark.parametrize(
    ("available", "size", "taken"),
    [
        ([10, 10, 10], 6, [2, 2, 2]),
        ([10, 10, 10], 7, [3, 2, 2]),  # a remainder goes to the classes of lowest number
        ([10, 10, 10], 8, [3, 3, 2]),
        ([1, 10, 10], 11, [1, 5, 5]),  # a small class gives all, the others share the rest
        ([1, 10, 10], 12, [1, 6, 5]),
        ([10, 2, 3], 15, [10, 2, 3]),
        ([10, 10, 10], 3, [1, 1, 1]),
    ],
)
def test_classes_are_as_equal_as_the_data_allows(available, size, taken):
    labels = labels_of(available)
    chosen = balanced_subset(labels, size, len(available), seed=0)
    assert labels[chosen].bincount(minlength=len(available)).tolist() == taken


@settings(deadline=None)
@given(
    counts=st.lists(st.integers(1, 30), min_size=1, max_size=8),
    seed=st.integers(0, 2**32),
    data=st.data(),
)
def test_a_subset_is_ascending_exact_and_part_of_every_larger_one(counts, seed, data):
    labels = labels_of(counts)
    sizes = st.integers(len(counts), len(labels))
    small, large = sorted([data.draw(sizes), data.draw(sizes)])
    chosen = balanced_subset(labels, small, len(counts), seed)
    assert len(chosen) == small
    assert (chosen.diff() > 0).all()
    assert set(chosen.tolist()) <= set(balanced_subset(labels, large, len(counts), seed).tolist())
    taken = labels[chosen].bincount(minlength=len(counts))
    unexhausted = taken[taken < torch.tensor(counts)]
    if len(unexhausted):
        assert taken.max() - unexhausted.min() <= 1


def test_the_seed_decides_and_repeats():
    labels = labels_of([50, 50])
    chosen = [balanced_subset(labels, 20, 2, seed).tolist() for seed in (0, 0, 1)]
    assert chosen[0] == chosen[1] != chosen[2]


@pytest.mark.parametrize("size", [-1, 0, 2, 31])
def test_a_size_that_cannot_be_is_an_error(size):
    with pytest.raises(DataError, match=f"subset of {size} images.* 3 classes.* most the 30"):
        balanced_subset(labels_of([10, 10, 10]), size, 3, seed=0)


@settings(deadline=None)
@given(counts=st.lists(st.integers(1, 40), min_size=1, max_size=8), data=st.data())
def test_a_split_is_a_partition_in_proportion(counts, data):
    labels = labels_of(counts)
    test_size = data.draw(st.integers(0, len(labels)))
    train, test = stratified_split(labels, test_size, len(counts), seed=0)
    assert len(test) == test_size
    assert sorted(train.tolist() + test.tolist()) == list(range(len(labels)))
    shares = torch.tensor(counts) * test_size / len(labels)
    taken = labels[test].bincount(minlength=len(counts))
    assert ((taken - shares).abs() < 1).all()
