"""What the README says of the results: the picture, the sentences, and one table, wins and losses.

It stands between two comments in README.md, so that its numbers are those of docs/results.md.
"""

from collections.abc import Iterable

import files_table

from skinny.experiments.comparison import compare
from skinny.experiments.study import Result, Study

BEGIN = "<!-- made by results/write.py from the records: begin -->"
END = "<!-- end -->"
_WITHIN = ("equivalent", "no worse")  # by points of accuracy


def block(picture: str, words: str, rows: Iterable[str]) -> str:
    table = "\n".join(
        [
            "| network, data | pruned by | weights left | error, % | dense, % | n | kB (dense) | "
            "against dense |",
            "| --- | --- | ---: | ---: | ---: | ---: | ---: | --- |",
            *rows,
        ]
    )
    return (
        f"{BEGIN}\n\n{picture}\n\n{words}\n\nWhat the method gives, and where it loses; "
        "SDNN-12x keeps a twelfth of the weights by iterative hard thresholding "
        "([docs/results.md](docs/results.md) has published results beside ours, the intervals, "
        "the settings and the rest):\n\n"
        f"{table}\n\n{END}"
    )


def rows(
    name: str, study: Study, labels: Iterable[str], margin: float, files: files_table.Files
) -> list[str]:
    """Rows of the arms so labelled that have been trained. margin: points that count as equal."""
    compared = {row.arm.label: row for row in compare(study, margin)}
    made = []
    for label in labels:
        row = compared.get(label)
        if row is None or row.error is None or row.against is None or not row.against.runs:
            continue
        sizes = [files_table.kilobytes(arm, files) for arm in (row.arm, row.against)]
        cells = [
            name,
            label,
            _left(row.arm),
            f"{row.error.mean:.2f}",
            f"{files_table.error(row.against):.2f}",
            str(len(row.arm.runs)),
            f"{sizes[0]:,.0f} ({sizes[1]:,.0f})",
            f"{row.verdict} (±{margin:g})" if row.verdict in _WITHIN else row.verdict,
        ]
        made.append(f"| {' | '.join(cells)} |")
    return made


def replaced(text: str, made: str) -> str:
    """The README with the block in it anew."""
    before, rest = text.split(BEGIN)
    return before + made + rest.split(END, 1)[1]


def _left(arm: Result) -> str:
    run = arm.runs[0]
    return f"{run.kept:,} of {run.size:,}"
