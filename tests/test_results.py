"""docs/results.md and docs/settings.md say what the records in results/ say."""

import dataclasses
import importlib.util
import json
import re
from pathlib import Path

import matplotlib
import pytest

from skinny.experiments.published import Cited
from skinny.experiments.records import read_records
from skinny.experiments.statistics import Summary, paired
from skinny.training import config as configs

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"


@pytest.fixture(scope="module")
def write():
    spec = importlib.util.spec_from_file_location("write_results", ROOT / "results" / "write.py")
    module = importlib.util.module_from_spec(spec)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(ROOT / "results")
        spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def made(write):
    return write.make()


def test_the_pages_are_what_the_records_give(made):
    pages, figures, _ = made
    assert pages == {name: (DOCS / name).read_text("utf-8") for name in pages}
    assert sorted(figures) == sorted(str(path.relative_to(DOCS)) for path in DOCS.rglob("*.svg"))
    assert all(any(f"({name})" in page for page in pages.values()) for name in figures)


def test_commands_that_the_pages_name_are_there(made):
    named = {
        name for page in made[0].values() for name in re.findall(r"\(\.\./(results/.*?)\)", page)
    }
    assert len(named) >= 5
    assert all((ROOT / name).is_file() for name in named)


def test_every_figure_is_what_the_records_give(made):
    """To the letter with the matplotlib that drew them; others place labels and ticks anew."""
    for name, drawing in made[1].items():
        drawn, kept = drawing.svg, (DOCS / name).read_text("utf-8")
        if matplotlib.__version__ == pinned("matplotlib"):
            assert drawn == kept, name
        assert texts(drawn) == texts(kept), name


def texts(svg):
    """Labels, in no order: a figure of other runs, arms or axes has others."""
    return sorted(text for text in re.findall(r">([^<>]+)</text>", svg) if not text.isdigit())


def pinned(package):
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    return next(line.split("==")[1] for line in lines if line.startswith(f"{package}=="))


def test_an_arm_was_run_for_every_seed_or_not_at_all(write):
    for data in write.SETS:
        for study in write.loading.studies(data) + write.loading.trials(data):
            assert all(arm.missing == 0 for arm in study.arms if arm.runs), study.title


def test_the_readme_has_the_numbers_of_the_page(write, made):
    text = write.README.read_text("utf-8")
    assert write.readme.replaced(text, made[2]) == text


def test_a_study_needs_a_dense_network_and_a_skinny_one(write):
    (study,) = (
        s for s in write.loading.recorded("lenet").studies if s.title.endswith("LeNet-300-100")
    )
    assert write._is_comparison(study)
    pruned = tuple(arm for arm in study.arms if arm.config.method == "sdnn")
    assert not write._is_comparison(dataclasses.replace(study, arms=pruned))


def test_files_are_those_of_recorded_networks(write):
    files = write.files_table.read_files(write.RECORDS / "files.jsonl")
    peers = write.files_table.read_files(write.RECORDS / "codecs.jsonl")
    recorded = {}
    for name in ("lenet", "cifar10"):
        if (path := write.RECORDS / f"{name}.jsonl").exists():
            recorded |= read_records(path)
    assert files.keys() | peers.keys() <= recorded.keys()
    for without_loss, coded in (("exact", files), ("zipnn", peers)):
        for identity, found in coded.items():
            error = 100 - 100 * recorded[identity].run.result["test_accuracy"]
            assert found[without_loss]["error"] == pytest.approx(error)


def test_a_run_is_packed_in_the_ways_that_can_be_had(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "results")
    ways = importlib.import_module("files").ways
    lenet = dataclasses.replace(configs.Config(), model="lenet-5", quantize="codebook4")
    assert set(ways(dataclasses.replace(lenet, sparsity=1 - 1 / 108))) == {"exact"}
    assert set(ways(dataclasses.replace(lenet, sparsity=1 - 1 / 280))) == {"exact", "smallest"}
    assert ways(dataclasses.replace(lenet, quantize="int8-after")) == {}
    assert set(ways(dataclasses.replace(lenet, quantize=None, method="dense"))) == {"exact"}
    assert "size" in ways(dataclasses.replace(lenet, quantize=None, sparsity=0.98))


def test_runs_of_one_identity_came_out_the_same(write):
    """Some trials of the tuned methods had been trained in the search, with fewer evaluations."""
    trials = read_records(write.RECORDS / "cifar10-small.jsonl")
    search = read_records(write.RECORDS / "cifar10-search.jsonl")
    both = trials.keys() & search.keys()
    assert len(both) == 5
    for identity in both:
        one, other = trials[identity].run, search[identity].run
        assert one.config.eval_every != other.config.eval_every
        assert one.result["test_loss"] == other.result["test_loss"]
        assert one.result["test_errors"] == other.result["test_errors"]


