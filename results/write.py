"""Writes docs/results.md from the records of the runs in this folder.

    python results/write.py

Trains nothing and needs no data. What was run, and how, is in commands.sh, lenet.sh, tables.sh and
quantised.sh. The picture and the sentences at the head of the page are in opening.py, those of the
small studies in small.py, what these come to in summary.md.
"""

import shutil
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import answers
import beside_published
import files_table
import held_out
import opening
import pretrained
import readme
import small

from skinny.experiments import catalog, tuning
from skinny.experiments.experiment import Experiment
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
README = HERE.parent / "README.md"
RECORDS = HERE / "records"
_SMALL = 5  # arms of a study
_AIRNET = (
    "A network after airbench (Jordan 2024) at half its width, 12 epochs, by a recipe that is "
    "hardly tuned: airbench's own, with more computation, has 94 %. And NIN of half width, with "
    "batch normalisation, 12 epochs, whose settings were not searched for."
)
ANALYSES = ("figure1", "figure2", "progressive", "random", "reinit", "baselines")
RECORD_TABLES = {  # experiments at the scale `paper`: data, files of records, margin in points
    "lenet": ("mnist", ("lenet",), 0.2),
    "protocol": ("mnist", ("lenet", "mnist-small", "cifar10-small"), 0.2),
    "cifar10": ("cifar10", ("cifar10",), 0.5),
}


_Table = tuple[Experiment, tuple[int, ...], list[Path]]  # seeds, files of records


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
NARROW = {"mnist": "MNIST", "cifar10": "CIFAR-10"}  # as words call their data
TABLES = {  # the paper's other tables, at the scale `small`: seeds, margin in points
    "table2": ("cifar100", (0, 1, 2), 1.5),
    "table4": ("imagenette", (0,), 1.5),
}
_BESIDE = """\
Ours beside published results, with as many weights (biases are not counted) or at most as many \
bytes: means over n seeds, with one threshold over all layers. Published numbers are cited as \
printed; lengths and settings of those trainings are others than ours. The sizes of our files are \
those of whole packed models, with graph and preprocessing."""
_LOOKED = """\
Settings were chosen on held-out images, with two exceptions: the rising rate after restorations \
was written after the first test seeds at 280x had broken down, and the arm at 320x after those at \
280x with codebooks had been judged by test images."""
_TABLES = """\
The paper's table 2 on 1,000 training images of CIFAR-100, in the settings of the narrow networks \
below, and its table 4 on the 9,469 training photographs of Imagenette at 128x128 pixels, AlexNet \
of half width, 20 epochs. Neither setting was searched for."""
_ORDER = """\
The files of CIFAR-100 that were trained on hold its images in the order of their classes, the \
official ones in another: with those, the 1,000 images are others."""


def main(docs: Path = DOCS) -> None:
    page, figures, block = make()
    text = README.read_text(encoding="utf-8")
    README.write_text(readme.replaced(text, block), encoding="utf-8")
    shutil.rmtree(docs / "figures", ignore_errors=True)
    for name, drawing in figures.items():
        path = docs / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(drawing.svg, encoding="utf-8")
    (docs / "results.md").write_text(page, encoding="utf-8")


def make() -> tuple[str, dict[str, Drawing], str]:
    """The page, {path below docs: figure} of those that it shows, not drawn yet, and the README's
    part of it."""
    figures: dict[str, Drawing] = {}
    tables = {name: record_studies(name) for name in RECORD_TABLES}
    files = files_table.read_files(RECORDS / "files.jsonl")
    times = files_table.read_times(RECORDS / "times.jsonl")
    claims = {study.title.split(", ")[1]: study for study in tables["lenet"] if study.cited}
    trained = {name: study for name, study in claims.items() if opening.has_dense(study)}
    books: dict[str, list[Study]] = {}
    for study in tables["lenet"]:
        if any(arm.config.quantize for arm in study.arms):  # the longest training comes last
            books.setdefault(study.title.split(", ")[1], []).append(study)
    drawing = opening.picture(trained, books, files, times)
    words = opening.sentences(
        claims["LeNet-300-100"], books["LeNet-300-100"][-1], books["LeNet-5"][-1], files, times
    )
    texts = [f"# Results\n\n{shown(drawing, figures)}\n\n{words}\n"]
    texts.append(
        f"## LeNets on all of MNIST\n\n{_BESIDE}\n\n"
        f"{beside_published.table(tables['lenet'], files)}\n\n"
        f"{_LOOKED} {status(*_record_table('lenet'))}\n\n{commands()}\n"
    )
    narrow = {f"the narrow network on {what}": searched(data) for data, what in NARROW.items()}
    texts.append(held_out.section(searched("lenet"), narrow) + "\n")
    texts += [answers.files(study, files, times) for study in trained.values()]
    texts.append(answers.smallest(tables["lenet"], files))
    peers = files_table.read_files(RECORDS / "codecs.jsonl")
    texts.append(answers.coded_by_others(tables["lenet"], files, peers))
    texts.append(record_section("lenet", tables["lenet"] + search("lenet"), figures))
    told = answers.protocol(tables["protocol"])
    texts.append(f"## Whose protocol?\n\n{told}\n\n{status(*_record_table('protocol'))}\n")
    texts.append(record_section("protocol", tables["protocol"], figures))
    texts.append(f"## All of CIFAR-10\n\n{_AIRNET} {status(*_record_table('cifar10'))}\n")
    texts.append(record_section("cifar10-all", tables["cifar10"], figures))
    texts += tables_section(figures)
    texts.append(pretrained.section(RECORDS / "pretrained"))
    texts.append(quantised_section(figures))
    narrow = {data: studies(data) for data in SETS}
    texts += small_section(narrow, figures)
    shown_there = f"![{drawing.title}](docs/figures/{drawing.name}.svg)"
    rows = readme_rows(claims, tables["lenet"], tables["cifar10"], narrow, files)
    block = readme.block(shown_there, words, rows)
    return "\n".join(text for text in texts if text), figures, block


