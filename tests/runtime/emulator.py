"""The few instructions of generated kernels, interpreted with NumPy: what code computes, shown on
machines that cannot run it.

Instructions are decoded by capstone, which knows nothing of our encoder. Memory is a few arrays at
made-up addresses; an access outside of them is an error.
"""

import re
from dataclasses import dataclass, field

import capstone
import numpy as np

_REGISTERS = [
    "rax",
    "rcx",
    "rdx",
    "rbx",
    "rsp",
    "rbp",
    "rsi",
    "rdi",
    *(f"r{i}" for i in range(8, 16)),
]
_DECODER = capstone.Cs(capstone.CS_ARCH_X86, capstone.CS_MODE_64)
_STACK = 1 << 60
_ADDRESS = re.compile(r"\[(.*)\](\{1to16\})?")
_TERM = re.compile(r"([+-]?)\s*(r\w+|0x[0-9a-f]+|\d+)(?:\*(\d))?")


def disassemble(code: bytes) -> list[tuple[str, list[str]]]:
    """(mnemonic, operands) of every instruction; all bytes must be instructions."""
    found, size = [], 0
    for _, length, mnemonic, operands in _DECODER.disasm_lite(code, 0):
        found.append((mnemonic, [word.strip() for word in operands.split(",")] if operands else []))
        size += length
    assert size == len(code), f"no instruction at byte {size}: {code[size : size + 12].hex()}"
    return found


def _positions(code: bytes) -> list[int]:
    """Where each instruction begins."""
    return [position for position, *_ in _DECODER.disasm_lite(code, 0)]


@dataclass
class Machine:
    """A processor with vectors of `lanes` floats."""

    lanes: int
    memory: dict[int, np.ndarray]  # float32 arrays by the address they begin at
    registers: dict[str, int] = field(default_factory=dict)
    vectors: dict[int, np.ndarray] = field(default_factory=dict)
    executed: dict[str, int] = field(default_factory=dict)
    last_sum: int = 0  # of the newest addition, which a jump depends on
    stack: dict[int, int] = field(default_factory=dict)  # arguments in memory, by their address
    prefetched: list[int] = field(default_factory=list)  # addresses, in order

    def call(self, code: bytes, *arguments: int) -> None:
        """Runs a function by the System V calling convention."""
        names = ("rdi", "rsi", "rdx", "rcx", "r8", "r9")
        self.registers = dict(zip(names, arguments, strict=False)) | {"rsp": _STACK}
        self.stack = {_STACK + 8 * i: value for i, value in enumerate(arguments[len(names) :], 1)}
        self.vectors = {}
        instructions = disassemble(code)
        assert instructions[-1][0] == "ret"
        assert all(name != "ret" for name, _ in instructions[:-1])
        at = {where: i for i, where in enumerate(_positions(code))}
        counter = 0
        while instructions[counter][0] != "ret":
            name, operands = instructions[counter]
            counter += 1
            self.executed[name] = self.executed.get(name, 0) + 1
            if name != "jne":
                getattr(self, f"_{name}")(*operands)
            elif self.last_sum != 0:
                counter = at[int(operands[0], 0)]

    def _address(self, operand: str) -> tuple[int, bool]:
        inside, broadcast = _ADDRESS.search(operand).groups()
        total = 0
        for sign, term, scale in _TERM.findall(inside):
            value = self.registers[term] if term in _REGISTERS else int(term, 0)
            total += (-1 if sign == "-" else 1) * value * int(scale or 1)
        return total, broadcast is not None

    def _floats(self, address: int, count: int) -> np.ndarray:
        for begin, array in self.memory.items():
            at = address - begin
            if at >= 0 and at + 4 * count <= array.nbytes:
                assert at % 4 == 0
                return array[at // 4 : at // 4 + count]
        raise AssertionError(f"{count} floats at {address:#x} lie in no array")

    def _value(self, operand: str) -> np.ndarray:
        if "[" not in operand:
            return self.vectors[self._number(operand)]
        address, broadcast = self._address(operand)
        if broadcast:
            return np.repeat(self._floats(address, 1), self.lanes)
        return self._floats(address, self.lanes).copy()

    def _number(self, name: str) -> int:
        assert name[0] == ("z" if self.lanes == 16 else "y"), name
        return int(name[3:])

    def _mov(self, to: str, source: str) -> None:
        if "[" in source:
            self.registers[to] = self.stack[self._address(source)[0]]
        else:
            self.registers[to] = self.registers[source]

    def _prefetcht1(self, source: str) -> None:
        self.prefetched.append(self._address(source)[0])

    _prefetcht0 = _prefetchw = _prefetcht1

    def _add(self, to: str, source: str) -> None:
        value = self.registers[source] if source in _REGISTERS else int(source, 0)
        self.registers[to] = (self.registers[to] + value) % (1 << 64)
        self.last_sum = self.registers[to]

    def _lea(self, to: str, source: str) -> None:
        self.registers[to] = self._address(source)[0]

    def _vzeroupper(self) -> None:
        self.vectors = {}

    def _vmovups(self, to: str, source: str) -> None:
        if "[" in to:
            self._floats(self._address(to)[0], self.lanes)[:] = self._value(source)
        else:
            self.vectors[self._number(to)] = self._value(source)

    def _vmovaps(self, to: str, source: str) -> None:
        self.vectors[self._number(to)] = self._value(source)

    def _vbroadcastss(self, to: str, source: str) -> None:
        one = self._floats(self._address(source)[0], 1)
        self.vectors[self._number(to)] = np.repeat(one, self.lanes)

    def _vbroadcastf128(self, to: str, source: str) -> None:
        self.vectors[self._number(to)] = np.tile(self._floats(self._address(source)[0], 4), 2)

    def _vpermilps(self, to: str, source: str, order: str) -> None:
        which = [int(order, 0) >> shift & 3 for shift in (0, 2, 4, 6)]
        halves = self._value(source).reshape(2, 4)
        self.vectors[self._number(to)] = halves[:, which].reshape(-1)

    def _vaddps(self, to: str, a: str, b: str) -> None:
        self.vectors[self._number(to)] = self._value(a) + self._value(b)

    def _vmaxps(self, to: str, a: str, b: str) -> None:
        x, y = self._value(a), self._value(b)
        self.vectors[self._number(to)] = np.where(x > y, x, y)

    def _vminps(self, to: str, a: str, b: str) -> None:
        x, y = self._value(a), self._value(b)
        self.vectors[self._number(to)] = np.where(x < y, x, y)

    def _vfmadd231ps(self, to: str, a: str, b: str) -> None:
        wide = self._value(a).astype(np.float64) * self._value(b)
        total = self.vectors[self._number(to)] + wide  # rounded once, as good as
        self.vectors[self._number(to)] = total.astype(np.float32)
