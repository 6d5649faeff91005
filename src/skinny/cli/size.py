"""`skinny size`: how small a packed file is, and beside what."""

import dataclasses
import json
from dataclasses import dataclass
from pathlib import Path

import tyro
from rich import box
from rich.console import Console
from rich.table import Table

from skinny import packing
from skinny.cli.command_line import parse
from skinny.packing import Size, SizeReport


@dataclass(frozen=True)
class Arguments:
    """Show per layer and in total what a packed file takes, and what others make of it.

    bound: the least that values and randomly placed positions can take. gzip, xz: what these make
    of the same tensors, dense. ratio: dense to packed.

    Example: skinny size runs/demo-1a2b3c4d/model.skinny
    """

    file: tyro.conf.Positional[Path]
    """The packed file."""
    compare: bool = True
    """Run gzip and xz for comparison; takes minutes for large networks."""
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
        rows = {"file": str(path), **dataclasses.asdict(report)}
        print(json.dumps(rows | {"ratio": report.total.ratio}))
        return
    compared = report.total.gzip is not None
    lossy = report.total.error > 0
    columns = ["weights", "kept", "dense", "packed", "bound"]
    columns += ["gzip", "xz"] if compared else []
    table = Table(title=str(path), title_justify="left", show_footer=True, box=box.SIMPLE)
    table.add_column("tensor", "total")
    table.add_column("form", "")
    for column in columns:
        table.add_column(column, _cell(report.total, column), justify="right")
    table.add_column("ratio", f"{report.total.ratio:.2f}x", justify="right")
    if lossy:
        table.add_column("error", f"{report.total.error:.2g}", justify="right")
    for tensor in report.tensors:
        form = tensor.form if tensor.values == "exact" else f"{tensor.form} {tensor.values}"
        cells = [tensor.name, form, *(_cell(tensor, column) for column in columns)]
        table.add_row(*cells, f"{tensor.ratio:.2f}x", *([f"{tensor.error:.2g}"] if lossy else []))
    console = Console()
    console.width = max(console.width, 120)  # a line too long is better than a number cut off
    console.print(table)
    console.print(
        f"the file: {report.total.packed:,} bytes, of them {report.overhead:,} header, graph and "
        f"labels; dense {report.total.dense:,} bytes, {report.total.ratio:.2f} times as much",
        highlight=False,
    )


def _cell(row: Size, column: str) -> str:
    value = getattr(row, column)
    if value is None:
        return ""
    return f"{value:,}" if column in ("weights", "kept") else _bytes(value)


def _bytes(count: int) -> str:
    """Three or four digits and a unit of a thousand, as file managers have it."""
    size = float(count)
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000 or unit == "GB":
            break
        size /= 1000
    return f"{count} B" if unit == "B" else f"{size:.{1 if size >= 100 else 2}f} {unit}"
