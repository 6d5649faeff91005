"""Every Python snippet of the documents runs, and prints what the document says it prints."""

import contextlib
import io
import re
import warnings
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from PIL import Image
from sklearn.datasets import load_digits

from skinny.cli.main import main

ROOT = Path(__file__).parent.parent
FENCED = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


class Block(NamedTuple):
    language: str
    text: str
    line: int
    follows: bool  # nothing but blank space between the previous block and this one


def blocks(document: str) -> list[Block]:
    found, end = [], 0
    for match in FENCED.finditer(document):
        follows = bool(found) and not document[end : match.start()].strip()
        line = document.count("\n", 0, match.start(2))
        found.append(Block(match[1], match[2], line, follows))
        end = match.end()
    return found


def run(document: str, name: str) -> None:
    """Run the ```python blocks in order, in one namespace.

    A ```text block right after one of them must be what it printed.
    """
    namespace: dict[str, object] = {"__name__": "__main__"}
    printed = None
    for block in blocks(document):
        if block.language == "python":
            source = "\n" * block.line + block.text  # so that a traceback shows the document's line
            output = io.StringIO()
            with contextlib.redirect_stdout(output), warnings.catch_warnings():
                warnings.filterwarnings("ignore", "these operations have no kernel")
                exec(compile(source, name, "exec"), namespace)
            printed = output.getvalue()
        else:
            if block.language == "text" and block.follows and printed is not None:
                assert printed.strip() == block.text.strip(), f"{name}, line {block.line}"
            printed = None


# Run in tests/integrations, because it imports trainers.
ELSEWHERE = "docs/training.md"


def documents() -> list[str]:
    paths = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
    return [
        str(path.relative_to(ROOT))
        for path in paths
        if path != ROOT / ELSEWHERE
        and any(block.language == "python" for block in blocks(path.read_text("utf-8")))
    ]


@pytest.mark.parametrize("name", documents())
def test_the_snippets_of_a_document_run(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run((ROOT / name).read_text("utf-8"), name)


def test_skinny_predict_understands_the_file_that_the_readme_packs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    run((ROOT / "README.md").read_text("utf-8"), "README.md")
    zero = load_digits().images[0] * (255 / 16)
    Image.fromarray(zero.astype(np.uint8)).save("zero.png")
    assert main(["predict", "digits.skinny", "zero.png"]) == 0
    assert capsys.readouterr().out.split()[:2] == ["zero.png", "0"]


def test_the_method_is_documented_with_snippets():
    assert "docs/method.md" in documents()


@pytest.mark.parametrize(
    ("document", "error"),
    [
        ("```python\nx = 1\n```\nThen\n```python\nassert x == 1\n```\n", None),
        ("```python\nraise KeyError\n```\n", KeyError),
        ("```python\nprint(2)\n```\n\n```text\n2\n```\n", None),
        ("```python\nprint(2)\n```\n\n```text\n3\n```\n", AssertionError),
        ("```python\nprint(2)\n```\nUnrelated:\n```text\n3\n```\n", None),
        ("```sh\nexit 1\n```\n", None),
    ],
)
def test_a_wrong_snippet_is_found(document, error):
    with pytest.raises(error) if error else contextlib.nullcontext():
        run(document, "document")
