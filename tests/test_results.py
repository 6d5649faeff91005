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
from skinny.experiments.statistics import Summary
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
    assert len(rows) == sum(len(rival.ours) for rival in write.beside_published.RIVALS)
    told = {row[1]: row[-1] for row in rows}
    assert told["Han et al. 2015, 12x"] == "Skinny"
    assert told["Sparse VD 2017, 280x"] == "published"
    assert told["MIRACLE 2019, random codes, 1.52 kB"].endswith("; published in fewer bytes")


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
    methods = write.titled(write.loading.recorded("lenet").studies, "LeNet-5, methods")
    error = write.files_table.error
    for ratio in (12, 108):
        arms = {arm.label: arm for arm in methods.arms if arm.label.endswith(f"{ratio}x")}
        ours = arms.pop(f"SDNN-{ratio}x")
        assert len(arms) == 4
        assert write.readme.best_other(methods, ours) is min(arms.values(), key=error)


@pytest.mark.parametrize(("points", "told"), [(0.25, "0.25 behind"), (-0.25, "0.25 ahead")])
def test_a_rival_is_ahead_where_iht_has_more_errors(write, points, told):
    difference = write.readme.paired({0: 90.0 + points, 1: 91.0 + points}, {0: 90.0, 1: 91.0})
    assert write.readme.told_rival("AC/DC", difference) == f"AC/DC, {told} (n = 2)"


def test_losses_are_told_where_there_are_any(write):
    lenets = write.loading.recorded("lenet").studies
    claims = {name: write.titled(lenets, name) for name in ("LeNet-300-100", "LeNet-5")}
    methods = write.titled(lenets, "LeNet-300-100, 90 epochs")
    narrow = {"MNIST": write.small.study_of(write.loading.studies("mnist"), "Baselines")}
    fewest = next(arm for arm in claims["LeNet-5"].arms if arm.label == "SDNN-280x")
    lost = {0.7: 1.5, 0.9: 6.0}
    told = write.losses.sentence(claims, methods, narrow, fewest, (2.0, 1.2), lost)
    assert "and LeNet-5 with 12, 100, 108 and 280 times fewer weights make significantly" in told
    assert "1.35 points behind gradual pruning on MNIST" in told
    assert "Sparse VD 2017 has 0.75 %" in told
    assert "2.00 kB at 1.20 %, is behind the 1.52 kB at 0.96 % of MIRACLE 2019" in told
    assert "dense fine-tuning at 70 to 90 % sparsity" in told
    best = dataclasses.replace(claims["LeNet-300-100"], arms=claims["LeNet-300-100"].arms[:3])
    claims = {"LeNet-300-100": best, "LeNet-5": claims["LeNet-5"]}
    told = write.losses.sentence(claims, methods, {}, fewest, (2.0, 0.9), lost)
    assert "LeNet-300-100 with 2 " not in told  # which is as good as dense training
    assert "NIN" not in told
    assert "MIRACLE" not in told


def test_a_pretrained_network_is_read_with_all_its_arms(write):
    arms, times = write.pretrained.read(write.RECORDS / "pretrained")
    assert [arm.label for arm in arms[:2]] == ["dense", "IHT, 70 %"]
    assert len(arms) == 10
    assert all(len(packed.results) == 3 for arm in arms for packed in (arm.fp32, arm.int8))
    assert "OpenVINO, dense, fp32" in times["milliseconds"]
