"""What data there is, and whether it is what its authors published."""

import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from skinny.data.catalog import OFFICIAL, Entry, IdxEntry
from skinny.data.digits import TEST_IMAGES
from skinny.data.errors import DataError
from skinny.data.fetch import md5_of
from skinny.data.folder import PHOTOGRAPHS, find_photographs
from skinny.data.locate import Found, find, search_path

Verdict = Literal["ok", "different", "unknown"]


@dataclass(frozen=True)
class Listing:
    """One data set: where it was found and in which form; `folder` is None if nowhere."""

    name: str
    folder: str | None
    form: str
    complete: bool
    missing: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class Check:
    """One file's checksum against the published one.

    `different` may be damage, or a subset made by hand; `unknown`: none is published.
    """

    name: str
    path: str
    verdict: Verdict
    md5: str
    published: str | None

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def list_data(data_dir: str | os.PathLike[str] | None = None) -> list[Listing]:
    """Every named data set, in the order of the catalogue."""
    folders = search_path(data_dir)
    listings = [Listing("digits", "scikit-learn", f"built in, {TEST_IMAGES} to test", True)]
    for entry in OFFICIAL.values():
        found = find(entry, folders)
        listings.append(
            Listing(entry.name, None, "", False)
            if found is None
            else Listing(entry.name, str(found.folder), found.form, found.complete, found.missing)
        )
    for name in PHOTOGRAPHS:
        root = find_photographs(name, folders)
        listings.append(
            Listing(name, None, "", False)
            if root is None
            else Listing(name, str(root), "class folders", True)
        )
    return listings


def verify(
    names: tuple[str, ...] = (), data_dir: str | os.PathLike[str] | None = None
) -> list[Check]:
    """Compare the checksums of what `load` would read; without names, of all that is there."""
    folders = search_path(data_dir)
    checks = []
    for entry in _entries(names):
        found = find(entry, folders)
        if found is None:
            if names:
                raise DataError(
                    f"{entry.name} was not found in {', '.join(map(str, folders))};"
                    f" `skinny data fetch {entry.name}` gets it"
                )
            continue
        published = _published(found)
        checks += [_check(entry.name, path, published.get(name)) for name, path in _named(found)]
    return checks


def official(names: tuple[str, ...]) -> list[Entry]:
    """The catalogue's entries of these names."""
    for name in names:
        if name not in OFFICIAL:
            raise DataError(
                f"{name!r} has no official files; those that have are {', '.join(OFFICIAL)}"
            )
    return [OFFICIAL[name] for name in names]


def _entries(names: tuple[str, ...]) -> list[Entry]:
    return official(names or tuple(OFFICIAL))


def _named(found: Found) -> list[tuple[str, Path]]:
    """Each file under the name its checksum is published by."""
    return [
        (f"{name}.gz" if isinstance(found.entry, IdxEntry) and path.suffix == ".gz" else name, path)
        for name, path in found.files.items()
    ]


def _published(found: Found) -> dict[str, str]:
    if isinstance(found.entry, IdxEntry):
        return found.entry.md5
    assert found.cifar is not None
    return found.cifar.md5 | {found.cifar.archive: found.cifar.archive_md5}


def _check(name: str, path: Path, published: str | None) -> Check:
    md5 = md5_of(path)
    verdict: Verdict = "unknown" if published is None else "ok" if md5 == published else "different"
    return Check(name, str(path), verdict, md5, published)
