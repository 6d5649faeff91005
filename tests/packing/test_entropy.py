import contextlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skinny import native
from skinny.packing import StreamError, bitmask, entropy
from skinny.packing.sizes import mask_bound


def random_mask(rng, count, density):
    bits = rng.random(count) < density
    return np.packbits(bits, bitorder="little"), int(bits.sum())


def clustered_mask(rng, rows, columns, density):
    """Rows whose densities differ a lot, as the filters of a trained layer do."""
    scale = np.exp(rng.standard_normal((rows, 1)))
    weight = np.abs(rng.standard_normal((rows, columns)) * scale)
    bits = weight >= np.quantile(weight, 1 - density)
    return np.packbits(bits, bitorder="little"), int(bits.sum())


def with_count(count, mask):
    return mask[0], count, mask[1]


COUNTS = [0, 1, 8, 9, 1000, entropy.BLOCK * 8, entropy.BLOCK * 8 + 1, entropy.BLOCK * 40]


@pytest.mark.parametrize("density", [0.0, 0.001, 0.1, 0.5, 1.0])
@pytest.mark.parametrize("count", COUNTS)
def test_a_mask_comes_back(rng, count, density):
    mask, ones = random_mask(rng, count, density)
    stream = entropy.encode(mask, count, ones)
    np.testing.assert_array_equal(entropy.decode(stream, count, ones), mask)


def compare_with_reference(monkeypatch, mask, count, ones):
    stream, table = entropy.encode(mask, count, ones), entropy.histogram(mask)
    with monkeypatch.context() as patch:
        patch.setattr(entropy, "extension", lambda: None)
        np.testing.assert_array_equal(entropy.encode(mask, count, ones), stream)
        np.testing.assert_array_equal(entropy.decode(stream, count, ones), mask)
        np.testing.assert_array_equal(entropy.histogram(mask), table)


@pytest.mark.parametrize("density", [0.0, 0.02, 0.3, 1.0])
@pytest.mark.parametrize("count", [0, 5, 4000])
def test_native_code_and_reference_agree_byte_for_byte(rng, monkeypatch, count, density):
    compare_with_reference(monkeypatch, *with_count(count, random_mask(rng, count, density)))


def test_native_code_and_reference_agree_over_several_blocks(rng, monkeypatch):
    count = entropy.BLOCK * 8 * 2 + 77
    compare_with_reference(monkeypatch, *with_count(count, random_mask(rng, count, 0.1)))


def test_native_code_and_reference_agree_on_clustered_masks(rng, monkeypatch):
    mask = clustered_mask(rng, 64, 400, 0.1)
    assert entropy.encode(mask[0], 25_600, mask[1])[0] == entropy.CLASSES
    compare_with_reference(monkeypatch, *with_count(25_600, mask))


@pytest.mark.parametrize("sparsity", [0.9, 0.95, 0.98])
@pytest.mark.parametrize("count", [30_720, 460_800, 4_000_000])
def test_random_masks_cost_within_three_percent_of_the_entropy_bound(rng, count, sparsity):
    mask, ones = random_mask(rng, count, 1 - sparsity)
    stream = entropy.encode(mask, count, ones)
    assert stream.size * 8 < 1.03 * mask_bound(count, ones)


@pytest.mark.parametrize("sparsity", [0.9, 0.95, 0.98])
def test_clustered_masks_cost_well_less_than_the_bound(rng, sparsity):
    mask, ones = clustered_mask(rng, 512, 1024, 1 - sparsity)
    stream = entropy.encode(mask, 512 * 1024, ones)
    assert stream[0] == entropy.CLASSES
    assert stream.size * 8 < 0.8 * mask_bound(512 * 1024, ones)
    np.testing.assert_array_equal(entropy.decode(stream, 512 * 1024, ones), mask)


@given(
    runs=st.lists(st.tuples(st.integers(0, 255), st.integers(1, 40)), max_size=30),
    keep=st.integers(1, 8),
)
@settings(max_examples=100, deadline=None)
def test_any_mask_round_trips(runs, keep):
    mask = np.array([byte for byte, length in runs for _ in range(length)], np.uint8)
    count = mask.size * 8
    if mask.size:
        count -= 8 - keep
        mask[-1] &= (1 << keep) - 1
    ones = bitmask.count_ones(mask, count)
    stream = entropy.encode(mask, count, ones)
    np.testing.assert_array_equal(entropy.decode(stream, count, ones), mask)


