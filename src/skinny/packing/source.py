"""The bytes of a file, copied when they are asked for.

A mapping would be simpler, but a file that is truncated under a mapping kills the process that
reads it, and one that is overwritten changes arrays that were checked before.
"""

import os
import stat
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skinny.errors import SkinnyError
from skinny.packing.dtypes import CARRIER
from skinny.packing.errors import ChecksumError, NotPackedError
from skinny.packing.header import Part


class Source:
    """An open file. Several threads may read it at once."""

    _descriptor: int | None = None

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            if not stat.S_ISREG(path.stat().st_mode):  # opening a pipe would wait for ever
                raise SkinnyError(f"cannot open {path}: it is not a file")
            self._descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError as problem:
            raise SkinnyError(f"cannot open {path}: {problem.strerror}") from None
        self._size = os.fstat(self._descriptor).st_size
        if not self._size:
            raise NotPackedError(f"{path} is empty")

    def close(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
        self._descriptor = None

    __del__ = close

    def check_open(self) -> int:
        """The descriptor; an error if the file is closed."""
        if self._descriptor is None:
            raise SkinnyError(f"{self._path} is closed")
        return self._descriptor

    def prefetch(self) -> None:
        """Let the system begin to read the whole file, so that nobody waits for a disk."""
        if self._descriptor is not None and hasattr(os, "posix_fadvise"):
            os.posix_fadvise(self._descriptor, 0, 0, os.POSIX_FADV_WILLNEED)

    def __len__(self) -> int:
        """Bytes of the file when it was opened."""
        return self._size

    def __getitem__(self, place: slice) -> bytes:
        begin, end, _ = place.indices(self._size)
        return self.read(begin, end).tobytes()

    def read_part(self, part: Part) -> NDArray[Any]:
        """A part's elements."""
        return self.read(part.begin, part.end).view(CARRIER[part.dtype]).reshape(part.shape)

    def read(self, begin: int, end: int) -> NDArray[np.uint8]:
        """Bytes [begin, end), in memory of their own."""
        descriptor = self.check_open()
        to = np.empty(max(0, end - begin), np.uint8)
        done = 0
        while done < to.size:
            try:
                count = os.preadv(descriptor, [to[done:].data], begin + done)
            except OSError as problem:
                raise SkinnyError(f"cannot read {self._path}: {problem.strerror}") from None
            if not count:
                raise ChecksumError("the file has become shorter since it was opened")
            done += count
        return to
