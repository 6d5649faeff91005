"""Coding a small sparse tensor, mask and symbols, with probabilities that are learned on the way.

No tables are stored, and what a bit of the mask is likely to be depends on its row and column: on
how many ones these have had so far, and on the bit before. So empty columns (the border of an
image) and dense rows cost little. A binary range coder; docs/format.md has every step. It decodes
bit by bit, on one core, so that only tensors of up to MOST entries are coded this way.
"""

import numpy as np
from numpy.typing import NDArray

from skinny.native import extension
from skinny.packing.errors import StreamError

MOST = 1 << 20  # entries of a tensor
ENTRIES = 4096  # that a byte stands for, at most
SLOWEST = 255  # of the counts that make learning slower
LOWEST = 1 << 12  # a probability is LOWEST to 2^24 - LOWEST
TOP = 1 << 24

Bytes = NDArray[np.uint8]


def encode(mask: Bytes, symbols: Bytes, rows: int, columns: int) -> Bytes:
    """The coded form of rows * columns bits and of a symbol for each one among them."""
    native = extension()
    if native is not None:
        own = native.adaptive_encode(mask, symbols, rows, columns)
    else:
        own = encode_reference(mask, symbols, rows, columns)
    return np.frombuffer(own.ljust(shortest(rows * columns), b"\0"), np.uint8)


def decode(stream: Bytes, rows: int, columns: int, kept: int) -> tuple[Bytes, Bytes]:
    """Mask and symbols; `StreamError` unless the mask has `kept` ones and all bytes are read."""
    mask, symbols = np.zeros(-(-rows * columns // 8), np.uint8), np.empty(kept, np.uint8)
    native = extension()
    decoder = decode_reference if native is None else native.adaptive_decode
    if not decoder(stream, rows, columns, mask, symbols):
        raise StreamError(f"adaptive code is not that of {kept} values of {rows * columns} entries")
    return mask, symbols


def shortest(count: int) -> int:
    """The least length for `count` entries; shorter ones are padded with zeros (entropy.py)."""
    return -(-count // ENTRIES)


class _Bits:
    """What all bits of a tensor are coded with: probabilities of a one, in 2^24, and counts."""

    def __init__(self, kept: int, count: int) -> None:
        likely = min(max((kept << 24) // max(1, count), LOWEST), TOP - LOWEST)
        self.mask = [[likely, 0] for _ in range(50)]
        self.symbol = [[TOP // 2, 0] for _ in range(256)]


def _learn(state: list[int], bit: int) -> None:
    p, n = state
    if bit:
        p += 2 * (TOP - p) // (2 * n + 3)
    else:
        p -= 2 * p // (2 * n + 3)
    state[0] = min(max(p, LOWEST), TOP - LOWEST)
    state[1] = min(n + 1, SLOWEST)


def _context(column: int, row: int, last: int) -> int:
    """Of counts of ones so far, in the column and in the row, and of the bit before."""
    return (min(4, column.bit_length()) * 5 + min(4, row.bit_length())) * 2 + last


class _Encoder:
    def __init__(self) -> None:
        self.low, self.range, self.out = 0, 0xFFFFFFFF, bytearray()

    def code(self, state: list[int], bit: int) -> None:
        bound = (self.range >> 16) * (state[0] >> 8)
        if bit:
            self.range = bound
        else:
            self.low += bound
            self.range -= bound
        _learn(state, bit)
        while self.range < TOP:
            self._shift()
            self.range <<= 8

    def _shift(self) -> None:
        if self.low >> 32:  # carry
            at = len(self.out) - 1
            while self.out[at] == 255:
                self.out[at] = 0
                at -= 1
            self.out[at] += 1
        self.out.append(self.low >> 24 & 255)
        self.low = self.low << 8 & 0xFFFFFFFF

    def finish(self) -> bytes:
        """The number of the range that ends in the most zeros, without these."""
        for bits in (24, 16, 8, 0):
            number = (self.low + (1 << bits) - 1) >> bits << bits
            if number < self.low + self.range:
                break
        self.low = number
        for _ in range(4):
            self._shift()
        return bytes(self.out).rstrip(b"\0")


def encode_reference(mask: Bytes, symbols: Bytes, rows: int, columns: int) -> bytes:
    bits, coder = _Bits(symbols.size, rows * columns), _Encoder()
    flat = np.unpackbits(mask, count=rows * columns, bitorder="little").tolist()
    seen, at = [0] * columns, 0
    for row in range(rows):
        own = last = 0
        for column in range(columns):
            bit = flat[row * columns + column]
            coder.code(bits.mask[_context(seen[column], own, last)], bit)
            last = bit
            if bit:
                seen[column] += 1
                own += 1
                symbol, node = int(symbols[at]), 1
                for place in range(7, -1, -1):
                    coder.code(bits.symbol[node], symbol >> place & 1)
                    node = 2 * node + (symbol >> place & 1)
                at += 1
    return coder.finish()


class _Decoder:
    def __init__(self, stream: bytes) -> None:
        self.stream, self.range, self.at = stream, 0xFFFFFFFF, 4
        self.number = int.from_bytes(stream[:4].ljust(4, b"\0"), "big")

    def code(self, state: list[int]) -> int:
        bound = (self.range >> 16) * (state[0] >> 8)
        bit = int(self.number < bound)
        if bit:
            self.range = bound
        else:
            self.number -= bound
            self.range -= bound
        _learn(state, bit)
        while self.range < TOP:
            more = self.stream[self.at] if self.at < len(self.stream) else 0
            self.at += 1
            self.number = (self.number << 8 | more) & 0xFFFFFFFF
            self.range <<= 8
        return bit


def decode_reference(stream: Bytes, rows: int, columns: int, mask: Bytes, symbols: Bytes) -> bool:
    """Fills both; False unless there are as many ones as symbols, and no bytes but zeros left."""
    bits, coder = _Bits(symbols.size, rows * columns), _Decoder(stream.tobytes())
    seen, at = [0] * columns, 0
    for row in range(rows):
        own = last = 0
        for column in range(columns):
            last = coder.code(bits.mask[_context(seen[column], own, last)])
            if not last:
                continue
            if at == symbols.size:
                return False
            place = row * columns + column
            mask[place // 8] |= 1 << place % 8
            seen[column] += 1
            own += 1
            node = 1
            while node < 256:
                node = 2 * node + coder.code(bits.symbol[node])
            symbols[at] = node - 256
            at += 1
    return at == symbols.size and not any(stream[coder.at :])
