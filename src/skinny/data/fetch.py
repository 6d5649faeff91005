"""Downloads with checksums."""

import contextlib
import hashlib
import logging
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from functools import partial
from pathlib import Path

import pooch

from skinny.data.catalog import Download, Entry
from skinny.data.errors import DataError
from skinny.data.reading import naming

_TIMEOUT = 30  # seconds without an answer or without a byte
_CHUNK = 1 << 16

# told the address, the file, the bytes received and the bytes of the whole file (0: not known yet);
# first with no bytes received, and last with all
Watch = Callable[[str, Path, int, int], None]
_watch: ContextVar[Watch | None] = ContextVar("watch", default=None)


@contextlib.contextmanager
def watching(watch: Watch) -> Iterator[None]:
    """Tell `watch` of all downloads of this thread meanwhile; else pooch's log names them."""
    token = _watch.set(watch)
    log = pooch.get_logger()
    level = log.level
    log.setLevel(logging.WARNING)
    try:
        yield
    finally:
        log.setLevel(level)
        _watch.reset(token)


def fetch(entry: Entry, root: Path, *, mirror: str | None = None) -> list[Path]:
    """Download a data set's files into `root/<name>`; those already there and sound are kept.

    A file that is there with another checksum is an error: it may be somebody's own subset.
    mirror: the address of a folder to use instead of the official ones. Whatever the source, a file
    is only accepted with the official checksum, and only appears under its name once it is whole.
    """
    folder = root / entry.name
    return [_fetch_one(download, folder, mirror) for download in entry.downloads]


class _Received:
    """What pooch takes for a progress bar: counts bytes and tells them."""

    def __init__(self, url: str, path: Path, watch: Watch) -> None:
        self.total = 0
        self._tell = partial(watch, url, path)
        self._done = 0
        self._tell(0, 0)

    def update(self, count: int) -> None:
        done = self._done + count
        done = min(done, self.total) if self.total else done
        if done != self._done:
            self._done = done
            self._tell(done, self.total)

    def reset(self) -> None:
        """Pooch counts all bytes once more at the end; they are known already."""

    def close(self) -> None:
        if not self.total:
            self._tell(self._done, self._done)


def _fetch_one(download: Download, folder: Path, mirror: str | None) -> Path:
    path = folder / download.file
    if path.exists():
        if md5_of(path) == download.md5:
            return path
        raise DataError(
            f"{path}: is there but does not have the published MD5 {download.md5};"
            " remove it to download it"
        )
    mirrors = (mirror.rstrip("/") + "/",) if mirror else download.mirrors
    watch = _watch.get()
    failures = []
    for address in mirrors:
        url = address + download.file
        try:
            return Path(
                pooch.retrieve(
                    url,
                    known_hash=f"md5:{download.md5}",
                    fname=download.file,
                    path=folder,
                    downloader=pooch.HTTPDownloader(
                        progressbar=_Received(url, path, watch) if watch else False,
                        chunk_size=_CHUNK,
                        timeout=_TIMEOUT,
                    ),
                )
            )
        except (OSError, ValueError) as error:  # requests' errors are OSErrors
            failures.append(f"{url} ({_reason(error)})")
    with contextlib.suppress(OSError):
        folder.rmdir()  # if it is empty: pooch makes it before it knows whether it can fill it
    raise DataError(
        f"cannot download {', nor '.join(failures)}; get {download.file} (MD5 {download.md5}) by"
        f" other means and put it at {path}"
    )


def md5_of(path: Path) -> str:
    with naming(path), open(path, "rb") as file:
        return hashlib.file_digest(file, "md5").hexdigest()


def _reason(error: Exception) -> str:
    """One short clause: requests nests its causes and repeats the address in each."""
    if isinstance(error, ValueError) and "hash" in str(error).lower():
        return "what it sends does not have the published checksum"
    response = getattr(error, "response", None)
    if response is not None:
        return f"HTTP status {response.status_code}"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return {
        "ConnectionError": "no connection",
        "ProxyError": "no connection through the proxy",
        "SSLError": "no secure connection",
        "ConnectTimeout": "no answer in time",
        "ReadTimeout": "no answer in time",
    }.get(type(error).__name__, str(error))
