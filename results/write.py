"""Writes docs/results.md from the records of the runs in this folder.

    python results/write.py

Trains nothing and needs no data. What was run, and how, is in commands.sh and lenet.sh. The picture
and the sentences at the head of the page are in opening.py, what the small studies come to is in
summary.md.
"""

import shutil
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import opening

from skinny.experiments import catalog, tuning
from skinny.experiments.records import read_records
from skinny.experiments.report import make_pages, markdown
from skinny.experiments.report.drawing import Drawing
from skinny.experiments.reproduce import first_configs
from skinny.experiments.runs import Run
from skinny.experiments.store import Store
from skinny.experiments.study import Study, from_experiment, from_runs
from skinny.training import config as configs

HERE = Path(__file__).parent
DOCS = HERE.parent / "docs"
RECORDS = HERE / "records"
ANALYSES = ("figure1", "figure2", "progressive", "random", "reinit", "baselines")
LENET = catalog.experiment("lenet", "mnist", "paper")


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
    figures: dict[str, Drawing] = {}
    small = {data: studies(data) for data in SETS}
    lenets = lenet_studies()
    head = beginning(small, lenets, figures)
    texts = [f"# Results\n\n{head}\n", f"## LeNets on all of MNIST\n\n{lenet_status()}\n"]
    texts.append(section_texts("lenet", lenets, 0.2, figures))
    texts.append(f"## Narrow networks, few images\n\n{summary()}\n")
    for data, (_, margin, _) in SETS.items():
        texts.append(section_texts(data, small[data], margin, figures))
    return "\n".join(texts), figures


def section_texts(
    name: str, studies: list[Study], margin: float, figures: dict[str, Drawing]
) -> str:
    """The studies as Markdown; their figures are added to `figures`."""
    pages = make_pages(studies, margin=margin)
    text = pages.markdown()
    for section in pages.sections:
        for drawing in markdown.figures(section):
            figures[f"figures/{name}/{drawing.name}.svg"] = drawing
    return text[text.index("\n## ") + 1 :].replace("(figures/", f"(figures/{name}/")


def beginning(
    small: dict[str, list[Study]], lenets: list[Study], figures: dict[str, Drawing]
) -> str:
    """The picture and the sentences that a newcomer reads first."""
    lines = {
        "NIN on 1,000 images of MNIST": opening.study_of(small["mnist"], "Figure 1"),
        "NIN on 1,000 images of CIFAR-10": opening.study_of(small["cifar10"], "Figure 1"),
    }
    drawing = opening.picture(lines | opening.lenet_line(lenets))
    figures[f"figures/{drawing.name}.svg"] = drawing
    words = opening.sentences(small["mnist"], small["cifar10"], [*map(searched, SETS)])
    return f"![{drawing.title}](figures/{drawing.name}.svg)\n\n{drawing.caption}\n\n{words}"


def lenet_studies() -> list[Study]:
    """What has been run of the experiment, and the search for its settings."""
    store = Store.open(RECORDS, [path for path in [RECORDS / "lenet.jsonl"] if path.exists()])
    assert LENET.seeds is not None
    return from_experiment(LENET, LENET.seeds, store) + search("lenet")


def lenet_status() -> str:
    """How much of the experiment the records hold, and the commands that make the rest."""
    assert LENET.seeds is not None
    wanted = [configs.identity(config) for config in first_configs([(LENET, LENET.seeds)])]
    path = RECORDS / "lenet.jsonl"
    found = read_records(path).keys() if path.exists() else ()
    made = sum(identity in found for identity in wanted)
    commands = (HERE / "lenet.sh").read_text(encoding="utf-8")
    return (
        f"Of the {len(wanted)} runs of `skinny reproduce lenet`, {made} have been made; the tables "
        "below say of which arms (n), and arms that are in none have not been trained. The "
        f"commands go on where they stopped.\n\n```sh\n{commands.strip()}\n```"
    )


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


def searched(data: str) -> list[Run]:
    found = read_records(RECORDS / f"{data}-search.jsonl").values()
    return [record.run for record in found if record.run is not None]


def search(data: str) -> list[Study]:
    made = from_runs(searched(data))
    return [replace(study, title=f"Search: {study.title}") for study in made]


def summary() -> str:
    """The words of summary.md, with the commands behind them."""
    commands = (HERE / "commands.sh").read_text(encoding="utf-8")
    words = (HERE / "summary.md").read_text(encoding="utf-8")
    return f"{words.strip()}\n\n## What was run\n\n```sh\n{commands.strip()}\n```"


if __name__ == "__main__":
    main()
