"""docs/training.md: its snippets run, and its versions are those that are tested."""

import importlib.metadata
import re

import pytest
from tests.test_documents import ELSEWHERE, ROOT, run

TEXT = (ROOT / ELSEWHERE).read_text("utf-8")
VERSIONS = dict(re.findall(r"^\| (\w+) \| (\d[\d.]*) \|", TEXT, re.MULTILINE))


# Lightning 2.6 uses a class that torch 2.13 deprecates; the other is advice
@pytest.mark.filterwarnings("ignore:`isinstance.treespec, LeafSpec.` is deprecated")
@pytest.mark.filterwarnings("ignore:The 'train_dataloader' does not have many workers")
def test_the_snippets_of_the_document_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run(TEXT, ELSEWHERE)


def test_the_document_names_the_versions_that_are_installed_and_pinned():
    trainers = {"torch", "lightning", "transformers", "accelerate"}
    assert set(VERSIONS) == trainers | {"datasets", "tensorboard"}
    pinned = (ROOT / "constraints.txt").read_text("utf-8").splitlines()
    for name, version in VERSIONS.items():
        assert importlib.metadata.version(name).partition("+")[0] == version
        assert f"{name}=={version}" in pinned
