"""The tables at the end of a run."""

from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from skinny.printable import printable
from skinny.training import RunFolder


def show(folders: Sequence[RunFolder], console: Console) -> None:
    """One row per run, then where the last one's weights were kept and where its files are."""
    results = [_result(folder) for folder in folders]
    weights = results[-1]["weights"].values()
    table = Table(
        "method",
        title=f"Outcome: network of {sum(w['size'] for w in weights):,} weights",
        title_justify="left",
    )
    for column in ("test accuracy", "test error", "weights kept", "size on disk"):
        table.add_column(column, justify="right")
    for folder, result in zip(folders, results, strict=True):
        config = folder.config()
        table.add_row(
            config.method + (f" {config.sparsity:.0%}" if config.method != "dense" else ""),
            f"{result['test_accuracy']:.2%}",
            f"{1 - result['test_accuracy']:.2%}",
            weights_kept(result),
            size_on_disk(result),
        )
    console.print(table)
    layers = Table(
        "layer",
        title=f"Weights of {escape(printable(folders[-1].path.name))}",
        title_justify="left",
    )
    for column in ("weights", "kept", "share"):
        layers.add_column(column, justify="right")
    for name, weight in results[-1]["weights"].items():
        layers.add_row(
            escape(printable(name.removesuffix(".weight"))),
            f"{weight['size']:,}",
            f"{weight['kept']:,}",
            f"{weight['kept'] / weight['size']:.1%}",
        )
    console.print(layers)
    for folder in folders:
        where = f"{printable(folder.path)}: everything about it, figures in figures/"
        console.print(where, soft_wrap=True, markup=False)


def weights_kept(result: dict[str, Any]) -> str:
    kept = sum(weight["kept"] for weight in result["weights"].values())
    size = sum(weight["size"] for weight in result["weights"].values())
    return f"{kept:,}, {kept / size:.0%}"


def size_on_disk(result: dict[str, Any]) -> str:
    """The packed size, and how many times smaller that is than the same network stored dense."""
    packed, dense = result["bytes"]["packed"], result["bytes"]["dense"]
    size = f"{packed / 1000:,.0f} kB"
    return f"{size}, {dense / packed:.1f}x" if f"{dense / packed:.1f}" != "1.0" else size


def _result(folder: RunFolder) -> dict[str, Any]:
    result = folder.result()
    assert result is not None  # shown when training is over
    return result
