"""Reading the parts of a tensor while their checksum is taken.

The checksum takes the parts in the order of `Entry.parts`, which is also the order in which they
are decoded. So each byte is read once, and the largest part never lies in memory as a whole.
"""

from collections.abc import Iterator, Mapping
from hashlib import blake2b
from threading import Thread
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skinny.packing.container import DIGEST_BYTES, content
from skinny.packing.dtypes import CARRIER
from skinny.packing.header import Part
from skinny.packing.source import Source

_SLICE = 1 << 20  # bytes
_WORTH_A_THREAD = 1 << 20


class Slices:
    """A part of bytes, read slice by slice, from its first to its last."""

    def __init__(self, parts: "CheckedParts", part: Part) -> None:
        self._parts = parts
        self._part = part

    def __getitem__(self, place: slice) -> NDArray[np.uint8]:
        return self._parts.take(self._part, place.start, place.stop)


class CheckedParts(Mapping[str, Any]):
    """The parts of a tensor by role: arrays, but for `rest`, which is `Slices`. They may be asked
    for once each, in order."""

    def __init__(self, source: Source, parts: Mapping[str, Part]) -> None:
        self._source = source
        self._parts = parts
        self._state = blake2b(digest_size=DIGEST_BYTES)
        self._thread: Thread | None = None  # which takes the checksum of what was read last
        self._taken = dict.fromkeys(parts.values(), 0)  # bytes

    def __iter__(self) -> Iterator[str]:
        return iter(self._parts)

    def __len__(self) -> int:
        return len(self._parts)

    def __contains__(self, role: object) -> bool:
        return role in self._parts

    def __getitem__(self, role: str) -> Any:
        part = self._parts[role]
        if role == "rest":
            return Slices(self, part)
        return self.take(part, 0, part.end - part.begin).view(CARRIER[part.dtype])

    def take(self, part: Part, begin: int, end: int) -> NDArray[np.uint8]:
        """Bytes [begin, end) of a part: those after what was taken last."""
        assert begin == self._taken[part], "the parts of a tensor are read in order"
        array = self._source.read(part.begin + begin, part.begin + end)
        self._taken[part] = end
        self._wait()
        if array.nbytes < _WORTH_A_THREAD or not self._starts_thread(array):
            self._state.update(content(array))
        return array

    def _starts_thread(self, array: NDArray[np.uint8]) -> bool:
        """Take the checksum while the caller decodes the array, which takes as long; False where
        the system has no more threads."""
        thread = Thread(target=self._state.update, args=(content(array),))
        try:
            thread.start()
        except RuntimeError:
            return False
        self._thread = thread
        return True

    def digest(self) -> str:
        """The checksum of all parts; reads what has not been taken."""
        for part in self._parts.values():
            size = part.end - part.begin
            while (begin := self._taken[part]) < size:
                self.take(part, begin, min(begin + _SLICE, size))
        self._wait()
        return self._state.hexdigest()

    def _wait(self) -> None:
        if self._thread is not None:
            self._thread.join()
            self._thread = None
