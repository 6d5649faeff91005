"""Writes docs/results.md from the records of the runs in this folder.

    python results/write.py

Trains nothing and needs no data. What was run, and how, is in commands.sh; the paragraphs at the
head of the page, which say what it all comes to, are in summary.md.
"""

import shutil
import tempfile
from pathlib import Path

from skinny.experiments import catalog
from skinny.experiments.report import write_report
from skinny.experiments.runs import find_runs
from skinny.experiments.study import Study, from_experiment, from_runs

HERE = Path(__file__).parent
DOCS = HERE.parent / "docs"
EXPERIMENTS = ("baselines", "progressive", "random", "reinit")
DATA = {"mnist": (0, 1, 2, 3, 4), "cifar10": (0, 1, 2)}  # with their seeds
MARGIN = 1.0  # points of accuracy within which two arms count as equivalent


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder)
        write_report(studies(), out, margin=MARGIN)
        shutil.rmtree(DOCS / "figures", ignore_errors=True)
        (DOCS / "figures").mkdir()
        report = (out / "report.md").read_text(encoding="utf-8")
        page = f"# Results\n\n{summary()}\n\n" + report[report.index("\n## ") + 1 :]
        for figure in (out / "figures").glob("*.svg"):
            if f"figures/{figure.name}" in page:
                shutil.copy(figure, DOCS / "figures")
        (DOCS / "results.md").write_text(page, encoding="utf-8")


def studies() -> list[Study]:
    made = []
    for data, seeds in DATA.items():
        for name in EXPERIMENTS:
            experiment = catalog.experiment(name, data, "small")
            made += from_experiment(experiment, seeds, HERE / "runs")
    searched, _ = find_runs([HERE / "search"])
    return made + from_runs(searched)


def summary() -> str:
    """The words of summary.md, with the commands behind them."""
    commands = (HERE / "commands.sh").read_text(encoding="utf-8")
    words = (HERE / "summary.md").read_text(encoding="utf-8")
    return f"{words.strip()}\n\n## What was run\n\n```sh\n{commands.strip()}\n```"


if __name__ == "__main__":
    main()
