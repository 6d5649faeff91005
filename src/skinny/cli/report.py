"""`skinny report`: runs compared, on a page that opens offline."""

from dataclasses import dataclass
from pathlib import Path

import tyro

from skinny.cli.command_line import parse
from skinny.experiments.records import read_records
from skinny.experiments.report import write_report
from skinny.experiments.runs import find_runs
from skinny.experiments.study import from_runs


@dataclass(frozen=True)
class Report:
    """Compare finished runs: one HTML page, figures as SVG and PNG, tables as Markdown and LaTeX.

    Runs that differ in nothing but the seed are one arm; dense training of the same network with
    the same settings is what each arm is compared with.

    Example: skinny report runs --out report
    """

    runs: tyro.conf.Positional[tuple[Path, ...]]
    """Run folders, folders of run folders, or files that skinny record made."""
    out: Path = Path("report")
    """Where the page, the figures and the tables go."""
    margin: float = 1.0
    """Points of accuracy within which two methods count as equivalent."""


def main(argv: list[str]) -> int:
    return run(parse(Report, argv, "skinny report"))


def run(arguments: Report) -> int:
    paths = arguments.runs or (Path("runs"),)
    finished, unfinished = find_runs(path for path in paths if not path.is_file())
    for path in filter(Path.is_file, paths):
        finished += [record.run for record in read_records(path).values() if record.run]
    page = write_report(
        from_runs(finished), arguments.out, margin=arguments.margin, unfinished=len(unfinished)
    )
    print(f"the report is {page}")
    return 0
