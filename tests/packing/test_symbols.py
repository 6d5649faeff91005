import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skinny.packing import StreamError, entropy, symbols

TYPES = ["i1", "f2", "u2", "f4", "f8"]


def values(rng, count, dtype):
    drawn = rng.standard_normal(count) * 30
    return (np.abs(drawn) if np.dtype(dtype).kind == "u" else drawn).astype(dtype)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("count", [0, 1, 3, 1000, 70_001])
def test_values_come_back_bit_for_bit(rng, dtype, count):
    array = values(rng, count, dtype)
    own, rest = symbols.split(array)
    assert rest.size == count * (array.itemsize - 1)
    back = np.empty_like(array)
    symbols.join(symbols.decode(symbols.encode(own), count), rest, back)
    assert back.tobytes() == array.tobytes()


@pytest.mark.parametrize(
    ("dtype", "count"), [*((dtype, 1003) for dtype in TYPES), ("f4", entropy.BLOCK + 3003)]
)
def test_native_code_and_reference_agree_byte_for_byte(rng, monkeypatch, dtype, count):
    array = values(rng, count, dtype)
    own, rest = symbols.split(array)
    stream = symbols.encode(own)
    with monkeypatch.context() as patch:
        patch.setattr(symbols, "extension", lambda: None)
        for mine, reference in zip((own, rest), symbols.split(array), strict=True):
            np.testing.assert_array_equal(mine, reference)
        np.testing.assert_array_equal(symbols.encode(own), stream)
        np.testing.assert_array_equal(symbols.decode(stream, own.size), own)
        back = np.empty_like(array)
        symbols.join(own, rest, back)
        assert back.tobytes() == array.tobytes()


def test_the_symbol_of_a_float32_is_its_exponent():
    own, rest = symbols.split(np.array([1.0, -1.0, 0.5, np.inf, -0.0], np.float32))
    assert own.tolist() == [127, 127, 126, 255, 0]
    assert rest.reshape(-1, 3)[:, 0].tolist() == [0, 1, 0, 0, 1]  # the sign


@given(data=st.binary(max_size=2000))
@settings(max_examples=100, deadline=None)
def test_any_bytes_round_trip(data):
    own = np.frombuffer(data, np.uint8)
    np.testing.assert_array_equal(symbols.decode(symbols.encode(own), own.size), own)


def test_the_code_is_about_as_long_as_the_entropy(rng):
    own = rng.binomial(20, 0.3, 200_000).astype(np.uint8)
    share = np.bincount(own) / own.size
    bound = -own.size * (share[share > 0] * np.log2(share[share > 0])).sum() / 8
    assert bound < symbols.encode(own).size < 1.005 * bound


def test_a_byte_of_code_stands_for_at_most_256_values():
    stream = symbols.encode(np.full(10_000_000, 7, np.uint8))
    assert stream.size == entropy.shortest(10_000_000)
    assert (symbols.decode(stream, 10_000_000) == 7).all()


@pytest.fixture
def coded(engine, rng, monkeypatch):
    """A stream of two blocks, and how many values it has. The reference goes through a block value
    by value, so that its blocks are short here."""
    count = 20_000
    if engine == "reference":
        monkeypatch.setattr(symbols, "BLOCK", 1024)
        count = 1250
    return symbols.encode(rng.binomial(20, 0.3, count).astype(np.uint8)), count


def change(stream, at, value):
    changed = stream.copy()
    changed[at] = value
    return changed


def test_a_stream_of_two_blocks_comes_back(coded, rng):
    stream, count = coded
    own = rng.binomial(20, 0.3, count).astype(np.uint8)
    np.testing.assert_array_equal(symbols.decode(symbols.encode(own), count), own)
    assert symbols.decode(stream, count).size == count


@pytest.mark.parametrize("length", [0, 1, 2, 40, 100, -200, -4, -1])
def test_a_stream_that_ends_early_is_refused(coded, length):
    stream, count = coded
    with pytest.raises(StreamError):
        symbols.decode(stream[:length], count)


@pytest.mark.parametrize("more", [[0], [0] * 4, [1, 2, 3, 4]])
def test_a_stream_that_goes_on_is_refused(coded, more):
    stream, count = coded
    with pytest.raises(StreamError):
        symbols.decode(np.append(stream, np.array(more, np.uint8)), count)


def test_a_table_out_of_order_or_with_a_wrong_sum_is_refused(coded):
    stream, count = coded
    for changed in (change(stream, 1, stream[4]), change(stream, 2, stream[2] ^ 1)):
        with pytest.raises(StreamError, match="table"):
            symbols.decode(changed, count)


def test_a_state_out_of_range_is_refused(coded):
    stream, count = coded
    at = 1 + 3 * (int(stream[0]) + 1) + 2 * 2
    with pytest.raises(StreamError, match="out of range"):
        symbols.decode(change(stream, slice(at, at + 8), 0), count)


def test_a_changed_word_is_noticed(coded):
    stream, count = coded
    with pytest.raises(StreamError, match="does not end where"):
        symbols.decode(change(stream, -1, stream[-1] ^ 64), count)


def test_damage_in_one_of_several_blocks_is_noticed(rng):
    """Blocks are decoded side by side: the words of one must not serve another."""
    count = 6 * entropy.BLOCK + 5
    own = rng.binomial(20, 0.3, count).astype(np.uint8)
    stream = symbols.encode(own)
    np.testing.assert_array_equal(symbols.decode(stream, count), own)
    counts_at = 1 + 3 * (int(stream[0]) + 1)
    for at in (stream.size // 3, stream.size // 2):
        with pytest.raises(StreamError, match="does not end where"):
            symbols.decode(change(stream, at, stream[at] ^ 1), count)
    for giver, taker in ((1, 2), (3, 0), (2, 4)):
        moved = stream.copy()
        counts = moved[counts_at : counts_at + 2 * 7].view("<u2")
        counts[giver] -= 1
        counts[taker] += 1
        with pytest.raises(StreamError, match="does not end where"):
            symbols.decode(moved, count)


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("symbols_split", (8, 3, 8, 16)),
        ("symbols_split", (9, 4, 2, 6)),
        ("symbols_split", (8, 4, 2, 5)),
        ("symbols_join", (2, 5, 4, 8)),
        ("symbols_join", (2, 6, 4, 9)),
    ],
)
def test_native_code_refuses_buffers_that_do_not_fit(name, arguments):
    native = pytest.importorskip("skinny._native", reason="the native extension was not built")
    first, second, third, fourth = arguments
    space = np.zeros(64, np.uint8)
    if name == "symbols_split":
        call = (space[:first], second, space[:third], space[:fourth])
    else:
        call = (space[:first], space[:second], third, space[:fourth])
    with pytest.raises(ValueError, match="must"):
        getattr(native, name)(*call, 1)
