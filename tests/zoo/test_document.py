"""docs/networks.md is about the networks of the zoo."""

from tests.zoo.write import DOCUMENT, HEAD, shapes
from tests.zoo.zoo import ZOO

from skinny.graph.registry import operations


def rows(text):
    lines = [line for line in text.splitlines() if line.startswith("| ") and "---" not in line]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[1:]]


def test_the_page_has_every_network_with_its_inputs_and_free_sizes():
    coverage, mark, _ = DOCUMENT.read_text("utf-8").partition("\n## Speed\n")
    assert mark
    assert coverage.startswith(HEAD)
    wanted = []
    for network in ZOO.values():
        inputs = {name: x.numpy() for name, x in network.inputs(1, network.size[0]).items()}
        free = dict.fromkeys(name for axes in network.dynamic.values() for name in axes.values())
        wanted.append([network.name, shapes(inputs), ", ".join(free)])
    assert [row[:3] for row in rows(coverage)] == wanted


def test_what_it_says_to_run_by_references_are_operations():
    coverage, _, _ = DOCUMENT.read_text("utf-8").partition("\n## Speed\n")
    named = {name for row in rows(coverage) for name in row[3].split(", ")} - {"none"}
    assert named <= set(operations())
