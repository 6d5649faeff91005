import pytest
import torch
from torch import nn

from skinny.errors import SkinnyError
from skinny.iht.layers import prunable


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3)
        self.norm = nn.BatchNorm2d(4)
        self.up = nn.ConvTranspose2d(4, 3, 2)
        self.embed = nn.Embedding(10, 4)
        self.head = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 10))


def test_linear_and_convolution_weights_are_prunable_and_nothing_else():
    assert list(prunable(Net())) == ["conv.weight", "up.weight", "head.0.weight", "head.1.weight"]


@pytest.mark.parametrize(
    ("include", "exclude", "expected"),
    [
        ("conv", (), ["conv.weight"]),
        (["conv", "head.*"], (), ["conv.weight", "head.0.weight", "head.1.weight"]),
        ("embed.weight", (), ["embed.weight"]),
        (None, ["head.1", "up"], ["conv.weight", "head.0.weight"]),
        ("*", ["embed", "up", "head.0"], ["conv.weight", "head.1.weight"]),
    ],
)
def test_include_and_exclude_by_pattern(include, exclude, expected):
    assert list(prunable(Net(), include, exclude)) == expected


@pytest.mark.parametrize(
    ("include", "exclude", "complaint"),
    [
        ("convv", (), r"include pattern 'convv' matches nothing; there are: conv.weight, up"),
        (None, "nosuch", r"exclude pattern 'nosuch' matches nothing"),
        ("*.bias", (), r"matches nothing"),
        ("norm", (), r"matches nothing"),
        ("conv", "conv", r"no weight to threshold after excluding conv.weight"),
    ],
)
def test_a_pattern_that_matches_nothing_is_an_error_that_says_what_exists(
    include, exclude, complaint
):
    with pytest.raises(SkinnyError, match=complaint):
        prunable(Net(), include, exclude)


def test_a_model_without_weights_is_an_error():
    with pytest.raises(SkinnyError, match="no weight to threshold"):
        prunable(nn.BatchNorm1d(3))


def test_frozen_weights_are_left_alone():
    net = Net()
    net.conv.weight.requires_grad_(False)
    assert "conv.weight" not in prunable(net)


def test_a_tied_weight_counts_once_and_answers_to_each_of_its_names():
    net = nn.Module()
    net.down = nn.Linear(7, 5, bias=False)
    net.out = nn.Linear(7, 5, bias=False)
    net.out.weight = net.down.weight
    assert list(prunable(net)) == ["down.weight"]
    assert list(prunable(net, include="out")) == ["down.weight"]


def test_names_do_not_change_when_the_model_is_compiled():
    net = Net()
    compiled = torch.compile(net, backend="eager")
    assert list(prunable(compiled)) == list(prunable(net))
    assert all(
        a is b for a, b in zip(prunable(compiled).values(), prunable(net).values(), strict=True)
    )


def test_embeddings_with_sparse_gradients_are_refused():
    model = nn.Sequential(nn.Embedding(10, 4, sparse=True), nn.Linear(4, 2))
    assert list(prunable(model)) == ["1.weight"]
    with pytest.raises(SkinnyError, match=r"0\.weight is .* sparse gradients"):
        prunable(model, include="*")
