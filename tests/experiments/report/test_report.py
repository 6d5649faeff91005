import base64
import dataclasses
import html
import io
import json
import re
import shutil
import subprocess
from html.parser import HTMLParser
from types import SimpleNamespace

import numpy as np
import pytest
from PIL import Image

from skinny.cli.main import main
from skinny.errors import SkinnyError
from skinny.experiments.comparison import compare
from skinny.experiments.grid import grid
from skinny.experiments.report import charts, filters, write_report
from skinny.experiments.report.filters import png
from skinny.experiments.runs import find_runs
from skinny.experiments.store import Store
from skinny.experiments.study import from_runs
from skinny.experiments.sweep import Serial, sweep
from skinny.training import Config

HOSTILE = '<script src="https://example.com/x.js"></script><img src=x onerror=alert(1)>'
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")


@pytest.fixture(scope="module")
def runs(tmp_path_factory, tiny):
    """Dense and two sparsities with two seeds; class names as an attacker would choose them."""
    folder = tmp_path_factory.mktemp("runs")
    base = dataclasses.replace(tiny, epochs=4)
    configs = grid(base, {"method": ["dense", "sdnn"], "sparsity": [0.5, 0.9]}, seeds=[0, 1])
    for outcome in sweep(configs, Store(folder), executor=Serial()):
        file = outcome.job.path / "result.json"
        result = json.loads(file.read_text())
        result["classes"][0] = HOSTILE
        result["device"] = HOSTILE
        file.write_text(json.dumps(result))
    return folder


@pytest.fixture(scope="module")
def report(runs, tmp_path_factory):
    out = tmp_path_factory.mktemp("report")
    assert main(["report", str(runs), "--out", str(out), "--margin", "2"]) == 0
    return out


@pytest.fixture(scope="module")
def page(report):
    return (report / "report.html").read_text("utf-8")


@pytest.mark.parametrize(("count", "told"), [(3, False), (16, False), (36, True)])
def test_many_arms_with_long_names_leave_room_for_the_drawing(runs, count, told):
    """What matplotlib cannot lay out is a warning, and so an error here."""
    (study,) = from_runs(find_runs([runs])[0])
    arms = [
        dataclasses.replace(study.arms[-1], label=f"{i}: lr 0.05, weight_decay 0.0005, sparse 12")
        for i in range(count)
    ]
    study = dataclasses.replace(study, arms=tuple(arms))
    rows = compare(study, 1.0)
    assert charts.accuracy_by_arm(study, rows, "a") is not None
    drawing = charts.error_against_bytes(study, rows, "b")
    assert ("The table names the arms" in drawing.caption) == told


def test_an_arm_with_fewer_seeds_than_dense_training_is_not_called_the_best(runs):
    (study,) = from_runs(find_runs([runs])[0])
    arm = study.arms[-1]
    lucky = dataclasses.replace(arm.runs[0], result=arm.runs[0].result | {"test_accuracy": 1.0})
    once = dataclasses.replace(arm, label="one seed", runs=(lucky,))
    study = dataclasses.replace(study, arms=(*study.arms, once))
    drawing = charts.accuracy_by_arm(study, compare(study, 1.0), "a")
    assert "one seed" not in drawing.caption
    assert "Best: " in drawing.caption


@pytest.mark.parametrize("letters", [20, 60, 130])
def test_legends_lie_within_the_figure_and_take_no_room_from_the_drawing(runs, letters):
    (study,) = from_runs(find_runs([runs])[0])

    def laid_out(count):
        names = [f"{i}: {'restart_lr False, ' * 9}"[:letters] for i in range(count)]
        arms = tuple(dataclasses.replace(study.arms[-1], label=name) for name in names)
        drawn = charts.change_ratio(dataclasses.replace(study, arms=arms), "a")._figure
        drawn.draw_without_rendering()
        return drawn, drawn.legends[0].get_window_extent(), drawn.axes[0].get_window_extent()

    figure, legend, axes = laid_out(9)
    assert 0 <= legend.x0 < legend.x1 <= figure.bbox.x1
    assert 0 <= legend.y0 < legend.y1 <= axes.y0
    assert axes.height > 0.6 * laid_out(2)[2].height


class Seen(HTMLParser):
    def __init__(self, page):
        super().__init__()
        self.tags, self.links, self.open, self.headings = [], [], [], []
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.open.append(tag)
        for name, value in attrs:
            if name in ("src", "href", "xlink:href", "srcset", "data", "action"):
                self.links.append(value)
            assert not name.startswith("on")

    def handle_data(self, data):
        if self.open and self.open[-1] in ("h2", "h3", "h4"):
            self.headings.append(data.strip())

    def handle_endtag(self, tag):
        while self.open and self.open.pop() != tag:
            pass


