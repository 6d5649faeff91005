"""docs/format.md says what the registry says."""

from pathlib import Path

import pytest

from skinny.graph.attributes import LARGEST_SIZE, LARGEST_WINDOW
from skinny.graph.graph import MOST_NODES, MOST_OPERANDS
from skinny.graph.registry import operations
from skinny.graph.values import DTYPES, MOST_AXES, MOST_ELEMENTS

DOCUMENT = (Path(__file__).parents[2] / "docs" / "format.md").read_text(encoding="utf-8")
SECTION = DOCUMENT.split("## The graph\n")[1].split("\n## ")[0]
ROWS = {
    cells[1].strip().strip("`"): cells
    for cells in (line.split("|") for line in SECTION.splitlines() if line.startswith("| `"))
}


@pytest.mark.parametrize("name", sorted(operations()))
def test_an_operation_and_its_attributes_are_documented(name):
    _, _, attributes, *computes, _ = ROWS[name]
    documented = [text.split("=")[0].strip() for text in attributes.split(",") if text.strip()]
    assert documented == list(operations()[name].attributes)
    assert "".join(computes).strip()


def test_what_is_documented_exists():
    assert set(ROWS) - {"returns"} == set(operations())


def test_types_and_limits_are_those_of_the_code():
    assert " ".join(DTYPES) in SECTION
    assert LARGEST_SIZE == MOST_ELEMENTS
    limits = " ".join(SECTION.split("Limits a reader enforces:")[1].split())
    for limit in (MOST_NODES, MOST_OPERANDS, LARGEST_SIZE, LARGEST_WINDOW):
        assert f"{limit:,}" in limits
    assert f"{MOST_AXES} axes" in limits