def test_a_byte_of_code_stands_for_at_most_256_entries():
    count = 10_000_000
    stream = entropy.encode(np.zeros(count // 8, np.uint8), count, 0)
    assert stream.size == entropy.shortest(count) == -(-count // 256)
    assert not entropy.decode(stream, count, 0).any()


@pytest.mark.parametrize("count", [1, 7, 1000, 10**12])
def test_expected_frequencies_are_exact_integers_that_sum_to_the_slots(count):
    for ones in {0, 1, count // 3, count}:
        frequencies = entropy.expected_frequencies(count, ones)
        assert frequencies.sum() == entropy.SLOTS
        assert frequencies.min() >= 1


def test_expected_frequencies_are_those_of_the_specification():
    # 16384 C(8, k) 0.1^k 0.9^(8 - k), rounded down, at least 1; the missing 1 goes to k = 0
    assert entropy.expected_frequencies(1000, 100).tolist() == [
        *(7052 + 1, 6269, 2437, 541, 75, 6, 1, 1, 1),
    ]


@pytest.fixture
def coded(engine, rng, monkeypatch):
    """A mask of two blocks as a stream, its length and its ones. The reference goes through a block
    byte by byte, so that its blocks are short here."""
    count = 140_000
    if engine == "reference":
        monkeypatch.setattr(entropy, "BLOCK", 1024)
        count = 8750
    mask, ones = random_mask(rng, count, 0.1)
    code = entropy.encode(mask, count, ones)
    np.testing.assert_array_equal(entropy.decode(code, count, ones), mask)
    return code, count, ones


def test_a_stream_that_ends_early_is_refused(coded):
    code, count, ones = coded
    for length in (0, 1, 5, 30, code.size // 2, code.size - 1, code.size - 4):
        with pytest.raises(StreamError):
            entropy.decode(code[:length], count, ones)


def test_words_of_one_block_do_not_serve_another(rng):
    """Blocks are decoded side by side."""
    count = 8 * 6 * entropy.BLOCK + 5
    mask, ones = random_mask(rng, count, 0.25)
    stream = entropy.encode(mask, count, ones)
    np.testing.assert_array_equal(entropy.decode(stream, count, ones), mask)
    assert stream[0] == 0  # no tables: the counts of words come next
    for giver, taker in ((1, 2), (3, 0), (2, 4)):
        moved = stream.copy()
        counts = moved[1 : 1 + 2 * 7].view("<u2")
        counts[giver] -= 1
        counts[taker] += 1
        with pytest.raises(StreamError, match="does not end where"):
            entropy.decode(moved, count, ones)


def test_a_stream_that_goes_on_is_refused(coded):
    code, count, ones = coded
    for more in ([0], [0] * 4, [1, 2, 3, 4]):
        with pytest.raises(StreamError):
            entropy.decode(np.append(code, np.array(more, np.uint8)), count, ones)


def test_a_changed_stream_is_refused_or_gives_some_mask(coded, rng):
    code, count, ones = coded
    for at in rng.integers(0, code.size, 5):
        changed = code.copy()
        changed[at] ^= 1 << int(rng.integers(8))
        with contextlib.suppress(StreamError):
            assert entropy.decode(changed, count, ones).size == -(-count // 8)


@pytest.mark.parametrize("classes", [2, 8, 10, 255])
def test_an_impossible_number_of_classes_is_refused(coded, classes):
    code, count, ones = coded
    changed = code.copy()
    changed[0] = classes
    with pytest.raises(StreamError, match=f"{classes} classes"):
        entropy.decode(changed, count, ones)


def test_frequencies_that_do_not_sum_to_the_slots_are_refused(engine, rng):
    mask, ones = clustered_mask(rng, 64, 400, 0.1)
    code = entropy.encode(mask, 25_600, ones).copy()
    assert code[0] == entropy.CLASSES
    code[1] ^= 1
    with pytest.raises(StreamError, match="sum to 16384"):
        entropy.decode(code, 25_600, ones)


def test_a_state_out_of_range_is_refused(coded):
    code, count, ones = coded
    changed = code.copy()
    changed[5:13] = 0
    with pytest.raises(StreamError, match="out of range"):
        entropy.decode(changed, count, ones)


def test_native_code_refuses_tables_and_states_that_do_not_fit():
    extension = native.extension()
    if extension is None:
        pytest.skip("the native extension was not built (no C++ compiler)")
    mask = np.zeros(10, np.uint8)
    good = entropy.expected_frequencies(80, 8)[None]
    one, none = np.ones(1, np.uint16), np.zeros(0, np.uint32)
    low = np.array([entropy.LOW], np.uint64)
    for arguments in (
        (none, low, one, good),  # a word is claimed, none is there
        (none, low * 0, one * 0, good),  # state out of range
        (none, low, one * 0, good + 1),  # frequencies sum to too much
        (none, low[:0], one[:0], good),  # a block without a state
    ):
        with pytest.raises(ValueError, match=r"must|out of range|per block"):
            extension.entropy_decode(*arguments, mask, 1)
