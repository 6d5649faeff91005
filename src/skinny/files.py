"""Writing files so that a reader sees the old one or the new one, and never half of either."""

import contextlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any


@contextlib.contextmanager
def atomic_write(path: str | os.PathLike[str], mode: str = "wb") -> Iterator[IO[Any]]:
    """Open a temporary file beside `path`; on success it becomes `path`, on failure it is removed.

    The file is synced before the rename: after a power cut some file systems would otherwise keep
    the rename and lose the contents. A process killed outright may leave the temporary file, whose
    name begins with a dot and ends in `.tmp`; it is never read.
    """
    path = Path(path)
    descriptor, temporary = tempfile.mkstemp(
        prefix=f".{path.name}.", suffix=".tmp", dir=path.parent
    )
    try:
        encoding = None if "b" in mode else "utf-8"
        with open(descriptor, mode, encoding=encoding) as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, 0o666 & ~_umask())
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
        raise


def _umask() -> int:
    """The process's umask; mkstemp ignores it and would leave our files unreadable to others."""
    current = os.umask(0)
    os.umask(current)
    return current
