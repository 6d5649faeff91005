"""Writes docs/results.md, docs/settings.md and the README's part of them from the records here.

    python results/write.py

Trains nothing and needs no data. What was run, and how, is in commands.sh, lenet.sh, tables.sh,
quantised.sh and pretrained.sh. The picture and the sentences at the head of the page are in
opening.py and balance.py, its table in readme.py (front.py says of which studies), those of the
small studies in small.py, what these come to in summary.md, how to read the page and what it lacks
in reading.md and missing.md.
"""

import shutil
from collections.abc import Sequence
from pathlib import Path

import answers
import beside_published
import files_table
import front
import held_out
import loading
import pretrained
import readme
import small
from loading import NARROW, RECORD_TABLES, RECORDS, SETS, TABLES

from skinny.experiments.report import make_pages, markdown
from skinny.experiments.report.drawing import Drawing
from skinny.experiments.study import Study

HERE = Path(__file__).parent
DOCS = HERE.parent / "docs"
README = HERE.parent / "README.md"
_SMALL = 5  # arms of a study
_BESIDE = """\
Ours beside published results, with as many weights or fewer (biases are not counted; a \
percentage is the share of weights kept), or with as many bytes or fewer; where our smallest file \
is larger, the last column says so. Means over n seeds, with one threshold over all layers, and \
in brackets the error of the dense network, where it is known. Published numbers are rounded to \
two decimals; some were printed with one. ±: standard errors, where there are any. Sparse \
Momentum's numbers are those of its repository, whose code trains on 54,000 images by default, \
ours on 60,000; entropy-penalised networks' are those of TensorFlow Compression's tutorial, \
Weightless's and Bayesian Compression's those of MIRACLE's table, the latter's size computed \
there from a ratio. Their trainings have other lengths and settings, and their dense networks \
make more errors than ours or fewer, so that what each method loses against its own dense network \
is worth a look, too. Skinny or the published result has the lower error if our 95 % interval is \
apart from the published number, or from two standard errors around it; the comparisons are not \
corrected for their number. Our trainings of 63 and 90 epochs were added after shorter ones had \
been judged by test images ([settings.md](settings.md)). Our sizes are those of whole packed \
models, with graph and preprocessing, means over the seeds that were packed; published ones count \
what their authors counted. LeNet-5 is Caffe's with a ReLU after each convolution, as PyTorch \
versions usually have it; weights and sizes are the same. Soft weight sharing, whose ratios count \
bits, and OLMP (114x and 298x), whose errors we have not found, have no row. The defaults of \
`skinny.IHT` stand beside the settings that were searched for where they were trained."""
_AIRNET = """\
A network after airbench (Jordan 2024) at half its width, 12 epochs, by a recipe that is hardly \
tuned: airbench's own, with more computation, has 94 %. And NIN of half width, with batch \
normalisation, 12 epochs, whose settings were not searched for."""
_TABLES = """\
The paper's table 2 on 1,000 training images of CIFAR-100, in the settings of the narrow networks \
below, and its table 4 on the 9,469 training photographs of Imagenette at 128x128 pixels, AlexNet \
of half width, 20 epochs. Neither setting was searched for."""
_ORDER = """\
The files of CIFAR-100 that were trained on hold its images in the order of their classes, the \
official ones in another: with those, the 1,000 images are others."""
_SETTINGS = """\
# How the settings were found

The settings of the LeNets, of MobileNetV2 and of the narrow networks in [results.md](results.md) \
were searched for on training images that were held out. On the LeNets that was done nearly \
always with IHT: dense training and the other methods have the rate and the weight decay found \
for it, and default spans of their own. Not searched for were LeNet-5's rate of 0.05, its 21 \
epochs and bf16; airnet, the NIN on all of CIFAR-10, CIFAR-100 and AlexNet.

Some choices were prompted by test images. The rising rate after restorations was written after \
the first test seeds at 280x had broken down. Longer training was tried, on held-out images, \
after 30 epochs at 68x and 21 epochs at 280x had lost to published results on test images, and \
one schedule at 12x after LeNet-5 with restarts had been found worse than dense training there. \
The arm at 320x was added after those at 280x with codebooks had been judged by test images. \
Words are explained in [results.md](results.md#how-to-read-this-page)."""

