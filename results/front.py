"""The head of docs/results.md and the README's part: which studies they are made from."""

from collections.abc import Sequence

import balance
import beside_published
import files_table
import loading
import opening
import pretrained
import readme
import small
from loading import NARROW, RECORD_TABLES, RECORDS, SETS, TABLES, titled

from skinny.experiments.report.drawing import Drawing
from skinny.experiments.study import Study

_DEFAULTS = "defaults of `skinny.IHT`"


def picture(lenets: list[Study], files: files_table.Files) -> Drawing:
    longest = {"LeNet-300-100": "90 epochs", "LeNet-5": "smallest in 63 epochs"}
    times, _ = files_table.read_times(RECORDS / "times.jsonl")
    return opening.picture(
        {network: titled(lenets, network) for network in longest},
        {network: titled(lenets, f"{network}, codebooks") for network in longest},
        {network: titled(lenets, f"{network}, {which}") for network, which in longest.items()},
        files,
        times,
    )


def sentences(
    lenets: list[Study],
    narrow: dict[str, list[Study]],
    lines: Sequence[readme.Line],
    files: files_table.Files,
    page: str,
) -> str:
    """page: where the list of losses is, seen from where the sentences stand."""
    times, machine = files_table.read_times(RECORDS / "times.jsonl")
    compared = [(study, RECORD_TABLES["lenet"][2]) for study in lenets]
    compared += [*_others().values()]
    compared += [(study, SETS[data].margin) for data in narrow for study in narrow[data]]
    return opening.sentences(
        titled(lenets, "LeNet-300-100"),
        titled(lenets, "LeNet-300-100, 90 epochs"),
        files,
        times,
        machine.split(" (")[0],
        balance.sentence(compared, lines, f"docs/{page}" if page else ""),
    )


def _others() -> dict[str, balance.Compared]:
    """{network and data: its study, and the points of accuracy that count as equal}."""
    airnet, nin = loading.recorded("cifar10").studies
    margin = RECORD_TABLES["cifar10"][2]
    plain, flipped = loading.recorded_table("table2").studies
    alexnet, _ = loading.recorded_table("table4").studies
    return {
        "airnet, CIFAR-10": (airnet, margin),
        "NIN of half width, CIFAR-10": (nin, margin),
        "narrow NIN, 1,000 images of CIFAR-100": (plain, TABLES["table2"][2]),
        "narrow NIN, 1,000 images of CIFAR-100, flips": (flipped, TABLES["table2"][2]),
        "AlexNet of half width, Imagenette": (alexnet, TABLES["table4"][2]),
    }


def balance_section(
    lenets: list[Study], narrow: dict[str, list[Study]], files: files_table.Files
) -> str:
    mlp, conv = "LeNet-300-100", "LeNet-5"
    plain = (mlp, f"{mlp}, 90 epochs", f"{mlp}, defaults", conv, f"{conv}, defaults")
    main = {title: (titled(lenets, title), RECORD_TABLES["lenet"][2]) for title in plain}
    nins = {data: f"narrow NIN, 1,000 images of {what}" for data, what in NARROW.items()}
    baselines = {name: small.study_of(narrow[data], "Baselines") for data, name in nins.items()}
    return balance.section(
        main
        | _others()
        | {
            name: (small.study_of(narrow[data], "Figure 1"), SETS[data].margin)
            for data, name in nins.items()
        },
        [*_methods(lenets), *baselines.items()],
        [
            *((study.title.split(", ")[1], study) for study in lenets),
            *((name, study) for data, name in nins.items() for study in narrow[data]),
        ],
        [*beside_published.rows(lenets, files)],
        pretrained.lost(RECORDS / "pretrained"),
        files,
    )


def _methods(lenets: list[Study]) -> list[tuple[str, Study]]:
    """(network and length, a study of methods), of the LeNets."""
    found = [
        (f"{network}, {study.arms[0].config.epochs} epochs", study)
        for network in ("LeNet-300-100", "LeNet-5")
        for study in lenets
        if study.title.split(", ", 1)[1].startswith(f"{network}, methods at ")
    ]
    longer = "LeNet-300-100, 90 epochs"
    return [*found, (longer, titled(lenets, longer))]


def lines(
    lenets: list[Study],
    cifar10: list[Study],
    narrow: dict[str, list[Study]],
    files: files_table.Files,
) -> list[readme.Line]:
    margins = {name: margin for name, (_, _, margin) in RECORD_TABLES.items()}
    mlp, conv = (titled(lenets, network) for network in ("LeNet-300-100", "LeNet-5"))
    methods = {
        (network, ratio): titled(lenets, f"{network}, methods at {ratio}x")
        for network, ratio in (
            *(("LeNet-300-100", 12), ("LeNet-300-100", 56)),
            *(("LeNet-5", 12), ("LeNet-5", 108)),
        )
    }
    defaults, longer = (
        titled(lenets, f"LeNet-300-100, {which}") for which in ("defaults", "90 epochs")
    )
    cifar100, _ = loading.recorded_table("table2").studies
    alexnet, _ = loading.recorded_table("table4").studies
    nins = {data: small.study_of(studies, "Baselines") for data, studies in narrow.items()}
    rows: list[tuple[str, Study, str, float, Study | None]] = [
        ("LeNet-300-100, MNIST", mlp, "SDNN-12x", margins["lenet"], methods["LeNet-300-100", 12]),
        (f"the same, {_DEFAULTS}", defaults, "SDNN-12x, defaults", margins["lenet"], None),
        ("LeNet-300-100, MNIST", mlp, "SDNN-56x", margins["lenet"], methods["LeNet-300-100", 56]),
        (f"the same, {_DEFAULTS}", defaults, "SDNN-56x, defaults", margins["lenet"], None),
        ("LeNet-300-100, MNIST, 90 epochs", longer, "SDNN-56x", margins["lenet"], longer),
        ("LeNet-5, MNIST", conv, "SDNN-12x", margins["lenet"], methods["LeNet-5", 12]),
        ("LeNet-5, MNIST", conv, "SDNN-108x", margins["lenet"], methods["LeNet-5", 108]),
        ("LeNet-5, MNIST", conv, "SDNN-280x", margins["lenet"], None),
        ("airnet, CIFAR-10", cifar10[0], "SDNN-2x", margins["cifar10"], None),
        ("airnet, CIFAR-10", cifar10[0], "SDNN-20x", margins["cifar10"], None),
        ("AlexNet, half width, Imagenette", alexnet, "SDNN-4x", TABLES["table4"][2], None),
        ("narrow NIN, 1,000 images of CIFAR-100", cifar100, "SDNN-10x", TABLES["table2"][2], None),
        *(
            (
                f"narrow NIN, 1,000 images of {what}",
                nins[data],
                "SDNN-10x",
                SETS[data].margin,
                nins[data],
            )
            for data, what in NARROW.items()
        ),
    ]
    made = [readme.line(*row[:4], files, row[4]) for row in rows]
    return made + pretrained.readme_lines(RECORDS / "pretrained")
