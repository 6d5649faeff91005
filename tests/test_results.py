"""docs/results.md says what the records in results/ say."""

import importlib.util
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def write():
    spec = importlib.util.spec_from_file_location("write_results", ROOT / "results" / "write.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_is_what_the_records_give(write, tmp_path):
    write.main(tmp_path)
    made = (tmp_path / "results.md").read_text("utf-8")
    assert made == (ROOT / "docs" / "results.md").read_text("utf-8")
    figures = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*.svg")}
    assert figures == {str(path.relative_to(ROOT / "docs")) for path in ROOT.rglob("docs/**/*.svg")}
    assert all(f"({name})" in made for name in figures)


def test_an_arm_was_run_for_every_seed_or_not_at_all(write):
    for data in write.SETS:
        for study in write.studies(data):
            assert all(arm.missing == 0 for arm in study.arms if arm.runs), study.title
