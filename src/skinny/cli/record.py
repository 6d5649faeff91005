"""`skinny record`: finished runs as lines of one file, to keep and to share."""

from dataclasses import dataclass
from pathlib import Path

import tyro

from skinny.cli.command_line import UsageError, parse
from skinny.experiments.records import record_runs
from skinny.experiments.runs import run_folders


@dataclass(frozen=True)
class Record:
    """Add finished runs to a file: a line of JSON each, with config, result and metrics.

    A run that the file has is not added again. The file is what skinny report compares, and what
    skinny sweep and skinny reproduce find runs in with --records. It holds no weights.

    Example: skinny record runs --into results.jsonl
    """

    runs: tyro.conf.Positional[tuple[Path, ...]]
    """Run folders, or folders of run folders."""
    into: Path
    """The file; it is made if there is none."""


def main(argv: list[str]) -> int:
    return run(parse(Record, argv, "skinny record"))


def run(arguments: Record) -> int:
    if not arguments.runs:
        raise UsageError("say which runs: skinny record RUNS... --into FILE")
    folders = list(dict.fromkeys(one for path in arguments.runs for one in run_folders(path)))
    added, unfinished = record_runs(folders, arguments.into)
    known = len(folders) - added - len(unfinished)
    print(f"{arguments.into}: {added} runs added, {known} known, {len(unfinished)} not finished")
    return 0