def readme_rows(
    claims: dict[str, Study],
    lenets: list[Study],
    cifar10: list[Study],
    narrow: dict[str, list[Study]],
    files: files_table.Files,
) -> list[str]:
    rows: list[str] = []
    for network, ratios in {"LeNet-300-100": (2, 12, 56, 68), "LeNet-5": (12, 108, 280)}.items():
        labels = [f"SDNN-{ratio}x" for ratio in ratios]
        rows += readme.rows(f"{network}, MNIST", claims[network], labels, 0.2, files)
    longer = next(study for study in lenets if study.title.endswith("LeNet-300-100, 90 epochs"))
    labels = ["SDNN-56x", "SDNN-68x"]
    rows += readme.rows("LeNet-300-100, MNIST, 90 epochs", longer, labels, 0.2, files)
    methods = next(study for study in lenets if study.title.endswith("LeNet-300-100, methods"))
    labels = ["gradual pruning, 56x", "AC/DC, 56x"]
    rows += readme.rows("LeNet-300-100, MNIST", methods, labels, 0.2, files)
    labels = [f"SDNN-{ratio}x" for ratio in (2, 5, 10, 20)]
    for study, network in zip(cifar10, ("airnet", "half-width NIN"), strict=True):
        rows += readme.rows(f"{network}, CIFAR-10", study, labels, 0.5, files)
    alexnet, *_ = table_studies("table4")
    rows += readme.rows(
        "half-width AlexNet, Imagenette", alexnet, ["SDNN-2x", "SDNN-4x"], 1.5, files
    )
    rows += pretrained.readme_rows(RECORDS / "pretrained")
    for data, name in {"mnist": "MNIST", "cifar10": "CIFAR-10, flipped"}.items():
        study = small.study_of(narrow[data], "Baselines")
        labels = ["SDNN-10x", "gradual pruning", "one-shot pruning"]
        title = f"narrow NIN, 1,000 images of {name}"
        rows += readme.rows(title, study, labels, SETS[data].margin, files)
    return rows


def small_section(made: dict[str, list[Study]], figures: dict[str, Drawing]) -> list[str]:
    """Narrow networks on few images: the paper's tables and figures."""
    drawing = small.picture(
        {
            "NIN on 1,000 images of MNIST": small.study_of(made["mnist"], "Figure 1"),
            "NIN on 1,000 images of CIFAR-10": small.study_of(made["cifar10"], "Figure 1"),
        }
    )
    words = small.sentences(made["mnist"], made["cifar10"], [*map(searched, SETS)])
    head = f"{shown(drawing, figures)}\n\n{words}\n\n{summary()}"
    texts = [f"## Narrow networks, few images\n\n{head}\n"]
    for data, (_, margin, _) in SETS.items():
        texts.append(section_texts(data, made[data], margin, figures))
    return texts


def tables_section(figures: dict[str, Drawing]) -> list[str]:
    """The tables of the paper whose data nothing else is about, as far as they were trained."""
    run = (HERE / "tables.sh").read_text(encoding="utf-8")
    told = " ".join(status(*_small_table(name)) for name in TABLES)
    if any(arm.runs for study in table_studies("table2") for arm in study.arms):
        told += f" {_ORDER}"
    head = f"## CIFAR-100 and photographs\n\n{_TABLES}\n\n{told}\n\n```sh\n{run.strip()}\n```\n"
    texts = [head]
    for name, (data, _, margin) in TABLES.items():
        if made := [study for study in table_studies(name) if opening.has_dense(study)]:
            texts.append(section_texts(f"{data}-small", made, margin, figures))
    return texts