Figures = dict[str, Drawing]  # {path below docs: figure}, not drawn yet


def main(docs: Path = DOCS) -> None:
    pages, figures, block = make()
    text = README.read_text(encoding="utf-8")
    README.write_text(readme.replaced(text, block), encoding="utf-8")
    shutil.rmtree(docs / "figures", ignore_errors=True)
    for name, drawing in figures.items():
        path = docs / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(drawing.svg, encoding="utf-8")
    for name, page in pages.items():
        (docs / name).write_text(page, encoding="utf-8")


def make() -> tuple[dict[str, str], Figures, str]:
    """{name: page}, the figures that the pages show, and the README's part of them."""
    figures: Figures = {}
    lenets = loading.recorded("lenet").studies
    cifar10 = loading.recorded("cifar10").studies
    narrow = {data: loading.studies(data) for data in SETS}
    files = files_table.read_files(RECORDS / "files.jsonl")
    drawing = front.picture(lenets, files)
    lines = front.lines(lenets, cifar10, narrow, files)
    words = {
        page: front.sentences(lenets, narrow, lines, files, page) for page in ("", "results.md")
    }
    begin = f"# Results\n\n{shown(drawing, figures)}\n\n{words['']}\n\n{readme.table(lines, '')}"
    texts = [
        begin,
        _text("reading.md"),
        front.balance_section(lenets, narrow, files),
        _text("missing.md"),
    ]
    texts += lenet_section(lenets, files, figures)
    texts += protocol_section(figures)
    status = loading.recorded("cifar10").status
    texts.append(f"## All of CIFAR-10\n\n{_AIRNET} {status} {_commands('lenet')}\n")
    texts.append(recorded_section("cifar10", cifar10, figures))
    texts.append(answers.rounded(cifar10[0], files))
    texts += tables_section(figures)
    texts.append(pretrained.section(RECORDS / "pretrained"))
    texts.append(quantised_section(figures))
    texts += small_section(narrow, figures)
    pages = {"results.md": _page(texts), "settings.md": _page(settings(figures))}
    picture = f"![{drawing.title}](docs/figures/{drawing.name}.svg)\n\n{drawing.caption}"
    return pages, figures, readme.block(picture, words["results.md"], lines)


def lenet_section(lenets: list[Study], files: files_table.Files, figures: Figures) -> list[str]:
    times, machine = files_table.read_times(RECORDS / "times.jsonl")
    peers = files_table.read_files(RECORDS / "codecs.jsonl")
    beside = beside_published.table(beside_published.rows(lenets, files))
    return [
        f"## LeNets on all of MNIST\n\n{_BESIDE}\n\n{beside}\n\n"
        f"{loading.recorded('lenet').status} {_commands('lenet')}\n",
        recorded_section("lenet", lenets, figures),
        answers.files([study for study in lenets if study.cited], files, times, machine),
        answers.smallest(lenets, files),
        answers.coded_by_others(lenets, files, peers),
    ]


def protocol_section(figures: Figures) -> list[str]:
    found = loading.recorded("protocol")
    told = answers.protocol(found.studies)
    head = f"## Whose protocol?\n\n{told}\n\n{found.status} {_commands('lenet')}\n"
    return [head, recorded_section("protocol", found.studies, figures)]


def tables_section(figures: Figures) -> list[str]:
    """The tables of the paper whose data nothing else is about."""
    found = {name: loading.recorded_table(name) for name in TABLES}
    told = " ".join(table.status for table in found.values())
    texts = [
        f"## CIFAR-100 and photographs\n\n{_TABLES}\n\n{told} {_ORDER} {_commands('tables')}\n"
    ]
    for name, (data, _, margin) in TABLES.items():
        studies = found[name].studies
        texts.append(studies_section(f"{data}-small", studies, margin, figures))
    return texts


def quantised_section(figures: Figures) -> str:
    """8 bits and patterns, on few images."""
    made = loading.quantised()
    bits = [study for study in made if "8 bits" in study.title]
    theirs = answers.in_openvino(bits, files_table.read_files(RECORDS / "openvino.jsonl"))
    head = (
        "## 8 bits, and masks with structure\n\nLeNet-5 on 2,000 images of MNIST and airnet on "
        "5,000 of CIFAR-10, 30 epochs: short trainings, whose errors are not those of the tables "
        "above. Networks of 8-bit numbers are evaluated in torch by the arithmetic of "
        f"[method.md](method.md#training-for-few-bits). {_commands('quantised')}\n\n{theirs}\n"
    )
    return f"{head}\n{studies_section('quantised', made, loading.QUANTISED_MARGIN, figures)}"


