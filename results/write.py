"""Writes docs/results.md from the records of the runs in this folder.

    python results/write.py

Trains nothing and needs no data. What was run, and how, is in commands.sh; the paragraphs at the
head of the page, which say what it all comes to, are in summary.md.
"""

import shutil
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from skinny.experiments import catalog, tuning
from skinny.experiments.records import read_records
from skinny.experiments.report import make_pages, markdown
from skinny.experiments.report.drawing import Drawing
from skinny.experiments.store import Store
from skinny.experiments.study import Study, from_experiment, from_runs

HERE = Path(__file__).parent
DOCS = HERE.parent / "docs"
RECORDS = HERE / "records"
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
    page, figures = make()
    shutil.rmtree(docs / "figures", ignore_errors=True)
    for name, drawing in figures.items():
        path = docs / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(drawing.svg, encoding="utf-8")
    (docs / "results.md").write_text(page, encoding="utf-8")


def make() -> tuple[str, dict[str, Drawing]]:
    """The page, and {path below docs: figure} of those that it shows, not drawn yet."""
    texts = [f"# Results\n\n{summary()}\n"]
    figures = {}
    for data, (_, margin, _) in SETS.items():
        pages = make_pages(studies(data), margin=margin)
        text = pages.markdown()
        texts.append(text[text.index("\n## ") + 1 :].replace("(figures/", f"(figures/{data}/"))
        for section in pages.sections:
            for drawing in markdown.figures(section):
                figures[f"figures/{data}/{drawing.name}.svg"] = drawing
    return "\n".join(texts), figures


def studies(data: str) -> list[Study]:
    """The experiments on a data set, the trials of the tuned one, and the search that led to the
    settings of all."""
    store = Store.open(RECORDS, [RECORDS / f"{data}-small.jsonl"])
    made = []
    for name in SETS[data].experiments:
        experiment = catalog.experiment(name, data, "small")
        made += from_experiment(experiment, SETS[data].seeds, store)
    return made + trials(data, store) + search(data)


def trials(data: str, store: Store) -> list[Study]:
    if "tuned" not in SETS[data].experiments:
        return []
    (panel,) = catalog.experiment("tuned", data, "small").panels
    tried = [store.run(trial) for arm in panel.arms for trial in tuning.trials(arm)]
    made = from_runs(run for run in tried if run is not None)
    return [replace(study, title=f"Trials of the tuned methods: {study.title}") for study in made]


def search(data: str) -> list[Study]:
    searched = read_records(RECORDS / f"{data}-search.jsonl").values()
    made = from_runs(record.run for record in searched if record.run is not None)
    return [replace(study, title=f"Search: {study.title}") for study in made]


def summary() -> str:
    """The words of summary.md, with the commands behind them."""
    commands = (HERE / "commands.sh").read_text(encoding="utf-8")
    words = (HERE / "summary.md").read_text(encoding="utf-8")
    return f"{words.strip()}\n\n## What was run\n\n```sh\n{commands.strip()}\n```"


if __name__ == "__main__":
    main()
