"""Weights and biases without effect are found, and zeros in their place change nothing."""

import numpy as np
import pytest
import torch
from torch import nn

import skinny
from skinny.export import unpack
from skinny.models import build


class Branches(nn.Module):
    """The first layer's channels are read by two layers and, some, by a sum."""

    def __init__(self, summed: bool) -> None:
        super().__init__()
        self.first, self.left, self.right = (nn.Linear(6, 6) for _ in range(3))
        self.summed = summed

    def forward(self, x):
        x = torch.relu(self.first(x))
        return self.left(x) + self.right(x) + (x if self.summed else 0)


def pruned(model, unread):
    """{layer: input channels whose weights are zero}."""
    for name, channels in unread.items():
        weight = model.get_submodule(name).weight.data
        weight.view(weight.shape[0], -1)[:, channels] = 0
    return model.eval()


def stored(model, path, example, **how):
    skinny.pack(model, path, example=example, **how)
    return unpack(path)


def test_a_rounded_file_has_zeros_for_biases_that_no_layer_reads(tmp_path):
    torch.manual_seed(0)
    model = build("lenet-5", classes=10, channels=1, image_size=(28, 28))
    with torch.no_grad():
        model.conv2.weight[:, [3, 7]] = 0
        model.fc1.weight.view(500, 50, 16)[:, 10:] = 0
        model.fc2.weight[:, 100:] = 0
    example = torch.rand(3, 1, 28, 28)
    path = tmp_path / "net.skinny"
    found = stored(model.eval(), path, example, values="bf16")
    for name, kept in {"conv1": [i for i in range(20) if i not in (3, 7)], "conv2": range(10),
                       "fc1": range(100), "fc2": range(10)}.items():  # fmt: skip
        expected = torch.zeros_like(found[f"{name}.bias"])
        expected[list(kept)] = model.get_submodule(name).bias.detach()[list(kept)]
        assert torch.equal(found[f"{name}.bias"], expected), name
        gone = [i for i in range(len(expected)) if i not in kept]
        assert not found[f"{name}.weight"][gone].any(), name
        assert all(row.any() for row in found[f"{name}.weight"][list(kept)]), name
    rounded = skinny.load(path)(example.numpy(), preprocessed=True)
    model.load_state_dict({n: t.to(torch.bfloat16).float() if t.ndim > 1 else t
                           for n, t in model.state_dict().items()})  # fmt: skip
    np.testing.assert_allclose(rounded, model(example).detach(), rtol=1e-4, atol=1e-5)


def test_a_channel_that_reads_nothing_moves_into_the_biases_of_its_readers(tmp_path):
    torch.manual_seed(1)
    model = build("lenet-5", classes=10, channels=1, image_size=(28, 28))
    with torch.no_grad():
        model.conv1.weight[5] = 0
        model.conv2.weight[[7, 8]] = 0
        model.fc1.weight[40:] = 0  # with constants of either sign behind a ReLU
        model.fc1.weight[3, 7 * 16 : 8 * 16] = 0
    example = torch.rand(3, 1, 28, 28)
    path = tmp_path / "net.skinny"
    found = stored(model.eval(), path, example, values="fp16")
    assert not found["conv2.weight"][:, 5].any()
    assert not found["fc1.weight"].view(500, 50, 16)[:, [7, 8]].any()
    assert not found["fc2.weight"][:, 40:].any()
    for name, gone in {"conv1": [5], "conv2": [7, 8], "fc1": range(40, 500)}.items():
        assert not found[f"{name}.bias"][list(gone)].any(), name
    scores = skinny.load(path)(example.numpy(), preprocessed=True)
    np.testing.assert_allclose(scores, model(example).detach(), rtol=2e-3, atol=2e-3)


def test_constants_that_do_not_reach_everything_alike_stay(tmp_path):
    padded = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Conv2d(4, 2, 3, padding=1))
    smooth = nn.Sequential(nn.Linear(3, 4), nn.GELU(), nn.Linear(4, 2))
    bare = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2, bias=False))
    for model, example in ((padded, torch.rand(2, 1, 8, 8)), (smooth, torch.rand(2, 3)),
                           (bare, torch.rand(2, 3))):  # fmt: skip
        with torch.no_grad():
            model[0].weight[1], model[0].bias[1] = 0, 1.5
        found = stored(model.eval(), tmp_path / "net.skinny", example, values="bf16")
        assert found["0.bias"][1] == 1.5
        assert found["2.weight"][:, 1].any()