def small_section(made: dict[str, list[Study]], figures: Figures) -> list[str]:
    """Narrow networks on few images: the paper's tables and figures."""
    drawing = small.picture(
        {
            "NIN on 1,000 images of MNIST": small.study_of(made["mnist"], "Figure 1"),
            "NIN on 1,000 images of CIFAR-10": small.study_of(made["cifar10"], "Figure 1"),
        }
    )
    words = small.sentences(made["mnist"], made["cifar10"], [*map(loading.searched, SETS)])
    head = (
        f"## Narrow networks, few images\n\n{shown(drawing, figures)}\n\n{words}\n\n"
        f"{_text('summary.md')}\n\n{_commands('commands')}\n"
    )
    studies = [
        studies_section(data, made[data], margin, figures) for data, (_, margin, _) in SETS.items()
    ]
    return [head, *studies]


def settings(figures: Figures) -> list[str]:
    """The page about what was tried on held-out images."""
    networks = {
        f"the narrow network on {what}": loading.searched(data) for data, what in NARROW.items()
    }
    told = held_out.section(loading.searched("lenet"), networks)
    return [
        f"{_SETTINGS}\n",
        f"## LeNets\n\n{told}\n{_commands('lenet')}\n",
        studies_section(
            "lenet-search", loading.search("lenet"), RECORD_TABLES["lenet"][2], figures
        ),
        pretrained.trials(RECORDS / "pretrained"),
        f"## Narrow networks\n\nWhat these come to is in [results.md]"
        f"(results.md#narrow-networks-few-images). {_commands('commands')}\n",
        *(
            studies_section(
                f"{data}-search", loading.search(data) + loading.trials(data), margin, figures
            )
            for data, (_, margin, _) in SETS.items()
        ),
    ]


def shown(drawing: Drawing, figures: Figures) -> str:
    """A picture of the page's own, with its caption."""
    figures[f"figures/{drawing.name}.svg"] = drawing
    return f"![{drawing.title}](figures/{drawing.name}.svg)\n\n{drawing.caption}"


def recorded_section(name: str, studies: Sequence[Study], figures: Figures) -> str:
    """The studies of which half of the arms have been trained; those that stand beside published
    results as soon as any has, and small ones as soon as there is something to compare."""
    made = {study.title: sum(bool(arm.runs) for arm in study.arms) for study in studies}
    shown = [
        study
        for study in studies
        if 2 * made[study.title] >= len(study.arms)
        or (study.cited and made[study.title])
        or (len(study.arms) <= _SMALL and _is_comparison(study))
    ]
    return studies_section(name, shown, RECORD_TABLES[name][2], figures)


def _is_comparison(study: Study) -> bool:
    """Has its dense network been trained, and one that is skinny?"""
    return {"dense", "sdnn"} <= {arm.config.method for arm in study.arms if arm.runs}


def studies_section(name: str, studies: Sequence[Study], margin: float, figures: Figures) -> str:
    """The studies as Markdown, below another heading; their figures are added to `figures`."""
    pages = make_pages(studies, margin=margin)
    body = "\n\n".join(markdown.body(pages.sections, level=3))
    for section in pages.sections:
        for drawing in markdown.figures(section):
            figures[f"figures/{name}/{drawing.name}.svg"] = drawing
    facts = [
        f"{fact}: {pages.facts[fact]}" for fact in ("Runs", "Published") if fact in pages.facts
    ]
    return "\n\n".join([body.replace("(figures/", f"(figures/{name}/"), *facts]) + "\n"


def _commands(name: str) -> str:
    return f"Commands: [results/{name}.sh](../results/{name}.sh)."


def _text(name: str) -> str:
    return (HERE / name).read_text(encoding="utf-8")


def _page(texts: Sequence[str]) -> str:
    return "\n".join(text for text in texts if text)


if __name__ == "__main__":
    main()
