"""Checkpoints that survive a kill at any moment: the last one, and the good one before it.

A file is a magic number, the SHA-256 of what follows, and what `torch.save` wrote. It is written
beside its place, the old one steps back, and the new one takes its place: at every moment at least
one whole checkpoint is there. Reading admits tensors and plain values only.
"""

import hashlib
import io
import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import torch

from skinny.errors import SkinnyError
from skinny.files import atomic_write

_MAGIC = b"SKINNYCK"
_HEADER = len(_MAGIC) + hashlib.sha256().digest_size

_Restored = TypeVar("_Restored")


def save(folder: Path, state: dict[str, Any]) -> None:
    """Make `state` the last checkpoint; the one before it is kept."""
    folder.mkdir(parents=True, exist_ok=True)
    buffer = io.BytesIO()
    torch.save(state, buffer)
    payload = buffer.getbuffer()
    last, previous = _files(folder)
    fresh = fresh_file(folder)
    with atomic_write(fresh) as file:
        file.write(_MAGIC + hashlib.sha256(payload).digest())
        file.write(payload)
    if last.exists():
        os.replace(last, previous)
    os.replace(fresh, last)


def load(
    folder: Path,
    warn: Callable[[str], None],
    restore: Callable[[dict[str, Any]], _Restored],
    *,
    set_aside: bool = False,
) -> _Restored | None:
    """What `restore` makes of the newest good checkpoint, on the CPU; None where there is none.

    Good is one that is whole and whose contents `restore` takes without an error. Others are
    reported through `warn` and passed over; if no checkpoint is good, that is an error, since
    starting afresh would throw away the run. Who goes on to `save` asks to `set_aside` what is not
    good, so that it never takes the place of a good one.
    """
    damaged: list[tuple[Path, str]] = []
    for path in _files(folder):
        if not path.exists():
            continue
        try:
            restored = _restore(path, restore)
        except SkinnyError as error:
            damaged.append((path, str(error)))
            warn(f"{error}; looking for the checkpoint before it")
            continue
        for bad, _ in damaged if set_aside else []:
            os.replace(bad, bad.with_suffix(".damaged"))
        return restored
    if damaged:
        raise SkinnyError(
            f"no checkpoint in {folder} can be used ({'; '.join(text for _, text in damaged)}); "
            "remove the run folder to start afresh"
        )
    return None


def fresh_file(folder: Path) -> Path:
    """What a checkpoint is called until it is whole."""
    return folder / "fresh.pt"


def _files(folder: Path) -> tuple[Path, Path]:
    return folder / "last.pt", folder / "previous.pt"


def _restore(path: Path, restore: Callable[[dict[str, Any]], _Restored]) -> _Restored:
    state = _read(path)
    try:
        return restore(state)
    except (LookupError, TypeError, ValueError, AttributeError, RuntimeError, SkinnyError) as error:
        reason = " ".join(str(error).split())
        raise SkinnyError(
            f"{path} does not fit this run: {type(error).__name__}: {reason:.300}"
        ) from None


def _read(path: Path) -> dict[str, Any]:
    try:
        data = path.read_bytes()
    except OSError as error:
        raise SkinnyError(f"{path} cannot be read: {error.strerror}") from None
    digest, payload = data[len(_MAGIC) : _HEADER], data[_HEADER:]
    if not data.startswith(_MAGIC) or hashlib.sha256(payload).digest() != digest:
        raise SkinnyError(f"{path} is damaged: its checksum does not fit")
    try:
        state: dict[str, Any] = torch.load(
            io.BytesIO(payload), map_location="cpu", weights_only=True
        )
    except (pickle.UnpicklingError, RuntimeError, EOFError, ValueError) as error:
        raise SkinnyError(f"{path} is damaged: {error}") from None
    return state
