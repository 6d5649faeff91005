"""`skinny size`: how small a packed file is, and beside what."""

import dataclasses
import json
from dataclasses import dataclass
from pathlib import Path

import tyro

from skinny import packing
from skinny.cli.command_line import parse
from skinny.packing import Size, SizeReport
from skinny.printable import aligned, printable


@dataclass(frozen=True)
class Arguments:
    """Show per layer and in total what a packed file takes, beside gzip and xz.

    bound: what randomly placed positions and uncoded values take at least; a code for the values
    takes less. gzip, xz: what these make of the same tensors, dense. ratio: dense to packed.

    Example: skinny size runs/demo-1a2b3c4d/model.skinny
    """

    file: tyro.conf.Positional[Path]
    """The packed file."""
    compare: bool = True
    """Whether gzip and xz are run for comparison, which takes minutes for large networks."""
    json: bool = False
    """Print JSON, sizes in bytes."""


def main(argv: list[str]) -> int:
    return run(parse(Arguments, argv, "skinny size"))


def run(arguments: Arguments) -> int:
    report = packing.size(arguments.file, compare=arguments.compare)
    show(arguments.file, report, as_json=arguments.json)
    return 0


def show(path: Path, report: SizeReport, *, as_json: bool) -> None:
    if as_json:
        record = {"file": str(path), **dataclasses.asdict(report)}
        print(json.dumps(record | {"ratio": report.total.ratio}))
        return
    compared = report.total.gzip is not None
    lossy = report.total.error > 0
    columns = ["weights", "kept", "dense", "packed", "bound"]
    columns += ["gzip", "xz"] if compared else []
    columns += ["ratio", "error"] if lossy else ["ratio"]
    rows = [["tensor", "form", *columns]]
    for tensor in report.tensors:
        form = tensor.form if tensor.values == "exact" else f"{tensor.form} {tensor.values}"
        rows.append([printable(tensor.name), form, *(_cell(tensor, column) for column in columns)])
    rows.append(["total", "", *(_cell(report.total, column) for column in columns)])
    lines = aligned(rows, words=2)
    rule = "-" * len(lines[0])
    print(printable(path), lines[0], rule, *lines[1:-1], rule, lines[-1], sep="\n")
    print(
        f"\nthe file: {report.total.packed:,} bytes, of them {report.overhead:,} header, graph and "
        f"labels; dense {report.total.dense:,} bytes, {report.total.ratio:.2f} times as much"
    )


def _cell(row: Size, column: str) -> str:
    value = getattr(row, column)
    if value is None:
        return ""
    if column in ("ratio", "error"):
        return f"{value:.2f}x" if column == "ratio" else f"{value:.2g}"
    return f"{value:,}" if column in ("weights", "kept") else _bytes(value)


def _bytes(count: int) -> str:
    """Three or four digits and a unit of a thousand, as file managers have it."""
    size = float(count)
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000 or unit == "GB":
            break
        size /= 1000
    return f"{count} B" if unit == "B" else f"{size:.{1 if size >= 100 else 2}f} {unit}"
