"""`skinny data`: what data there is, whether it is sound, and getting it."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import tyro
from rich.console import Console
from rich.table import Column, Table

from skinny.cli import downloads
from skinny.cli.command_line import parse
from skinny.printable import printable


@dataclass(frozen=True)
class Data:
    """List the data sets that are there, verify their checksums, or fetch them.

    Example: skinny data fetch mnist cifar10
    """

    action: tyro.conf.Positional[Literal["list", "verify", "fetch"]] = "list"
    """list: where each data set is, and in which form. verify: compare checksums with the published
    ones (exit code 1 if any differs). fetch: download what is missing, checksums verified."""

    names: tyro.conf.Positional[tuple[str, ...]] = ()
    """mnist, fashion-mnist, cifar10, cifar100. `verify` without a name takes all that are there."""

    data_dir: Path | None = None
    """Folder to search first and to download to. Then come $SKINNY_DATA and the user's cache."""

    mirror: str | None = None
    """Address of a folder to fetch from instead of the official one. Checksums must match."""

    json: bool = False
    """Print JSON instead of a table."""


def main(argv: list[str]) -> int:
    return run(parse(Data, argv, "skinny data"))


def run(arguments: Data) -> int:
    """Do it; the exit code."""
    match arguments.action:
        case "list":
            return _list(arguments)
        case "verify":
            return _verify(arguments)
        case "fetch":
            return _fetch(arguments)


# The imports below are where they are because `skinny.data` loads torch, and `--help` must not.


def _list(arguments: Data) -> int:
    from skinny.data.inventory import list_data
    from skinny.data.locate import search_path

    listings = list_data(arguments.data_dir)
    if arguments.json:
        _print_json([listing.to_json() for listing in listings])
        return 0
    table = _table("data set", "state", "form", "where")
    for listing in listings:
        if listing.folder is None:
            state = "not found"
        elif listing.complete:
            state = "complete"
        else:
            state = f"incomplete: {', '.join(listing.missing)} missing"
        table.add_row(listing.name, state, listing.form, printable(listing.folder or ""))
    _print(table)
    print("searched:", ", ".join(map(printable, search_path(arguments.data_dir))))
    return 0


def _verify(arguments: Data) -> int:
    from skinny.data.inventory import verify

    checks = verify(arguments.names, arguments.data_dir)
    if arguments.json:
        _print_json([check.to_json() for check in checks])
    else:
        table = _table("data set", "file", "checksum")
        for check in checks:
            verdict = {
                "ok": "as published",
                "different": f"MD5 {check.md5} is not the published {check.published}",
                "unknown": "none is published",
            }[check.verdict]
            table.add_row(check.name, printable(check.path), verdict)
        _print(table)
    return int(any(check.verdict == "different" for check in checks))


def _fetch(arguments: Data) -> int:
    from skinny.data.errors import DataError
    from skinny.data.fetch import fetch
    from skinny.data.inventory import official
    from skinny.data.locate import search_path

    if not arguments.names:
        raise DataError("say what to fetch, for example: skinny data fetch mnist")
    root = search_path(arguments.data_dir)[0]
    with downloads.shown():
        fetched = {
            entry.name: [str(path) for path in fetch(entry, root, mirror=arguments.mirror)]
            for entry in official(arguments.names)
        }
    if arguments.json:
        _print_json(fetched)
    else:
        for paths in fetched.values():
            print(*map(printable, paths), sep="\n")
    return 0


def _table(*headings: str) -> Table:
    # Folded and never cut short: the end of a path is the part that matters.
    return Table(*(Column(heading, overflow="fold") for heading in headings))


def _print(table: Table) -> None:
    console = Console()
    if not console.is_terminal:  # one line a row, for grep
        console = Console(width=1000)
        table.box = None
    console.print(table, markup=False)


def _print_json(value: Any) -> None:
    print(json.dumps(value, indent=2))