def test_a_weight_too_large_to_be_moved_stays(tmp_path):
    model = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
    with torch.no_grad():
        model[0].weight[1], model[0].bias[1] = 0, 1e30
        model[2].weight[:, 1] = 1e30
    found = stored(model.eval(), tmp_path / "net.skinny", torch.rand(2, 3), values="bf16")
    assert found["2.weight"][:, 1].any()


@pytest.mark.parametrize("seed", range(5))
def test_rounded_files_of_thinned_networks_compute_the_same(tmp_path, seed):
    torch.manual_seed(seed)
    model = nn.Sequential(
        nn.Conv2d(2, 6, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(6, 5, 2), nn.AvgPool2d(2),
        nn.Flatten(), nn.Linear(5 * 9, 12), nn.ReLU(), nn.Linear(12, 7), nn.Linear(7, 3),
    )  # fmt: skip
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim > 1:
                parameter *= torch.rand_like(parameter) < 0.08
    example = torch.rand(4, 2, 16, 16)
    path = tmp_path / "net.skinny"
    stored(model.eval(), path, example, values="fp16")
    scores = skinny.load(path)(example.numpy(), preprocessed=True)
    np.testing.assert_allclose(scores, model(example).detach(), rtol=5e-3, atol=5e-3)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_tensors_of_other_types_stay_what_they_are(tmp_path, dtype):
    model = nn.Sequential(nn.Linear(12, 16), nn.ReLU(), nn.Linear(16, 8))
    with torch.no_grad():
        model[0].weight[:4], model[0].bias[:4] = 0, 3
    found = stored(
        model.to(dtype).eval(), tmp_path / "n.skinny", torch.rand(1, 12, dtype=dtype), values="int8"
    )
    assert {tensor.dtype for tensor in found.values()} == {dtype}
    assert torch.equal(found["2.bias"], model[2].bias)


def test_an_exact_file_has_every_bias(tmp_path):
    model = pruned(nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 2)), {"2": [0, 1]})
    found = stored(model, tmp_path / "net.skinny", torch.rand(1, 4))
    assert torch.equal(found["0.bias"], model[0].bias)


@pytest.mark.parametrize("summed", [False, True])
def test_what_any_reader_reads_stays(tmp_path, summed):
    model = pruned(Branches(summed), {"left": [0, 1, 2], "right": [2, 3]})
    found = stored(model, tmp_path / "net.skinny", torch.rand(1, 6), values="bf16")
    gone = found["first.bias"] == 0
    assert gone.tolist() == [False, False, not summed, False, False, False]


def test_a_bias_that_another_layer_shares_stays(tmp_path):
    first, second = nn.Linear(4, 4), nn.Linear(4, 4)
    second.bias = first.bias
    model = pruned(nn.Sequential(first, nn.ReLU(), second, nn.ReLU(), nn.Linear(4, 2)),
                   {"2": [0, 1], "4": [3]})  # fmt: skip
    found = stored(model, tmp_path / "net.skinny", torch.rand(1, 4), values="bf16")
    assert torch.equal(found["0.bias"], first.bias)
    assert torch.equal(found["2.bias"], first.bias)


@pytest.mark.parametrize(
    "model",
    [
        nn.Sequential(nn.Linear(4, 6), nn.Softmax(1), nn.Linear(6, 2)),
        nn.Sequential(nn.Linear(4, 6), nn.LayerNorm(6), nn.Linear(6, 2)),
    ],
    ids=["softmax", "layer norm"],
)
def test_where_channels_meet_on_the_way_all_are_read(tmp_path, model):
    found = stored(pruned(model, {"2": [1, 2]}), tmp_path / "n.skinny", torch.rand(1, 4),
                   values="bf16")  # fmt: skip
    assert torch.equal(found["0.bias"], model[0].bias)
