"""The tables at the end of a run."""

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from skinny.training import RunFolder


def show(folders: Sequence[RunFolder], console: Console) -> None:
    """One row per run, then where the last one's weights were kept and where its files are."""
    table = Table("method", title="Outcome", title_justify="left")
    for column in ("test accuracy", "test error", "weights kept", "size on disk"):
        table.add_column(column, justify="right")
    for folder in folders:
        config, result = folder.config(), folder.result()
        assert result is not None  # shown when training is over
        table.add_row(
            config.method + (f" {config.sparsity:.0%}" if config.method != "dense" else ""),
            f"{result['test_accuracy']:.2%}",
            f"{1 - result['test_accuracy']:.2%}",
            _kept(sum(w["kept"] for w in result["weights"].values()),
                  sum(w["size"] for w in result["weights"].values())),
            size_on_disk(folder),
        )  # fmt: skip
    console.print(table)
    last = folders[-1].result()
    assert last is not None
    layers = Table("layer", title=f"Weights of {folders[-1].path.name}", title_justify="left")
    for column in ("weights", "kept", "share"):
        layers.add_column(column, justify="right")
    for name, weight in last["weights"].items():
        layers.add_row(
            name.removesuffix(".weight"),
            f"{weight['size']:,}",
            f"{weight['kept']:,}",
            f"{weight['kept'] / weight['size']:.1%}",
        )
    console.print(layers)
    for folder in folders:
        console.print(f"{folder.path}: everything about it, figures in figures/", soft_wrap=True)


def size_on_disk(folder: RunFolder) -> str:
    result = folder.result()
    assert result is not None
    dense = 4 * result["parameters"]
    return f"{dense / 1000:,.0f} kB"


def _kept(kept: int, size: int) -> str:
    return f"{kept:,} of {size:,} ({kept / size:.1%})"
