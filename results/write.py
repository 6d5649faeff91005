"""Writes docs/results.md from the records of the runs in this folder.

    python results/write.py

Trains nothing and needs no data. What was run, and how, is in commands.sh; the paragraphs at the
head of the page, which say what it all comes to, are in summary.md.
"""

import shutil
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from skinny.experiments import catalog, tuning
from skinny.experiments.report import write_report
from skinny.experiments.runs import find_runs, read_run
from skinny.experiments.study import Study, from_experiment, from_runs

HERE = Path(__file__).parent
DOCS = HERE.parent / "docs"
ANALYSES = ("figure1", "figure2", "progressive", "random", "reinit", "baselines")


class Set(NamedTuple):
    """A data set's seeds, the points of accuracy within which two arms count as equivalent, and
    its experiments."""

    seeds: tuple[int, ...]
    margin: float
    experiments: tuple[str, ...]


SETS = {
    "mnist": Set((0, 1, 2, 3, 4), 0.5, ("table3", *ANALYSES)),
    "cifar10": Set((0, 1, 2), 1.5, ("table1", *ANALYSES, "tuned")),
}


def main(docs: Path = DOCS) -> None:
    shutil.rmtree(docs / "figures", ignore_errors=True)
    pages = [f"# Results\n\n{summary()}\n"]
    for data, (_, margin, _) in SETS.items():
        with tempfile.TemporaryDirectory() as folder:
            out = Path(folder)
            write_report(studies(data), out, margin=margin)
            report = (out / "report.md").read_text(encoding="utf-8")
            used = [path for path in (out / "figures").glob("*.svg") if path.name in report]
            (docs / "figures" / data).mkdir(parents=True)
            for figure in used:
                shutil.copy(figure, docs / "figures" / data)
        pages.append(report[report.index("\n## ") + 1 :].replace("(figures/", f"(figures/{data}/"))
    (docs / "results.md").write_text("\n".join(pages), encoding="utf-8")


def studies(data: str) -> list[Study]:
    """The experiments on a data set, the trials of the tuned one, and the search that led to the
    settings of all."""
    made = []
    for name in SETS[data].experiments:
        experiment = catalog.experiment(name, data, "small")
        made += from_experiment(experiment, SETS[data].seeds, HERE / "runs")
    return made + trials(data) + search(data)


def trials(data: str) -> list[Study]:
    if "tuned" not in SETS[data].experiments:
        return []
    (panel,) = catalog.experiment("tuned", data, "small").panels
    tried = [read_run(HERE / "runs" / t.run_name) for arm in panel.arms for t in tuning.trials(arm)]
    made = from_runs(run for run in tried if run is not None)
    return [replace(study, title=f"Trials of the tuned methods: {study.title}") for study in made]


def search(data: str) -> list[Study]:
    searched, _ = find_runs([HERE / "search"])
    made = from_runs(run for run in searched if run.config.data == data)
    return [replace(study, title=f"Search: {study.title}") for study in made]


def summary() -> str:
    """The words of summary.md, with the commands behind them."""
    commands = (HERE / "commands.sh").read_text(encoding="utf-8")
    words = (HERE / "summary.md").read_text(encoding="utf-8")
    return f"{words.strip()}\n\n## What was run\n\n```sh\n{commands.strip()}\n```"


if __name__ == "__main__":
    main()
