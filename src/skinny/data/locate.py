"""Where data lies: the folders that are searched, and which form of a data set is in them.

Folders are searched in this order, and the first complete form wins:

1. the folder given (`--data-dir`), if one is;
2. `$SKINNY_DATA`, if it is set;
3. the per-user cache (`~/.cache/skinny` on Linux, `~/Library/Caches/skinny` on macOS,
   `%LOCALAPPDATA%\\skinny\\Cache` on Windows).

Downloads go to the first of them. In each, a data set may lie directly or in its usual sub-folder.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pooch

from skinny.data.catalog import CifarEntry, CifarForm, Entry, IdxEntry
from skinny.data.errors import DataError
from skinny.data.reading import naming


@dataclass(frozen=True)
class Found:
    """Files of a data set in one place.

    form: `idx`, `idx.gz`, `binary`, `python`, with ` archive` behind it for a `.tar.gz`.
    files: what was found, by official name (training files first); missing: what was not.
    """

    entry: Entry
    form: str
    folder: Path
    files: dict[str, Path]
    missing: tuple[str, ...]
    cifar: CifarForm | None = None

    @property
    def complete(self) -> bool:
        return not self.missing


def cache_folder() -> Path:
    """The per-user folder of downloads and of whatever else can be made again."""
    return Path(pooch.os_cache("skinny"))


def search_path(data_dir: str | os.PathLike[str] | None = None) -> list[Path]:
    """The folders that are searched, in order; see the head of this file."""
    chosen = [data_dir, os.environ.get("SKINNY_DATA"), cache_folder()]
    folders = [Path(folder).expanduser() for folder in chosen if folder]
    return list(dict.fromkeys(folders))


def find(entry: Entry, folders: list[Path]) -> Found | None:
    """The first complete form of a data set, or else the least incomplete, or None."""
    best: Found | None = None
    for root in folders:
        with naming(root):  # it may be there and closed to us
            candidates = list(_candidates(entry, root))
        for candidate in candidates:
            if candidate.complete:
                return candidate
            if candidate.files and (best is None or len(candidate.files) > len(best.files)):
                best = candidate
    return best


def require(entry: Entry, folders: list[Path]) -> Found:
    """A complete form of a data set, or an error that says where it was looked for."""
    found = find(entry, folders)
    if found is None:
        places = ", ".join(map(str, folders))
        raise DataError(
            f"{entry.name} was not found in {places}; run `skinny data fetch {entry.name}`, or put"
            f" {_and(download.file for download in entry.downloads)} in {folders[0] / entry.name}"
        )
    if not found.complete:
        raise DataError(
            f"{entry.name} in {found.folder} is incomplete: {_and(found.missing)} missing"
        )
    return found


def _candidates(entry: Entry, root: Path) -> Iterator[Found]:
    for folder in _places(entry, root):
        if isinstance(entry, IdxEntry):
            yield _idx(entry, folder)
        else:
            yield from _cifar(entry, folder)


def _places(entry: Entry, root: Path) -> list[Path]:
    """The folders under `root` where the files of a data set may lie.

    MNIST and Fashion-MNIST name their files alike, so directly in `root` they are told apart by
    whether its name says "fashion" (its parent's, for torchvision's `FashionMNIST/raw`).
    """
    direct = [root]
    if isinstance(entry, IdxEntry):
        named = root.absolute().parent if root.name == "raw" else root.absolute()
        direct = [root] if ("fashion" in named.name.lower()) == ("fashion" in entry.name) else []
    return [root / folder for folder in entry.folders] + direct


def _idx(entry: IdxEntry, folder: Path) -> Found:
    files: dict[str, Path] = {}
    missing = []
    for name in entry.files:
        # some tools unpack `train-images-idx3-ubyte.gz` as `train-images.idx3-ubyte`
        dotted = name.replace("-idx", ".idx")
        names = (name, f"{name}.gz", dotted, f"{dotted}.gz")
        path = next((folder / n for n in names if (folder / n).is_file()), None)
        if path is None:
            missing.append(f"{name}[.gz]")
        else:
            files[name] = path
    kinds = {"idx.gz" if path.suffix == ".gz" else "idx" for path in files.values()}
    return Found(entry, " and ".join(sorted(kinds)), folder, files, tuple(missing))


def _cifar(entry: CifarEntry, place: Path) -> Iterator[Found]:
    for form in entry.forms:
        names = (*form.train, *form.test)
        folders = [place / form.folder]
        # CIFAR-100's python files are called just `train` and `test`, which many other things are
        # too: without their folder they are only believed where the path says what they are.
        if place.name == form.folder or place.name in entry.folders:
            folders.append(place)
        for folder in folders:
            files = {name: folder / name for name in names if (folder / name).is_file()}
            missing = tuple(name for name in names if name not in files)
            yield Found(entry, form.version, folder, files, missing, form)
    for form in entry.forms:
        archive = place / form.archive
        files = {form.archive: archive} if archive.is_file() else {}
        missing = () if files else (form.archive,)
        yield Found(entry, f"{form.version} archive", place, files, missing, form)


def _and(names: Iterator[str] | tuple[str, ...]) -> str:
    return ", ".join(names)
