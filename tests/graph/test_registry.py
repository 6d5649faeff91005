"""Every entry of the registry is complete."""

import pytest
from tests.graph.cases import CASES

from skinny import graph as G
from skinny.graph.attributes import REQUIRED
from skinny.graph.registry import imports, operation, operations, register

# Operations that no single foreign operation becomes.
WITHOUT_SOURCE = {
    "conv_int8": "made of quantised ONNX layers, and by pack(compute='int8')",
    "linear_int8": "the same",
    "embedding_int8": "the same",
    "fake_quantize": "QuantizeLinear and DequantizeLinear",
    "constant": "made for stored tensors wherever one is an operand",
    "flatten": "in files of format 1; torch's flatten becomes a reshape",
}


@pytest.mark.parametrize("name", sorted(operations()))
def test_an_entry_says_what_it_computes_and_where_it_comes_from(name):
    entry = operation(name)
    assert entry.computes.strip()
    assert entry.aten or entry.onnx or name in WITHOUT_SOURCE
    assert callable(entry.infer)
    assert callable(entry.reference)
    assert callable(entry.to_onnx)
    assert 0 <= entry.inputs[0] <= entry.inputs[1]
    assert 1 <= entry.outputs[0] <= entry.outputs[1]
    for attribute in entry.attributes.values():
        assert attribute.says
        assert attribute.default is REQUIRED or attribute.accepts(attribute.default)


def test_every_operation_has_cases_and_every_case_an_operation():
    assert set(CASES) == set(operations())
    assert all(CASES.values())


def test_an_attribute_does_not_hide_a_field_of_the_node():
    for entry in operations().values():
        assert not {"op", "inputs", "output"} & set(entry.attributes)


def test_foreign_names_belong_to_one_operation():
    assert imports("aten")
    assert imports("onnx")


def test_an_operation_is_registered_once():
    with pytest.raises(ValueError, match="'relu' is registered twice"):
        register("relu", computes="", infer=None, reference=None, to_onnx=None)


def test_an_unknown_operation_is_named():
    with pytest.raises(G.GraphError, match="'frobnicate' is unknown"):
        operation("frobnicate")
