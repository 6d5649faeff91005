"""Writing files so that a reader sees the old one or the new one, and never half of either."""

import contextlib
import glob
import os
import secrets
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
    descriptor, temporary = _create_beside(path)
    try:
        encoding = None if "b" in mode else "utf-8"
        with open(descriptor, mode, encoding=encoding) as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
        raise


@contextlib.contextmanager
def beside(path: str | os.PathLike[str]) -> Iterator[Path]:
    """A name in the folder of `path` for a file that others write; on success it becomes `path`."""
    path = Path(path)
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    try:
        yield temporary
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def _create_beside(path: Path) -> tuple[int, Path]:
    """A new file with the permissions any new file has: the system applies the umask, which cannot
    be read without changing it for all threads. (`tempfile.mkstemp` makes private files.)"""
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
    while True:
        temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
        with contextlib.suppress(FileExistsError):
            return os.open(temporary, flags, 0o666), temporary


def remove_temporaries(path: Path) -> None:
    """Remove what killed writers of `path` left; only for who alone may write it."""
    for temporary in path.parent.glob(f".{glob.escape(path.name)}.*.tmp"):
        temporary.unlink(missing_ok=True)
