"""The table that `print(iht)` shows: what is thresholded, and what its budget is."""

from collections.abc import Mapping

from skinny.iht.layers import Selection
from skinny.iht.patterns import Structured
from skinny.printable import aligned, printable

_CALLED = {"embedding": "embedding", "adapter": "LoRA adapter", "frozen": "frozen", "other": ""}
_SHOWN = 8  # of the tensors left dense


def table(
    selection: Selection,
    kept: Mapping[str, int] | None,
    title: str,
    structured: Mapping[str, Structured] | None = None,
) -> str:
    """A row per layer with `kept` of its weights; None where the budget is not known before the
    first mask update. Layers that cannot have the pattern of the others follow, and what is left
    dense, largest first."""
    rows = [("layer", "shape", "weights", "kept", "sparsity")]
    for name, weight in selection.weights.items():
        shape = " x ".join(map(str, weight.shape))
        count = None if kept is None else kept[name]
        rows.append((printable(name), shape, *_numbers(weight.numel(), count)))
    size = sum(weight.numel() for weight in selection.weights.values())
    total = _numbers(size, None if kept is None else sum(kept.values()))
    rows.append((f"total of {len(selection.weights)}", "", *total))
    lines = [
        f"{title}: {selection.covered:.1%} of the model's {selection.parameters:,} parameters",
        *aligned(rows, words=2),
    ]
    lines += [
        f"unstructured: {printable(name)}, whose input channels do not divide"
        for name in selection.weights
        if structured and name not in structured
    ]
    by_size = sorted(selection.left, key=lambda left: -left.parameter.numel())
    for left in by_size[:_SHOWN]:
        why = f" ({_CALLED[left.kind]})" if _CALLED[left.kind] else ""
        lines.append(f"left dense: {printable(left.name)}{why}, {left.parameter.numel():,}")
    if len(by_size) > _SHOWN:
        lines.append(f"left dense: {len(by_size) - _SHOWN} smaller tensors")
    return "\n".join(lines)


def _numbers(size: int, kept: int | None) -> tuple[str, str, str]:
    if kept is None:
        return f"{size:,}", "-", "-"
    return f"{size:,}", f"{kept:,}", f"{1 - kept / size:.1%}"
