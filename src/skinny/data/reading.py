"""Bytes of foreign files, never more of them than we are ready for.

A compressed file of a few kilobytes can unfold to terabytes, and a header can promise anything.
Every reader here stops at a limit and turns each failure into a `DataError` that names the file.
"""

import contextlib
import gzip
import tarfile
import zlib
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import IO, Protocol

from skinny.data.errors import DataError

LIMIT = 1 << 30
"""No single file of the data sets we know unfolds to more than 184 MB; a gigabyte is generous."""

_CHUNK = 1 << 20


class _Readable(Protocol):
    def read(self, size: int, /) -> bytes: ...


@contextlib.contextmanager
def naming(path: Path) -> Iterator[None]:
    """Turn what reading can raise into a `DataError` about `path`."""
    try:
        yield
    except FileNotFoundError as error:
        raise DataError(f"{path}: no such file") from error
    except (EOFError, ValueError, zlib.error, gzip.BadGzipFile, tarfile.TarError) as error:
        raise DataError(
            f"{path}: truncated or corrupt ({_sentence(error)}); delete it and get it again"
        ) from error
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror or error})") from error


def read_bytes(path: Path, limit: int = LIMIT) -> bytes:
    """The contents of a file, unfolded if its name ends in `.gz`."""
    with naming(path), _open(path) as stream:
        return _read_at_most(stream, limit, path)


def read_members(archive: Path, names: Collection[str], limit: int = LIMIT) -> dict[str, bytes]:
    """The named regular files of a `.tar.gz`, read in memory: nothing is extracted.

    A name matches exactly, a leading `./` aside, so that links, devices and paths that climb out of
    the archive are simply not found.
    """
    found: dict[str, bytes] = {}
    with (
        naming(archive),
        _open(archive) as stream,
        # Stream mode never seeks, so the bound counts every byte tarfile sees.
        tarfile.open(fileobj=_Bounded(stream, limit, archive), mode="r|") as tar,  # type: ignore[call-overload]
    ):
        for member in tar:
            name = member.name.removeprefix("./")
            if name in names and name not in found and member.isreg():
                file = tar.extractfile(member)
                assert file is not None  # a regular file has contents
                found[name] = _exactly(file, member.size, archive, name)
                if len(found) == len(names):
                    break
    missing = sorted(set(names) - set(found))
    if missing:
        raise DataError(f"{archive}: the archive does not contain {', '.join(missing)}")
    return found


def _open(path: Path) -> IO[bytes]:
    if path.suffix in (".gz", ".tgz"):
        return gzip.open(path, "rb")  # type: ignore[return-value]
    return open(path, "rb")


def _read_at_most(stream: _Readable, limit: int, path: Path) -> bytes:
    chunks, total = [], 0
    while chunk := stream.read(_CHUNK):
        total += len(chunk)
        if total > limit:
            raise DataError(
                f"{path}: unfolds to more than {limit:,} bytes, which no such file does"
            )
        chunks.append(chunk)
    return b"".join(chunks)


def _exactly(stream: _Readable, size: int, archive: Path, name: str) -> bytes:
    contents = _read_at_most(stream, LIMIT, archive)
    if len(contents) != size:
        raise DataError(
            f"{archive}: {name} has {len(contents):,} bytes where {size:,} are promised"
        )
    return contents


class _Bounded:
    """A stream that refuses to give more than `limit` bytes in all."""

    def __init__(self, stream: _Readable, limit: int, path: Path) -> None:
        self._stream, self._left, self._limit, self._path = stream, limit, limit, path

    def read(self, size: int, /) -> bytes:
        contents = self._stream.read(size)
        self._left -= len(contents)
        if self._left < 0:
            raise DataError(f"{self._path}: unfolds to more than {self._limit:,} bytes")
        return contents


def _sentence(error: BaseException) -> str:
    return str(error) or type(error).__name__
