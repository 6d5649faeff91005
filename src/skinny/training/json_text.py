"""JSON that anybody may have written or damaged: what it costs to read is bounded."""

import json
from pathlib import Path
from typing import Any

LARGEST = 1 << 28  # bytes of one file or line; a run of a million mask updates has fewer


def parse(text: str | bytes) -> Any:
    """The value, or a ValueError: also for nesting that Python's parser does not follow."""
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def read_bytes(path: Path) -> bytes:
    """The file's contents, or a ValueError if it is larger than any that we write."""
    with path.open("rb") as file:
        contents = file.read(LARGEST + 1)
    if len(contents) > LARGEST:
        raise ValueError(f"it has more than {LARGEST >> 20} MB")
    return contents
