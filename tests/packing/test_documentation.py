"""docs/format.md says what the code does."""

import re
from pathlib import Path

from skinny import packing
from skinny.packing import entropy, symbols
from skinny.packing.dictionary import DICTIONARY
from skinny.packing.graph import LARGEST_SIDE, LARGEST_STEP, MOST_NODES, OPERATIONS

DOCUMENT = (Path(__file__).parents[2] / "docs" / "format.md").read_text(encoding="utf-8")


def section(title):
    return DOCUMENT.split(f"## {title}\n")[1].split("\n## ")[0]


def test_every_operation_and_attribute_is_documented():
    rows = [line for line in section("The graph").splitlines() if line.startswith("| `")]
    for op, attributes in OPERATIONS.items():
        (row,) = [row for row in rows if f"`{op}`" in row.split("|")[1]]
        for attribute in attributes:
            assert attribute in row, (op, attribute)


def test_every_error_is_documented():
    named = set(re.findall(r"`(\w+Error)`", DOCUMENT))
    assert {name for name in packing.__all__ if name.endswith("Error")} - {"FormatError"} <= named


def test_the_limits_are_those_of_the_code():
    limits = section("The graph")
    for limit in (MOST_NODES, LARGEST_SIDE, LARGEST_STEP):
        assert f"{limit:,}" in limits
    coded = section("Entropy-coded masks")
    assert f"{entropy.BLOCK:,} bytes" in coded
    assert entropy.LOW == 280 * 2**22
    assert symbols.LOW == 2**31


def test_the_dictionary_of_manifests_is_in_the_document():
    lines = DOCUMENT.split("without\ntheir line breaks:\n\n```text\n")[1].split("\n```")[0]
    assert lines.replace("\n", "").encode() == DICTIONARY
