"""Downloads with checksums."""

import contextlib
import hashlib
from pathlib import Path

import pooch

from skinny.data.catalog import Download, Entry
from skinny.data.errors import DataError
from skinny.data.reading import naming

_TIMEOUT = 30  # seconds without an answer or without a byte


def fetch(
    entry: Entry, root: Path, *, mirror: str | None = None, progress: bool = False
) -> list[Path]:
    """Download a data set's files into `root/<name>`; those already there and sound are kept.

    A file that is there with another checksum is an error: it may be somebody's own subset.
    mirror: the address of a folder to use instead of the official ones. Whatever the source, a file
    is only accepted with the official checksum, and only appears under its name once it is whole.
    """
    folder = root / entry.name
    return [_fetch_one(download, folder, mirror, progress) for download in entry.downloads]


def _fetch_one(download: Download, folder: Path, mirror: str | None, progress: bool) -> Path:
    path = folder / download.file
    if path.exists():
        if md5_of(path) == download.md5:
            return path
        raise DataError(
            f"{path}: is there but does not have the published MD5 {download.md5};"
            " remove it to download it"
        )
    mirrors = (mirror.rstrip("/") + "/",) if mirror else download.mirrors
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
                    downloader=pooch.HTTPDownloader(timeout=_TIMEOUT, progressbar=progress),
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
