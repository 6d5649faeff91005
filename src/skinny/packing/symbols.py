"""Coding values without loss: the exponents of trained weights are far from random.

A value's bits are rotated left by one, which moves the sign to the other end; the top byte (for
float32 and bfloat16 the exponent, for int8 all there is) is its symbol, the other bytes its rest.
Symbols are entropy-coded, rests, which look random, are stored as they are. docs/format.md has the
layout of the code: rANS like that of masks, with one table of frequencies.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from skinny.native import extension, threads
from skinny.packing.entropy import BLOCK, SLOTS, shortest
from skinny.packing.errors import StreamError

LOW = 1 << 31  # states live in [LOW, LOW << 32)

Bytes = NDArray[np.uint8]


def split(values: NDArray[Any]) -> tuple[Bytes, Bytes]:
    """Symbols [n] and rests [n * (width - 1)] of n values."""
    native = extension()
    if native is None:
        return split_reference(values)
    width = values.itemsize
    symbols = np.empty(values.size, np.uint8)
    rest = np.empty(values.size * (width - 1), np.uint8)
    native.symbols_split(values.view(np.uint8), width, symbols, rest, threads())
    return symbols, rest


def split_reference(values: NDArray[Any]) -> tuple[Bytes, Bytes]:
    width = values.itemsize
    bits = values.view(f"<u{width}")
    rotated = (bits << 1 | bits >> (8 * width - 1)).view(np.uint8).reshape(-1, width)
    return rotated[:, -1].copy(), np.ascontiguousarray(rotated[:, :-1]).reshape(-1)


def join(symbols: Bytes, rest: Bytes, values: NDArray[Any]) -> None:
    """Puts the values together that `split` took apart."""
    native = extension()
    if native is None:
        values[:] = join_reference(symbols, rest, values.dtype)
    else:
        native.symbols_join(symbols, rest, values.itemsize, values.view(np.uint8), threads())


def join_reference(symbols: Bytes, rest: Bytes, dtype: np.dtype[Any]) -> NDArray[Any]:
    width = dtype.itemsize
    rotated = np.empty((symbols.size, width), np.uint8)
    rotated[:, -1] = symbols
    rotated[:, :-1] = rest.reshape(symbols.size, width - 1)
    bits = rotated.reshape(-1).view(f"<u{width}")
    return (bits >> 1 | bits << (8 * width - 1)).view(dtype)


def encode(symbols: Bytes) -> Bytes:
    """The coded form of bytes, about as long as their entropy."""
    counts = np.bincount(symbols, minlength=256)
    frequencies = _frequencies(counts)
    seen = np.flatnonzero(frequencies)
    table = np.empty(seen.size, np.dtype([("symbol", "u1"), ("frequency", "<u2")]))
    table["symbol"], table["frequency"] = seen, frequencies[seen]
    states, word_counts, words = _encode_blocks(symbols, frequencies)
    own = b"".join(
        (
            bytes([max(0, seen.size - 1)]),
            table.tobytes(),
            word_counts.astype("<u2").tobytes(),
            states.astype("<u8").tobytes(),
            words.astype("<u4").tobytes(),
        )
    )
    return np.frombuffer(own.ljust(shortest(symbols.size), b"\0"), np.uint8)


def decode(stream: Bytes, count: int) -> Bytes:
    """The `count` bytes `encode` was given; `StreamError` if it cannot have made this stream."""
    blocks = -(-count // BLOCK)
    raw = stream.data  # whose slices are no copies
    table_end = 1 + 3 * ((raw[0] if raw else 0) + 1)
    counts_end = table_end + 2 * blocks
    states_end = counts_end + 8 * blocks
    if len(raw) < states_end:
        raise StreamError(f"the code of {count} values ends early: {len(raw)} bytes")
    table = np.frombuffer(raw[1:table_end], np.dtype([("symbol", "u1"), ("frequency", "<u2")]))
    word_counts = np.frombuffer(raw[table_end:counts_end], "<u2").astype(np.uint16)
    states = np.frombuffer(raw[counts_end:states_end], "<u8").astype(np.uint64)
    words_end = states_end + 4 * int(word_counts.sum(dtype=np.int64))
    if len(raw) != max(words_end, shortest(count)) or any(raw[words_end:]):
        raise StreamError(f"{len(raw)} bytes of coded values have {words_end} bytes of code")
    words = np.frombuffer(raw[states_end:words_end], "<u4").astype(np.uint32)
    if np.any(np.diff(table["symbol"].astype(int)) <= 0) or table["frequency"].sum() != SLOTS:
        raise StreamError("the table of coded values is out of order or does not sum to 16384")
    if np.any(states < LOW) or np.any(states >= LOW << 32):
        raise StreamError("a state of coded values is out of range")
    frequencies = np.zeros(256, np.uint32)
    frequencies[table["symbol"]] = table["frequency"]
    symbols = np.empty(count, np.uint8)
    native = extension()
    decoder = _decode_reference if native is None else native.symbols_decode
    if not decoder(words, states, word_counts, frequencies, symbols, threads()):
        raise StreamError("the code of values does not end where its words do")
    return symbols


def _frequencies(counts: NDArray[np.int64]) -> NDArray[np.uint32]:
    """In proportion to the counts, at least 1 where there are any, summing to the slots."""
    total = max(1, int(counts.sum()))
    frequencies = np.where(counts > 0, np.maximum(1, counts * SLOTS // total), 0)
    if not counts.any():
        frequencies[0] = SLOTS
    frequencies[int(np.argmax(frequencies))] += SLOTS - int(frequencies.sum())
    return frequencies.astype(np.uint32)


def _encode_blocks(
    symbols: Bytes, frequencies: NDArray[np.uint32]
) -> tuple[NDArray[np.uint64], NDArray[np.uint16], NDArray[np.uint32]]:
    native = extension()
    if native is None:
        return encode_blocks_reference(symbols, frequencies)
    blocks = -(-symbols.size // BLOCK)
    states, word_counts = np.empty(blocks, np.uint64), np.empty(blocks, np.uint16)
    words = native.symbols_encode(symbols, frequencies, states, word_counts, threads())
    return states, word_counts, np.frombuffer(words, np.uint32)


def encode_blocks_reference(
    symbols: Bytes, frequencies: NDArray[np.uint32]
) -> tuple[NDArray[np.uint64], NDArray[np.uint16], NDArray[np.uint32]]:
    """All blocks in lockstep, one element each; the state runs backwards through the symbols."""
    blocks = -(-symbols.size // BLOCK)
    wide = frequencies.astype(np.uint64)
    first = np.cumsum(wide) - wide
    state = np.full(blocks, LOW, np.uint64)
    words: list[list[int]] = [[] for _ in range(blocks)]
    for at in reversed(range(min(BLOCK, symbols.size))):
        symbol = symbols[at::BLOCK]
        f, x = wide[symbol], state[: symbol.size]
        full = x >= (f * np.uint64(LOW // SLOTS)) << np.uint64(32)
        for block in np.flatnonzero(full):
            words[block].append(int(x[block]) & 0xFFFFFFFF)
        x = np.where(full, x >> np.uint64(32), x)
        state[: symbol.size] = ((x // f) << np.uint64(14)) + x % f + first[symbol]
    counts = np.array([len(block) for block in words], np.uint16)
    flat = [word for block in words for word in reversed(block)]
    return state, counts, np.array(flat, np.uint32)


def _decode_reference(
    words: NDArray[np.uint32],
    states: NDArray[np.uint64],
    word_counts: NDArray[np.uint16],
    frequencies: NDArray[np.uint32],
    symbols: Bytes,
    _threads: int,
) -> bool:
    """Fills `symbols`; False if a block's words run out, are left over, or lead astray."""
    wide = frequencies.astype(np.uint64)
    first = np.cumsum(wide) - wide
    ends = np.cumsum(word_counts, dtype=np.int64)
    at_word = ends - word_counts
    state = states.copy()
    padded = np.append(words, np.uint32(0)).astype(np.uint64)
    symbol_at = np.repeat(np.arange(256), frequencies)
    for at in range(min(BLOCK, symbols.size)):
        lanes = symbols[at::BLOCK].size
        slot = state[:lanes] & np.uint64(SLOTS - 1)
        symbol = symbol_at[slot.astype(np.int64)]
        x = wide[symbol] * (state[:lanes] >> np.uint64(14)) + slot - first[symbol]
        symbols[at::BLOCK] = symbol
        renormalise = x < LOW
        if np.any(renormalise & (at_word[:lanes] >= ends[:lanes])):
            return False
        word = padded[np.where(renormalise, at_word[:lanes], 0)]
        state[:lanes] = np.where(renormalise, x << np.uint64(32) | word, x)
        at_word[:lanes] += renormalise
    return bool(np.all(at_word == ends) and np.all(state == LOW))
