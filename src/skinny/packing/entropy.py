"""Entropy coding of masks: close to n*H(density) bits, less where the ones are clustered.

rANS over the bytes of the mask. A byte is coded as its number of ones k, with the frequencies of
its class, and its rank among the C(8, k) bytes with k ones, all equally likely. The class says how
many ones the bytes just before had, which catches rows and filters that are denser than others.
Blocks of 16 KiB are coded independently, so that they decode side by side: on threads, in the
lanes of the native loop, or as the elements of a NumPy vector. docs/format.md has the layout.

Three models, and the encoder takes the smallest: 0 classes (frequencies follow from the density
alone and cost nothing to store), 1 class (measured frequencies), 9 classes.
"""

import math

import numpy as np
from numpy.typing import NDArray

from skinny.native import extension, threads
from skinny.packing.errors import StreamError

BLOCK = 1 << 14  # bytes of mask
SLOTS = 1 << 14  # frequencies of a class sum to this
COUNTS = 9  # a byte has 0 to 8 ones
CLASSES = 9
LOW = 280 << 22  # states live in [LOW, LOW << 32); 280 = lcm(C(8, k)) makes coding a rank exact
PATTERNS = np.array([math.comb(8, k) for k in range(COUNTS)], np.uint64)

_ONES = np.array([byte.bit_count() for byte in range(256)])
_BYTES = np.array(sorted(range(256), key=lambda byte: (byte.bit_count(), byte)), np.uint8)
_FIRST = np.concatenate(([0], np.cumsum(PATTERNS)[:-1])).astype(np.int64)  # [k] into _BYTES
_RANKS = np.empty(256, np.uint64)
_RANKS[_BYTES] = np.arange(256) - _FIRST[_ONES[_BYTES]]

Bytes = NDArray[np.uint8]
Frequencies = NDArray[np.uint32]  # [classes][9]


def encode(mask: Bytes, count: int, ones: int) -> Bytes:
    """The coded form of a mask of `count` bits, `ones` of them set."""
    table = histogram(mask)
    measured = {classes: _measured(table, classes) for classes in (1, CLASSES)}
    models = {0: expected_frequencies(count, ones)[None], **measured}
    cost = {classes: _bits(table, models[classes], classes) for classes in models}
    classes = min(cost, key=lambda name: cost[name])
    states, word_counts, words = _encode_blocks(mask, models[classes])
    stored = models[classes].astype("<u2").tobytes() if classes else b""
    own = b"".join(
        (
            bytes([classes]),
            stored,
            word_counts.astype("<u2").tobytes(),
            states.astype("<u8").tobytes(),
            words.astype("<u4").tobytes(),
        )
    )
    return np.frombuffer(own.ljust(shortest(count), b"\0"), np.uint8)


