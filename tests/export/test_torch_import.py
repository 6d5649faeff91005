"""The graph of a torch model computes what the model computes."""

import functools

import numpy as np
import pytest
import torch
from tests.export.functions import FUNCTIONS, Of, model
from torch import nn
from torch.utils import _pytree as pytree

from skinny import graph as G
from skinny.errors import SkinnyError
from skinny.export.aten import name_of
from skinny.export.examples import Examples
from skinny.export.torch_import import (
    UnsupportedOperationError,
    export_program,
    import_program,
    take_graph,
)
from skinny.graph.registry import imports
from skinny.graph.values import own_dtype, spec_of


def arrays_of(model, extra):
    return {
        name: tensor.detach().float().numpy().astype(own_dtype(tensor.dtype))
        for name, tensor in {**model.state_dict(), **extra}.items()
    }


@functools.cache
def program_of(name):
    network, example = model(name)
    examples = Examples(network, example)
    return network, example, examples, export_program(network, examples)


def imported(model, example, dynamic=None):
    """The graph, and a function that runs it on tensors by name."""
    return runner(model, *take_graph(model, Examples(model, example, dynamic)))


def runner(model, graph, extra):
    arrays = arrays_of(model, extra)
    spec = lambda name: spec_of(arrays[name]) if name in arrays else None  # noqa: E731
    assert G.from_json(G.to_json(graph), spec) == graph

    def run(**inputs):
        given = {name: tensor.numpy() for name, tensor in inputs.items()}
        return G.run(graph, given, spec, arrays.__getitem__)

    return graph, run


