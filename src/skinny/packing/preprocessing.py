"""What happens to an image before the first layer, as a record in the file.

    x = (image * scale - mean) / std      per channel, after resize and crop

`resize` is the length the shorter side is scaled to, `crop` the side of the centre square (or
[height, width]) cut out; None leaves the image as it is.
"""

from collections.abc import Mapping
from typing import Any

from skinny.packing.errors import FormatError, ManifestError
from skinny.packing.header import is_number

DEFAULTS: dict[str, Any] = {
    "input": "uint8",
    "layout": "NCHW",
    "scale": 1 / 255,
    "resize": None,
    "crop": None,
}
FIELDS = {*DEFAULTS, "mean", "std"}
_LARGEST_SIDE = 1 << 14


def complete(record: dict[str, Any]) -> dict[str, Any]:
    """The record with defaults filled in; `mean` and `std` have none."""
    return {**DEFAULTS, **record}


def check(record: object, error: type[FormatError] = ManifestError) -> dict[str, Any]:
    """The record, if every field is there and sensible; else an `error` names one that is not."""
    if not isinstance(record, dict):
        raise error("preprocessing must be a table of fields")
    if unknown := [field for field in record if field not in FIELDS]:
        known = ", ".join(sorted(FIELDS))
        raise error(f"preprocessing has the unknown field {unknown[0]!r:.80}; it may have {known}")
    if missing := sorted(FIELDS - set(record)):
        raise error(f"preprocessing lacks {missing[0]}")
    mean, std = record["mean"], record["std"]
    rules = {
        "input": record["input"] in ("uint8", "float32"),
        "layout": record["layout"] in ("NCHW", "NHWC"),
        "scale": is_number(record["scale"]),
        "mean": isinstance(mean, list) and 0 < len(mean) <= 4096 and all(map(is_number, mean)),
        "std": isinstance(std, list)
        and isinstance(mean, list)
        and len(std) == len(mean)
        and all(is_number(s) and s > 0 for s in std),
        "resize": record["resize"] is None or _side(record["resize"]),
        "crop": record["crop"] is None
        or _side(record["crop"])
        or (
            isinstance(record["crop"], list)
            and len(record["crop"]) == 2
            and all(map(_side, record["crop"]))
        ),
    }
    for field, holds in rules.items():
        if not holds:
            raise error(f"preprocessing has an impossible {field}: {record[field]!r:.80}")
    return record


def check_channels(
    record: Mapping[str, Any], graph: Mapping[str, Any], error: type[FormatError] = ManifestError
) -> None:
    """Raises `error` unless there is a mean for every channel of the graph's first input."""
    inputs = graph["inputs"]
    shape = inputs[0].get("shape") if inputs and isinstance(inputs[0], dict) else None
    channels = shape[1] if isinstance(shape, list) and len(shape) > 1 else None
    if isinstance(channels, int) and len(record["mean"]) != channels:
        raise error(
            f"preprocessing has a mean of {len(record['mean'])} channels, "
            f"but the graph's input has {channels}"
        )


def _side(number: object) -> bool:
    return type(number) is int and 1 <= number <= _LARGEST_SIDE