def decode(stream: Bytes, count: int, ones: int) -> Bytes:
    """The mask of `count` bits that `encode` was given. Raises `StreamError` for any other stream
    than one `encode` could have made; that the mask has `ones` ones is for the caller to check."""
    length = -(-count // 8)
    blocks = -(-length // BLOCK)
    raw = stream.data  # whose slices are no copies
    classes = raw[0] if raw else -1
    if classes not in (0, 1, CLASSES):
        raise StreamError(f"an entropy-coded mask has {classes} classes; 0, 1 or 9 are possible")
    tables_end = 1 + classes * COUNTS * 2
    counts_end = tables_end + 2 * blocks
    states_end = counts_end + 8 * blocks
    if len(raw) < states_end:
        raise StreamError(f"an entropy-coded mask of {count} bits ends early: {len(raw)} bytes")
    frequencies = np.frombuffer(raw[1:tables_end], "<u2").astype(np.uint32).reshape(-1, COUNTS)
    word_counts = np.frombuffer(raw[tables_end:counts_end], "<u2").astype(np.uint16)
    states = np.frombuffer(raw[counts_end:states_end], "<u8").astype(np.uint64)
    words_end = states_end + 4 * int(word_counts.sum(dtype=np.int64))
    if len(raw) != max(words_end, shortest(count)) or any(raw[words_end:]):
        raise StreamError(
            f"an entropy-coded mask of {len(raw)} bytes has {words_end} bytes of code"
        )
    words = np.frombuffer(raw[states_end:words_end], "<u4").astype(np.uint32)
    if classes == 0:
        frequencies = expected_frequencies(count, ones)[None]
    if np.any(frequencies.sum(axis=1) != SLOTS):
        raise StreamError("the frequencies of an entropy-coded mask do not sum to 16384")
    if np.any(states < LOW) or np.any(states >= LOW << 32):
        raise StreamError("a state of an entropy-coded mask is out of range")
    mask = np.empty(length, np.uint8)
    native = extension()
    decoder = _decode_reference if native is None else native.entropy_decode
    if not decoder(words, states, word_counts, frequencies, mask, threads()):
        raise StreamError("an entropy-coded mask does not end where its words do")
    return mask


def shortest(count: int) -> int:
    """The least length of the coded form of `count` bits; shorter ones are padded with zeros.

    So a byte of a file never stands for more than 256 entries, and a reader can tell before it
    allocates anything whether a file can hold what it claims.
    """
    return -(-count // 256)


def expected_frequencies(count: int, ones: int) -> Frequencies:
    """Of 16384 bytes with `ones` of `count` bits set at random, how many have k ones: [9].

    In exact integers, since writer and reader must agree to the last unit: weight(k) =
    C(8, k) ones^k (count - ones)^(8 - k); floor(16384 weight / sum), at least 1; what is then
    missing from (or over) 16384 goes to the first of the largest.
    """
    weights = [math.comb(8, k) * ones**k * (count - ones) ** (8 - k) for k in range(COUNTS)]
    total = sum(weights) or 1
    return _summing_to_slots(np.array([max(1, SLOTS * w // total) for w in weights]))


def _summing_to_slots(frequencies: NDArray[np.int64]) -> Frequencies:
    frequencies[int(np.argmax(frequencies))] += SLOTS - int(frequencies.sum())
    return frequencies.astype(np.uint32)


def _measured(table: NDArray[np.uint64], classes: int) -> Frequencies:
    rows = table if classes == CLASSES else table.sum(axis=0, keepdims=True)
    frequencies = np.empty((classes, COUNTS), np.uint32)
    for row, seen in zip(frequencies, rows.astype(object), strict=True):
        total = sum(seen) or 1
        row[:] = _summing_to_slots(np.array([-(-SLOTS * n // total) if n else 0 for n in seen]))
    return frequencies


def _bits(table: NDArray[np.uint64], frequencies: Frequencies, classes: int) -> float:
    """What coding the k of every byte costs under a model, its stored tables included."""
    with np.errstate(divide="ignore"):
        each = math.log2(SLOTS) - np.log2(frequencies.astype(np.float64))
    return float((np.where(table == 0, 0, each) * table).sum()) + 8 * 2 * COUNTS * classes


def histogram(mask: Bytes) -> NDArray[np.uint64]:
    """How many bytes with k ones each class has: [9][9]."""
    native = extension()
    if native is None:
        return histogram_reference(mask)
    table = np.zeros((CLASSES, COUNTS), np.uint64)
    native.entropy_histogram(mask, table, threads())
    return table


def histogram_reference(mask: Bytes) -> NDArray[np.uint64]:
    table = np.zeros((CLASSES, COUNTS), np.uint64)
    for k, own in zip(_ONES[mask], _classes(mask, CLASSES), strict=True):
        table[own, k] += np.uint64(1)
    return table


def _next_recent(recent: NDArray[np.int64], k: NDArray[np.int64]) -> NDArray[np.int64]:
    """A decaying count of ones, 0 at the start of a block."""
    return recent - (recent >> 3) + 16 * k


def _class(recent: NDArray[np.int64], classes: int) -> NDArray[np.int64]:
    """The bit length of recent // 8, at most classes - 1."""
    length = np.frexp((recent >> 3).astype(np.float64))[1].astype(np.int64)
    return np.minimum(length, classes - 1)


def _classes(mask: Bytes, classes: int) -> NDArray[np.int64]:
    """The class of every byte, block by block."""
    out = np.zeros(mask.size, np.int64)
    recent = np.zeros(-(-mask.size // BLOCK), np.int64)
    for at in range(min(BLOCK, mask.size)):
        lanes = mask[at::BLOCK].size
        out[at::BLOCK] = _class(recent[:lanes], classes)
        recent[:lanes] = _next_recent(recent[:lanes], _ONES[mask[at::BLOCK]])
    return out


def _encode_blocks(
    mask: Bytes, frequencies: Frequencies
) -> tuple[NDArray[np.uint64], NDArray[np.uint16], NDArray[np.uint32]]:
    """Per block the final state and the number of words, and the words of all blocks."""
    native = extension()
    if native is None:
        return encode_blocks_reference(mask, frequencies)
    blocks = -(-mask.size // BLOCK)
    states, word_counts = np.empty(blocks, np.uint64), np.empty(blocks, np.uint16)
    words = native.entropy_encode(mask, frequencies, states, word_counts, threads())
    return states, word_counts, np.frombuffer(words, np.uint32)


def encode_blocks_reference(
    mask: Bytes, frequencies: Frequencies
) -> tuple[NDArray[np.uint64], NDArray[np.uint16], NDArray[np.uint32]]:
    """All blocks in lockstep, one element each; the state runs backwards through the bytes."""
    blocks = -(-mask.size // BLOCK)
    first = _exclusive_sums(frequencies)
    classes = _classes(mask, len(frequencies))
    state = np.full(blocks, LOW, np.uint64)
    words: list[list[int]] = [[] for _ in range(blocks)]
    for at in reversed(range(min(BLOCK, mask.size))):
        byte, own = mask[at::BLOCK], classes[at::BLOCK]
        k = _ONES[byte]
        f, n, x = frequencies[own, k].astype(np.uint64), PATTERNS[k], state[: byte.size]
        full = x >= (f * (np.uint64(LOW // SLOTS) // n)) << np.uint64(32)
        for block in np.flatnonzero(full):
            words[block].append(int(x[block]) & 0xFFFFFFFF)
        x = np.where(full, x >> np.uint64(32), x) * n + _RANKS[byte]
        state[: byte.size] = ((x // f) << np.uint64(14)) + x % f + first[own, k]
    counts = np.array([len(block) for block in words], np.uint16)
    flat = [word for block in words for word in reversed(block)]
    return state, counts, np.array(flat, np.uint32)


def _decode_reference(
    words: NDArray[np.uint32],
    states: NDArray[np.uint64],
    word_counts: NDArray[np.uint16],
    frequencies: Frequencies,
    mask: Bytes,
    _threads: int,
) -> bool:
    """Fills `mask`; False if a block's words run out, are left over, or lead astray."""
    first = _exclusive_sums(frequencies)
    ends = np.cumsum(word_counts, dtype=np.int64)
    at_word = ends - word_counts
    state = states.copy()
    recent = np.zeros(states.size, np.int64)
    padded = np.append(words, np.uint32(0)).astype(np.uint64)
    ones_at = np.stack([np.repeat(np.arange(COUNTS), row) for row in frequencies])  # [class][slot]
    for at in range(min(BLOCK, mask.size)):
        lanes = mask[at::BLOCK].size
        x, own = state[:lanes], _class(recent[:lanes], len(frequencies))
        slot = x & np.uint64(SLOTS - 1)
        k = ones_at[own, slot.astype(np.int64)]
        x = frequencies[own, k] * (x >> np.uint64(14)) + slot - first[own, k]
        x, rank = np.divmod(x, PATTERNS[k])
        mask[at::BLOCK] = _BYTES[_FIRST[k] + rank.astype(np.int64)]
        renormalise = x < LOW
        if np.any(renormalise & (at_word[:lanes] >= ends[:lanes])):
            return False
        word = padded[np.where(renormalise, at_word[:lanes], 0)]
        state[:lanes] = np.where(renormalise, x << np.uint64(32) | word, x)
        at_word[:lanes] += renormalise
        recent[:lanes] = _next_recent(recent[:lanes], k)
    return bool(np.all(at_word == ends) and np.all(state == LOW))


def _exclusive_sums(frequencies: Frequencies) -> NDArray[np.uint64]:
    sums = np.cumsum(frequencies, axis=1, dtype=np.uint64)
    return sums - frequencies