def test_the_page_needs_nothing_from_outside(page):
    seen = Seen(page)
    outside = [link for link in seen.links if not link.startswith(("data:", "#"))]
    assert outside == []
    assert seen.tags.count("script") == 1
    assert "@import" not in page
    assert not re.search(r"url\((?!#)", page)
    assert "default-src 'none'" in html.unescape(page)


def test_what_comes_from_files_is_escaped(page):
    assert HOSTILE not in page
    assert "&lt;script src=" in page


def test_the_page_has_every_part(page):
    headings = Seen(page).headings
    for part in (
        "Accuracy against sparsity",
        "Error against bytes",
        "Change ratio",
        "Where weights were kept",
        "Learning curves",
        "First-layer filters",
        "How to read this",
    ):
        assert part in headings
    assert "Errors per class" in page
    for column in ("error ± sd, %", "95 % interval", "Δ accuracy, points", "p of ±2"):
        assert column in page
    assert "prefers-color-scheme: dark" in page
    assert 'name="viewport"' in page


def test_figures_and_tables_are_files_too(report):
    figures = {path.name for path in (report / "figures").iterdir()}
    assert {"study1-accuracy-sparsity.svg", "study1-accuracy-sparsity.png"} <= figures
    assert {f.removesuffix(".svg") for f in figures if f.endswith(".svg")} == {
        f.removesuffix(".png") for f in figures if f.endswith(".png")
    }
    for path in (report / "figures").glob("*.png"):
        Image.open(path).verify()
    assert (report / "tables" / "study1-summary.tex").read_text().startswith("%")
    assert "| dense |" in (report / "tables" / "study1-summary.md").read_text()


def test_the_same_as_markdown(report):
    text = (report / "report.md").read_text("utf-8")
    assert HOSTILE not in text
    assert "| SDNN-10x, erk budget |" in text
    assert "## How to read this" in text
    for figure in re.findall(r"\]\((.*?)\)", text):
        assert (report / figure).exists()


def test_drawings_follow_the_page_into_the_dark_and_files_do_not(report, page):
    assert "fill: var(--paper)" in page
    assert "var(--" not in (report / "figures" / "study1-layers.svg").read_text()


def test_the_same_runs_give_the_same_page(runs, report, tmp_path):
    assert main(["report", str(runs), "--out", str(tmp_path), "--margin", "2"]) == 0
    assert (tmp_path / "report.html").read_bytes() == (report / "report.html").read_bytes()


def test_the_gallery_shows_the_start_and_both_ends(page):
    pictures = re.findall(r'src="data:image/png;base64,([^"]+)"', page)
    assert len(pictures) == 3
    for picture in pictures:
        Image.open(io.BytesIO(base64.b64decode(picture))).verify()


def test_without_checkpoints_there_is_no_gallery_and_all_the_rest(runs, tmp_path):
    light = shutil.copytree(runs, tmp_path / "runs", ignore=shutil.ignore_patterns("checkpoint"))
    made = write_report(from_runs(find_runs([light])[0]), tmp_path / "out")
    text = made.read_text()
    assert "First-layer filters" not in text
    assert "Accuracy against sparsity" in text


def test_zero_is_grey_and_the_largest_weight_black_or_white():
    weights = np.array([[[[0.0, -2.0], [1.0, 0.0]]]], dtype=np.float32)
    picture = np.array(Image.open(io.BytesIO(png(weights))))
    assert set(picture[..., 0][picture[..., 3] > 0].tolist()) == {0, 128, 191}


def test_nothing_finished_is_an_error(tmp_path):
    with pytest.raises(SkinnyError, match="no finished run"):
        write_report([], tmp_path)


def test_a_margin_must_make_sense(runs, tmp_path):
    with pytest.raises(SkinnyError, match="margin is 0"):
        write_report(from_runs(find_runs([runs])[0]), tmp_path, margin=0)


@pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed")
def test_chromium_shows_the_page_without_a_complaint(report, tmp_path):
    done = subprocess.run(
        [
            CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run",
            "--disable-background-networking", "--disable-component-update", "--disable-sync",
            "--enable-logging=stderr", f"--user-data-dir={tmp_path}", "--dump-dom",
            (report / "report.html").as_uri(),
        ],
        capture_output=True, text=True, timeout=120, check=True,
    )  # fmt: skip
    assert "</html>" in done.stdout
    assert "CONSOLE" not in done.stderr


def test_a_report_runs_no_code_that_a_run_folder_names(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "theirs_in_a_report.py").write_text(
        "import pathlib; pathlib.Path('ran').touch()\ndef net(): ...\n"
    )
    config = Config(model="theirs_in_a_report:net")
    run = SimpleNamespace(config=config, result={"classes": ["a", "b"]})
    assert filters._initial(run, channels=1) is None
    assert not (tmp_path / "ran").exists()