def table_studies(name: str) -> list[Study]:
    experiment, seeds, paths = _small_table(name)
    return from_experiment(experiment, seeds, Store.open(RECORDS, paths))


def _small_table(name: str) -> _Table:
    data, seeds, _ = TABLES[name]
    path = RECORDS / f"{data}-small.jsonl"
    return catalog.experiment(name, data, "small"), seeds, [path] if path.exists() else []


def shown(drawing: Drawing, figures: dict[str, Drawing]) -> str:
    """A picture of the page's own, with its caption."""
    figures[f"figures/{drawing.name}.svg"] = drawing
    return f"![{drawing.title}](figures/{drawing.name}.svg)\n\n{drawing.caption}"


def record_section(name: str, studies: list[Study], figures: dict[str, Drawing]) -> str:
    """The studies of which half of the arms have been trained; those that stand beside published
    results as soon as any has, and small ones as soon as there is something to compare."""
    made = {study.title: sum(bool(arm.runs) for arm in study.arms) for study in studies}
    trained = [
        study
        for study in studies
        if 2 * made[study.title] >= len(study.arms)
        or (study.cited and made[study.title])
        or (len(study.arms) <= _SMALL and opening.has_dense(study))
    ]
    margin = RECORD_TABLES.get(name, ("", "", 0.5))[2]
    return section_texts(name, trained, margin, figures) if trained else ""


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


def record_studies(name: str) -> list[Study]:
    """What has been run of an experiment at the scale `paper`."""
    experiment, seeds, paths = _record_table(name)
    return from_experiment(experiment, seeds, Store.open(RECORDS, paths))


def status(experiment: Experiment, seeds: tuple[int, ...], paths: list[Path]) -> str:
    """How much of the experiment the records hold, and how many arms have no run."""
    wanted = [configs.identity(config) for config in first_configs([(experiment, seeds)])]
    found = {identity for path in paths for identity in read_records(path)}
    made = sum(identity in found for identity in wanted)
    told = [
        f"{study.title.split(', ', 1)[1]} ({untrained} of {len(study.arms)})"
        for study in from_experiment(experiment, seeds, Store.open(RECORDS, paths))
        if (untrained := sum(not arm.runs for arm in study.arms))
    ]
    missing = f" Arms that have not been trained: {'; '.join(told)}." if told else ""
    return (
        f"Of the {len(wanted)} runs of `skinny reproduce {experiment.name}`, the records hold "
        f"{made}; the tables say how many seeds (n) each arm has.{missing}"
    )


def quantised_section(figures: dict[str, Drawing]) -> str:
    """8 bits and patterns, on few images."""
    experiment = catalog.experiment("quantised", "mnist", "small")
    assert experiment.seeds is not None
    store = Store.open(RECORDS, [RECORDS / "quantised.jsonl"])
    made = from_experiment(experiment, experiment.seeds, store)
    commands = (HERE / "quantised.sh").read_text(encoding="utf-8")
    bits = [study for study in made if "8 bits" in study.title]
    theirs = answers.in_openvino(bits, files_table.read_files(RECORDS / "openvino.jsonl"))
    head = (
        "## 8 bits and patterns\n\nLeNet-5 on 2,000 images of MNIST and airnet on 5,000 of "
        "CIFAR-10, 30 epochs: short trainings, whose errors are not those of the tables above. "
        "Networks of 8-bit numbers are evaluated in torch by the arithmetic of "
        f"[method.md](method.md#training-for-few-bits).\n\n```sh\n{commands.strip()}\n```\n\n"
        f"{theirs}\n"
    )
    return f"{head}\n{section_texts('quantised', made, 0.3, figures)}"


def _record_table(name: str) -> _Table:
    data, files, _ = RECORD_TABLES[name]
    experiment = catalog.experiment(name, data, "paper")
    assert experiment.seeds is not None
    return experiment, experiment.seeds, [RECORDS / f"{file}.jsonl" for file in files]


def commands() -> str:
    """How the record tables are made."""
    text = (HERE / "lenet.sh").read_text(encoding="utf-8")
    return f"```sh\n{text.strip()}\n```"


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
    run = (HERE / "commands.sh").read_text(encoding="utf-8")
    words = (HERE / "summary.md").read_text(encoding="utf-8")
    return f"{words.strip()}\n\n## What was run\n\n```sh\n{run.strip()}\n```"


if __name__ == "__main__":
    main()
