"""Text on its way to a terminal: tables, and names that come from elsewhere."""

from collections.abc import Sequence


def printable(text: object) -> str:
    """`str(text)` with all that is not a visible character escaped as in Python (`\\x1b`).

    A terminal obeys control characters: it can be made to recolour, erase or rewrite what it shows.
    """
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode()
        for character in str(text)
    )


def aligned(rows: Sequence[Sequence[str]], words: int) -> list[str]:
    """A table as lines: the first `words` columns stand left, the others are numbers, right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            cell.ljust(width) if i < words else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