# As saved before spans had one pair of names; run folders were then called by another hash. The
# records of that time say what r0 and the budget were: their defaults have changed since.
EARLIER = {
    "method": "sdnn", "name": "mnist-small", "data": "mnist", "train_size": 1000,
    "model": "nin-mnist", "width": 0.5, "batch_norm": True, "dropout": 0.0, "epochs": 30,
    "s1": 3, "s2": 12, "dense": None, "sparse": None, "sparsity": 0.9, "r0": 0.5,
    "budget": "uniform", "weight_decay": 0.002, "batch_size": 32, "channels_last": True,
    "eval_every": 15, "seed": 4,
}  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "errors"),
    [({}, 0.04), ({"method": "dense", "sparsity": 0.0}, 0.02), ({"method": "gradual"}, 0.03)],
)
def test_runs_recorded_in_earlier_versions_are_found(write, changes, errors):
    records = read_records(write.RECORDS / "mnist-small.jsonl")
    config = configs.from_json(json.dumps(EARLIER | changes))
    result = records[configs.identity(config)].run.result
    assert 1 - result["test_accuracy"] == pytest.approx(errors, abs=0.01)


def test_every_published_row_has_ours_beside_it(write, made):
    page = made[0]["results.md"]
    lines = page[page.index("| network | published |") :].split("\n\n")[0].splitlines()[2:]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    assert len(rows) == sum(len(rival.ours) for rival in write.beside_published.PAIRS)
    told = {(row[1], row[3].split(", ")[0]): row[-1] for row in rows if "defaults" not in row[3]}
    assert told["Han et al. 2015, 12x", "SDNN-12x"] == "Skinny"
    assert told["Sparse VD 2017, 280x", "SDNN-280x"] == "published"
    smallest = told["MIRACLE 2019, random codes, 1.52 kB", "SDNN-320x"]
    assert smallest.endswith("; published in fewer bytes")
    plain = [row for row in rows if row[3].endswith(", defaults")]
    assert [row[0] for row in plain] == ["LeNet-300-100"] * 2 + ["LeNet-5"] * 2


@pytest.mark.parametrize(
    ("error", "se", "lower"),
    [
        (1.21, None, "Skinny"),
        (1.2, None, "not told apart"),
        (1.0, None, "not told apart"),
        (0.79, None, "published"),
        (1.31, 0.05, "Skinny"),
        (1.29, 0.05, "not told apart"),
        (0.71, 0.05, "not told apart"),
        (0.69, 0.05, "published"),
    ],
)
def test_who_has_the_lower_error(write, error, se, lower):
    ours = Summary(n=10, mean=1.0, sd=0.1, low=0.8, high=1.2)
    assert write.beside_published._lower(ours, Cited("theirs", "-", error, se)) == lower


def test_the_readme_names_the_best_of_the_other_methods(write):
    lenets = write.loading.recorded("lenet").studies
    error = write.files_table.error
    for ratio in (12, 108):
        methods = write.loading.titled(lenets, f"LeNet-5, methods at {ratio}x")
        arms = {arm.label: arm for arm in methods.arms if arm.label != "dense"}
        ours = f"SDNN-{ratio}x"
        del arms[ours]
        assert len(arms) == 4
        rival, _ = write.readme._rival(methods, ours)
        assert rival.name == min(arms.values(), key=error).label.split(",")[0]


@pytest.mark.parametrize(("points", "told"), [(0.25, "0.25 behind"), (-0.25, "0.25 ahead")])
def test_a_rival_is_ahead_where_iht_has_more_errors(write, points, told):
    difference = paired({0: 90.0 + points, 1: 91.0 + points}, {0: 90.0, 1: 91.0})
    rival = write.readme.Rival.of("AC/DC", difference, 0.25)
    assert str(rival) == f"AC/DC, {told} (n = 2, p = 0.250)"


def test_a_method_that_is_not_the_best_may_be_significantly_better(write):
    study = write.small.study_of(write.loading.studies("cifar10"), "Methods tuned")
    rival, beaten = write.readme._rival(study, "SDNN-10x")
    assert (rival.name, beaten) == ("gradual pruning", False)
    study = write.small.study_of(write.loading.studies("mnist"), "Baselines")
    assert write.readme._rival(study, "SDNN-10x")[1]


@pytest.fixture(scope="module")
def balance(write):
    """The sections on wins and losses, from all studies that they are about."""
    lenets = write.loading.recorded("lenet").studies
    narrow = {data: write.loading.studies(data) for data in write.SETS}
    files = write.files_table.read_files(write.RECORDS / "files.jsonl")
    return write.front.balance_section(lenets, narrow, files).split("## Where it loses")


