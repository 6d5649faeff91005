"""Tables as data, and the same table as Markdown and LaTeX; the page has its own template."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from skinny.printable import printable


class Cell(NamedTuple):
    """What is read, what is sorted by, and how it is set."""

    text: str
    value: float | str | None = None  # None: sorted as the text
    kind: str = ""  # "number", or the verdict a chip shows
    shade: float | None = None  # 0 to 1: how strongly the cell is tinted

    @property
    def key(self) -> str:
        return self.text if self.value is None else str(self.value)


@dataclass(frozen=True)
class Table:
    """A rectangle of cells with a heading each column."""

    name: str  # of its files
    caption: str
    head: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]

    def __post_init__(self) -> None:
        assert all(len(row) == len(self.head) for row in self.rows), self.name


def number(value: float, digits: int = 2, *, sign: bool = False) -> Cell:
    """NaN is a dash."""
    if value != value:
        return Cell("–", float("inf"), "number")
    return Cell(f"{value:{'+' if sign else ''}.{digits}f}".replace("-", "−"), value, "number")


def p_value(p: float) -> Cell:
    if p != p:
        return Cell("–", float("inf"), "number")
    return Cell("< 0.001" if p < 0.001 else f"{p:.3f}", p, "number")


def markdown(table: Table) -> str:
    """GitHub's tables, numbers to the right."""
    numbers = [
        bool(table.rows) and all(row[i].kind == "number" for row in table.rows)
        for i in range(len(table.head))
    ]
    lines = [
        _line([escape_markdown(text) for text in table.head]),
        _line(["---:" if right else "---" for right in numbers]),
        *(_line([escape_markdown(cell.text) for cell in row]) for row in table.rows),
    ]
    return f"{escape_markdown(table.caption)}\n\n" + "\n".join(lines) + "\n"


def latex(table: Table) -> str:
    """A tabular with booktabs' rules, to be put in a table environment by its reader."""
    columns = "".join(
        "r" if table.rows and all(row[i].kind == "number" for row in table.rows) else "l"
        for i in range(len(table.head))
    )
    rows = [table.head, *([cell.text for cell in row] for row in table.rows)]
    head, *body = (" & ".join(map(_escape_latex, row)) + r" \\" for row in rows)
    return "\n".join(
        [
            f"% {' '.join(table.caption.split())}",
            rf"\begin{{tabular}}{{{columns}}}",
            r"\toprule",
            head,
            r"\midrule",
            *body,
            r"\bottomrule",
            r"\end{tabular}",
            "",
        ]
    )


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


_MARKDOWN = {c: f"\\{c}" for c in "\\`*_{}[]<>|#"}
_LATEX = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "−": "$-$",
    "±": r"$\pm$",
    "–": "--",
    "<": "$<$",
    ">": "$>$",
    "Δ": r"$\Delta$",
    "×": r"$\times$",
    **{c: f"\\{c}" for c in "&%$#_{}"},
}


def escape_markdown(text: str) -> str:
    return "".join(_MARKDOWN.get(c, c) for c in printable(" ".join(text.split())))


def _escape_latex(text: str) -> str:
    return "".join(_LATEX.get(c, c) for c in printable(" ".join(text.split())))
