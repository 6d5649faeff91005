"""How much memory a network may take, and a clear error before it takes more."""

import os
from collections.abc import Hashable
from dataclasses import dataclass

from skinny.errors import SkinnyError

_SHARE = 8  # of the machine's memory, that a network may take
_FLOOR = 1 << 30


class MemoryLimitError(SkinnyError):
    """A network, or a batch, that needs more memory than it may take."""


@dataclass(frozen=True)
class MemoryLimit:
    """What a network may take, in bytes."""

    max_memory: int

    def check(self, needed: int, what: str, remedy: str) -> None:
        """Raises a `MemoryLimitError` if `what` needs more than the limit."""
        if needed > self.max_memory:
            raise MemoryLimitError(
                f"{what} needs about {needed:,} bytes, more than max_memory={self.max_memory:_} "
                f"allows; {remedy} or give skinny.load a larger max_memory"
            )

    def less(self, taken: int) -> "MemoryLimit":
        """What is left of the limit."""
        return MemoryLimit(max(0, self.max_memory - taken))


class Account:
    """What is taken of a limit. What has the same name is the same memory, and counts once."""

    def __init__(self, limit: MemoryLimit) -> None:
        self._limit = limit
        self._bytes: dict[Hashable, int] = {}
        self.total = 0

    @property
    def left(self) -> int:
        return max(0, self._limit.max_memory - self.total)

    def add(self, name: Hashable, needed: int) -> None:
        """Raises a `MemoryLimitError` if there is not enough left."""
        more = max(0, needed - self._bytes.get(name, 0))
        self.check(self.total + more)
        self._bytes[name] = self._bytes.get(name, 0) + more
        self.total += more

    def check(self, needed: int) -> None:
        self._limit.check(needed, "an input of this size", "give it smaller inputs")


def memory_limit(max_memory: int | None) -> MemoryLimit:
    """The limit a caller chose, or an eighth of the machine's memory, but at least 1 GiB."""
    if max_memory is None:
        try:
            machine = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        except (ValueError, OSError, AttributeError):
            machine = 0
        return MemoryLimit(max(_FLOOR, machine // _SHARE))
    if isinstance(max_memory, bool) or not isinstance(max_memory, int) or max_memory < 1:
        raise SkinnyError(f"max_memory={max_memory!r} is not possible; it is a number of bytes")
    return MemoryLimit(max_memory)