def agree(got, want):
    want = [x for x in pytree.tree_leaves(want) if isinstance(x, torch.Tensor)]
    assert len(got) == len(want)
    for ours, theirs in zip(got, want, strict=True):
        assert str(ours.dtype) == own_dtype(theirs.dtype)
        assert ours.shape == tuple(theirs.shape)
        np.testing.assert_allclose(ours, theirs.float().numpy(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_an_imported_function_computes_what_torch_computes(name):
    network, example, examples, program = program_of(name)
    _, run = runner(network, *import_program(program, examples, set(network.state_dict())))
    with torch.no_grad():
        for batch in (2, 3):
            inputs = [torch.cat([x, x])[:batch] for x in example]
            named = {f"x_{at}": x for at, x in enumerate(inputs)}
            agree(run(**named), network(*inputs))


def test_random_numbers_are_no_stored_tensors():
    class Noisy(nn.Module):
        def __init__(self):
            super().__init__()
            self.scale = nn.Parameter(torch.ones(4))

        def forward(self, x):
            return x + torch.special.bessel_j0(torch.rand_like(self.scale))

    with pytest.raises(UnsupportedOperationError, match=r"rand_like.*bessel_j0"):
        imported(Noisy(), torch.zeros(2, 4))


def test_every_aten_operation_of_the_registry_is_used_by_a_function():
    used = set()
    for name in FUNCTIONS:
        program = program_of(name)[-1]
        used |= {name_of(node.target) for node in program.graph.nodes if node.op == "call_function"}
    assert sorted(set(imports("aten")) - used) == []


def test_what_torch_cannot_decompose_is_one_sentence(monkeypatch):
    """As with views of transposed tensors of free sizes, which some versions of torch refuse."""

    def refuse(program, table):
        raise ValueError("Cannot view a tensor\nOriginal traceback: ...")

    monkeypatch.setattr(torch.export.ExportedProgram, "run_decompositions", refuse)
    network = Of(torch.linalg.det)
    with pytest.raises(UnsupportedOperationError, match=r"decompose .*: Cannot view a tensor \("):
        imported(network, (torch.randn(2, 3, 3),))


class Encoder(nn.Module):
    """Tokens and a mask in, a table of results out."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(20, 8)
        self.layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
        self.head = nn.Linear(8, 3)

    def forward(self, input_ids, attention_mask=None, scale=None):
        hidden = self.layer(self.embedding(input_ids), src_key_padding_mask=attention_mask == 0)
        pooled = (hidden * attention_mask[..., None]).sum(1) / attention_mask.sum(1, keepdim=True)
        length = torch.arange(input_ids.shape[1], device=input_ids.device) * (input_ids > 0)
        return {"logits": self.head(pooled), "inner": [hidden, (length,)], "none": None}


def tokens(batch, length):
    mask = torch.ones(batch, length, dtype=torch.long)
    mask[:, length - 1 :] = 0
    return {"input_ids": torch.randint(0, 20, (batch, length)), "attention_mask": mask}


def test_inputs_have_names_free_sizes_are_free_and_returns_are_kept():
    network = Encoder().eval()
    names = ("input_ids", "attention_mask")
    graph, run = imported(network, tokens(2, 6), {name: {1: "length"} for name in names})
    assert [(v.name, v.dtype, v.shape) for v in graph.inputs] == [
        (name, "int64", ("batch", "length")) for name in names
    ]
    assert graph.returns == {"logits": 0, "inner": [1, [2]], "none": None}
    for batch, length in ((1, 6), (3, 9), (2, 4)):
        given = tokens(batch, length)
        with torch.no_grad():
            agree(run(**given), network(**given))


def test_booleans_and_several_inputs_by_position():
    class Chosen(nn.Module):
        def forward(self, image, keep, offset):
            return torch.where(keep, image, 0.0) + offset[:, None], keep.sum(1)

    network = Chosen()
    example = (torch.randn(2, 5), torch.randn(2, 5) > 0, torch.arange(2))
    graph, run = imported(network, example)
    assert [(v.name, v.dtype) for v in graph.inputs] == [
        ("image", "float32"), ("keep", "bool"), ("offset", "int64")
    ]  # fmt: skip
    assert graph.returns is None
    for batch in (1, 2):
        inputs = [x[:batch] for x in example]
        agree(run(image=inputs[0], keep=inputs[1], offset=inputs[2]), network(*inputs))


def test_a_forward_of_any_arguments_is_wrapped():
    inner = nn.Sequential(nn.Linear(3, 4), nn.ReLU())
    network = torch.optim.swa_utils.AveragedModel(inner).eval()
    graph, run = imported(network, torch.randn(1, 3))
    assert [v.name for v in graph.inputs] == ["args_0"]
    x = torch.randn(3, 3)
    with torch.no_grad():
        agree(run(args_0=x), network(x))


def test_the_model_is_left_as_it_was():
    network = nn.Sequential(nn.Linear(3, 4), nn.Dropout(), nn.BatchNorm1d(4))
    network[1].eval()
    before = {name: value.clone() for name, value in network.state_dict().items()}
    take_graph(network, Examples(network, torch.randn(2, 3)))
    assert [module.training for module in network] == [True, False, True]
    assert all(torch.equal(before[name], value) for name, value in network.state_dict().items())


@pytest.mark.parametrize(
    "function",
    [
        lambda x, w: x @ w.t(),
        lambda x, w: nn.functional.linear(x, w.detach()),
        lambda x, w: nn.functional.linear(x, nn.functional.dropout(w, 0.5, False)),
    ],
)
def test_a_weight_that_is_used_otherwise_is_stored_once(function):
    network = Of(function, w=torch.randn(4, 3))
    graph, extra = take_graph(network, Examples(network, torch.randn(2, 3)))
    assert [node.op for node in graph.nodes] == ["linear"]
    assert extra == {}


def test_all_operations_that_cannot_be_expressed_are_named_with_their_modules():
    class Inner(nn.Module):
        def forward(self, x):
            return torch.special.bessel_j0(x) + torch.special.i1(x)

    network = nn.Sequential(nn.Linear(3, 3), Inner(), nn.ReLU(), Inner())
    with pytest.raises(UnsupportedOperationError) as caught:
        take_graph(network, Examples(network, torch.randn(2, 3)))
    text = str(caught.value)
    assert "prims::bessel_j0 (used by module '1' (Inner), module '3' (Inner))" in text
    assert "prims::bessel_i1" in text
    assert "relu" not in text


def test_an_operation_of_another_library_is_not_taken_for_one_of_atens():
    @torch.library.custom_op("skinny_tests::relu", mutates_args=())
    def relu(x: torch.Tensor) -> torch.Tensor:
        return x - 1

    relu.register_fake(torch.empty_like)
    network = Of(lambda x: relu(x))
    with pytest.raises(UnsupportedOperationError, match="skinny_tests::relu"):
        take_graph(network, Examples(network, torch.randn(2, 3)))


def test_a_size_that_depends_on_values_is_refused():
    network = Of(lambda x: x[x > 0])
    with pytest.raises(SkinnyError):
        take_graph(network, Examples(network, torch.randn(2, 3)))


@pytest.mark.parametrize(
    ("example", "dynamic", "says"),
    [
        (3, None, "must be a tensor"),
        ((), None, "is empty"),
        (torch.tensor(1.0), None, "batch dimension"),
        ((torch.ones(2, 3),) * 2, None, "takes 1 inputs, the example has 2"),
        (torch.ones(2, 3), {"y": {1: "n"}}, "the inputs are input"),
        (torch.ones(2, 3), {"input": {2: "n"}}, "names axis 2"),
        (torch.ones(2, 3), {"input": {1: "a b"}}, "named by a word"),
    ],
)
def test_an_impossible_example_is_told(example, dynamic, says):
    with pytest.raises(SkinnyError, match=says):
        Examples(nn.Linear(3, 4), example, dynamic)
