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
from typing import Any

import torch

from skinny.errors import SkinnyError
from skinny.files import atomic_write

_MAGIC = b"SKINNYCK"
_HEADER = len(_MAGIC) + hashlib.sha256().digest_size


def save(folder: Path, state: dict[str, Any]) -> None:
    """Make `state` the last checkpoint; the one before it is kept."""
    folder.mkdir(parents=True, exist_ok=True)
    buffer = io.BytesIO()
    torch.save(state, buffer)
    payload = buffer.getbuffer()
    last, previous = _files(folder)
    fresh = folder / "fresh.pt"
    with atomic_write(fresh) as file:
        file.write(_MAGIC + hashlib.sha256(payload).digest())
        file.write(payload)
    if last.exists():
        os.replace(last, previous)
    os.replace(fresh, last)


def load(
    folder: Path, warn: Callable[[str], None], *, set_aside: bool = False
) -> dict[str, Any] | None:
    """The newest checkpoint that is whole, on the CPU; None where there is none at all.

    A damaged one is reported through `warn` and passed over; if all are damaged, that is an error,
    since starting afresh would throw away the run. Who goes on to `save` asks to `set_aside`
    damaged files, so that they never take the place of a good one.
    """
    damaged: list[tuple[Path, str]] = []
    for path in _files(folder):
        if not path.exists():
            continue
        try:
            state = _read(path)
            for bad, _ in damaged if set_aside else []:
                os.replace(bad, bad.with_suffix(".damaged"))
            return state
        except SkinnyError as error:
            damaged.append((path, str(error)))
            warn(f"{error}; looking for the checkpoint before it")
    if damaged:
        raise SkinnyError(
            f"no checkpoint in {folder} is whole ({'; '.join(text for _, text in damaged)}); "
            "remove the run folder to start afresh"
        )
    return None


def _files(folder: Path) -> tuple[Path, Path]:
    return folder / "last.pt", folder / "previous.pt"


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
