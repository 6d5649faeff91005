"""From torch to a packed file, to ONNX, and back from ONNX: the same answers everywhere."""

import numpy as np
import pytest
import torch
from tests.export.functions import Of
from torch import nn

import skinny
from skinny.errors import SkinnyError
from skinny.export import to_onnx

pytestmark = pytest.mark.filterwarnings("ignore:these operations have no kernel")
onnxruntime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
torch.manual_seed(0)


def with_class_token(x, token):
    return torch.cat([token.expand(x.shape[0], -1, -1), x], 1)


def words_in_bags(x, bag):
    return bag(x)


# model, its inputs for a batch and a length, free sizes beside the batch
MODELS = {
    "a parameter without axes": (Of(lambda x, s: x * s.exp(), s=torch.tensor(0.3)),
                                 lambda b, n: torch.randn(b, 4), {}),
    "a class token": (Of(with_class_token, token=torch.randn(1, 1, 4)),
                      lambda b, n: torch.randn(b, 3, 4), {}),
    "a reflected border": (nn.Sequential(nn.ReflectionPad2d(4), nn.Conv2d(3, 4, 9)),
                           lambda b, n: torch.randn(b, 3, 16, 16), {}),
    "infinities": (Of(lambda x: x + torch.full((4, 4), -torch.inf).triu(1)),
                   lambda b, n: torch.randn(b, 4, 4), {}),
    "bags of words": (Of(words_in_bags, bag=nn.EmbeddingBag(9, 4, mode="mean")),
                      lambda b, n: torch.randint(0, 9, (b, 5)), {}),
    "an LSTM of free length": (nn.LSTM(3, 4, 2, batch_first=True, bidirectional=True),
                               lambda b, n: torch.randn(b, n, 3), {1: "length"}),
    "a GRU of free length": (nn.GRU(3, 4, batch_first=True, bias=False),
                             lambda b, n: torch.randn(b, n, 3), {1: "length"}),
}  # fmt: skip


def leaves(value):
    if isinstance(value, dict):
        value = tuple(value.values())
    return (
        [leaf for item in value for leaf in leaves(item)] if isinstance(value, tuple) else [value]
    )


def same(got, want):
    assert len(got) == len(want)
    for ours, theirs in zip(got, want, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", MODELS)
def test_a_model_gives_the_same_answers_packed_as_onnx_and_imported_back(name, tmp_path):
    model, inputs, free = MODELS[name]
    argument = "x_0" if isinstance(model, Of) else "input"
    packed, written, back = (tmp_path / f for f in ("a.skinny", "a.onnx", "b.skinny"))
    skinny.pack(model, packed, example=inputs(1, 5), dynamic={argument: free})
    to_onnx(packed, written)
    skinny.pack(written, back)
    session = onnxruntime.InferenceSession(written, providers=["CPUExecutionProvider"])
    for batch, length in ((1, 5), (3, 2), (2, 7)):
        x = inputs(batch, length)
        with torch.no_grad():
            want = [leaf.numpy() for leaf in leaves(model(x))]
        same(leaves(skinny.load(packed)(x.numpy())), want)
        same(session.run(None, {session.get_inputs()[0].name: x.numpy()}), want)
        same(leaves(skinny.load(back)(x.numpy())), want)


def test_a_size_made_into_a_number_is_told_with_what_to_write():
    model = Of(lambda x: x.reshape(len(x), -1))
    with pytest.raises(
        SkinnyError, match=r"'x_0' must stay free.* as len\(x\) .* \(write x.shape\[0\]"
    ):
        skinny.check(model, torch.randn(2, 3, 4))


def test_a_free_size_that_another_input_fixes_is_told(tmp_path):
    model = Of(lambda x, y: x + y)
    inputs = (torch.randn(2, 3), torch.randn(2, 3))
    with pytest.raises(SkinnyError, match=r"x.shape\[1\] of 'x_0' .* that of another input"):
        skinny.pack(model, tmp_path / "a.skinny", example=inputs, dynamic={"x_0": {1: "length"}})


def test_a_branch_on_values_is_one_sentence_and_nothing_else(capfd):
    model = Of(lambda x: x if x.sum() > 0 else -x)
    with pytest.raises(SkinnyError, match="depends on the values of tensors"):
        skinny.check(model, torch.randn(2, 3))
    assert "def forward" not in capfd.readouterr().err