@pytest.mark.parametrize(
    ("told", "is_there"),
    [
        ("LeNet-300-100, 90 epochs: 56x 0.30, 68x 0.35, 100x 0.66", True),
        ("LeNet-300-100: 2x", False),  # which is as good as dense training
        ("LeNet-300-100, defaults: 12x 0.09", True),
        ("MobileNetV2, Imagenette: 70 % 1.68, 80 % 3.67, 90 % 6.76", True),
        ("at 10x one-shot pruning is 0.55 ahead (n = 5, p = 0.015)", True),
        ("at 10x small dense is 1.02 ahead", True),
        ("LeNet-300-100 at 56x by 0.15 (n = 10, p = 0.003)", True),  # the defaults
        ("DSD", False),  # which does not end sparse
        ("random masks on: narrow NIN, 1,000 images of MNIST;", True),
        ("Sparse VD 2017, 280x on LeNet-5 (0.75 %; SDNN-280x, 63 epochs: 0.88 %)", True),
        ("1.52 kB on LeNet-5 (0.96 %;", True),
        ("Sparse VD 2017, 68x", False),  # which is reached in 90 epochs
        ("LeNet-300-100, SDNN-100x, uniform (34.8 %)", True),
        ("narrow NIN, 1,000 images of MNIST, SDNN-20x, direct (43.1 %)", True),
        ("LeNet-5, SDNN-280x: 7.7 % errors with 2 bits, 1.2 % as trained", True),
    ],
)
def test_losses_are_told_where_there_are_any(balance, told, is_there):
    assert (told in balance[1]) == is_there


@pytest.mark.parametrize(
    ("told", "is_there"),
    [
        ("LeNet-5, 21 epochs: at 108x gradual pruning is 0.07 behind (n = 10, p = 0.015)", True),
        ("at 108x AC/DC", False),  # not told apart
        ("Sparse VD 2017, 68x on LeNet-300-100 (1.92 %; SDNN-68x, 90 epochs: 1.74 %)", True),
        ("Sparse VD 2017, 280x", False),
    ],
)
def test_wins_are_told_too(balance, told, is_there):
    assert (told in balance[0]) == is_there


def test_the_sentence_on_losses_counts_each_setting_once(write):
    lenets = write.loading.recorded("lenet").studies
    study = write.loading.titled(lenets, "LeNet-300-100, defaults")
    rivals = [write.readme.Rival("AC/DC", points, 10, 0.5) for points in (0.1, 0.2, -0.1)]
    line = write.readme.Line("", "", (1.0, 1.0), 10, -0.1, "", None, False, (1.0, 1.0))
    lines = [line, *(line._replace(rival=rival) for rival in rivals)]
    lines[1] = lines[1]._replace(beaten=True)
    told = write.front.balance.sentence([(study, 0.2)] * 2, lines, "page.md")
    assert "of 4 settings of IHT" in told
    assert "none is significantly more accurate" in told
    assert "3 are significantly less accurate, 1 are equivalent, and 0 are not told apart" in told
    assert "fewer errors in 2 of 3 rows of the table, significantly in 1 (" in told
    assert "(page.md#where-it-loses)" in told


def test_trials_of_a_pretrained_network_are_collected(write, monkeypatch, tmp_path):
    monkeypatch.syspath_prepend(ROOT / "results")
    trials = importlib.import_module("pretrained_trials")
    folders = []
    for name, progressive in (("iht-0.9", True), ("iht-0.9", False), ("oneshot-0.9", False)):
        folders.append(tmp_path / str(len(folders)))
        folders[-1].mkdir()
        record = {"photographs": [1500, 500], "epochs": 4, "rate": 0.003, "seed": 0}
        record |= {"progressive": progressive, "accuracy": 0.75, "bytes": 1}
        (folders[-1] / f"{name}.json").write_text(json.dumps(record))
    kept = json.loads((write.RECORDS / "pretrained/trials.jsonl").read_text().splitlines()[0])
    found = [*trials.lines(folders)]
    assert [line.keys() for line in found] == [kept.keys()] * 3
    assert [line["r0"] for line in found] == [None, "target", None]
    (tmp_path / "trials.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in found))
    assert "| 75.0 | 1 |" in write.pretrained.trials(tmp_path)


def test_a_pretrained_network_is_read_with_all_its_arms(write):
    arms, times = write.pretrained.read(write.RECORDS / "pretrained")
    assert [arm.label for arm in arms[:2]] == ["dense", "IHT, 70 %"]
    assert len(arms) == 10
    assert all(len(packed.results) == 3 for arm in arms for packed in (arm.fp32, arm.int8))
    assert "OpenVINO, dense, fp32" in times["milliseconds"]
