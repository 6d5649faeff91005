"""Inputs that a network of any graph takes, and those it refuses, in one sentence."""

import numpy as np
import pytest
import torch
from torch import nn

import skinny
from skinny.runtime import InputError


class Pooled(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(50, 8)

    def forward(self, ids, keep):
        return (self.embedding(ids) * keep[..., None]).sum(1)


@pytest.fixture(scope="module")
def pooled(tmp_path_factory):
    path = tmp_path_factory.mktemp("pooled") / "model.skinny"
    example = (torch.zeros(1, 6, dtype=torch.int64), torch.ones(1, 6, dtype=torch.bool))
    free = {"ids": {1: "length"}, "keep": {1: "length"}}
    skinny.pack(Pooled(), path, example=example, dynamic=free)
    return skinny.load(path)


@pytest.mark.parametrize(
    ("args", "named", "message"),
    [
        ((np.zeros((1, 6), np.int64),), {}, "the input 'keep' is missing"),
        ((), {"ids": np.zeros((1, 6)), "keep": np.ones((1, 6), bool)}, "takes integers"),
        ((), {"ids": np.zeros((1, 6), int), "keep": np.ones((1, 5), bool)}, "length = 6"),
        ((), {"ids": np.zeros(6, int), "keep": np.ones((1, 6), bool)}, "batch, length"),
        ((), {"ids": np.zeros((1, 6), int), "nose": np.ones((1, 6), bool)}, "no input 'nose'"),
        ((), {"ids": [[1, 2], [3]], "keep": np.ones((1, 6), bool)}, "cannot be made an array"),
        (
            (),
            {"ids": np.zeros((0, 6), int), "keep": np.ones((0, 6), bool)},
            r"empty: it is \[0, 6\]",
        ),
        (
            (),
            {"ids": np.zeros((1, 0), int), "keep": np.ones((1, 0), bool)},
            r"empty: it is \[1, 0\]",
        ),
        ((["a.png"], np.ones((1, 6), bool)), {}, "takes no image files"),
        ((None, np.ones((1, 6), bool)), {}, "takes integers, it is given object"),
        ((np.full((1, 6), 2**63, np.uint64), np.ones((1, 6), bool)), {}, "int64 cannot hold"),
        ((np.zeros((1, 6), int),) * 3, {}, "takes 2 inputs, 3 were given"),
    ],
)
def test_wrong_inputs_are_told(pooled, args, named, message):
    with pytest.raises(InputError, match=message):
        pooled(*args, **named)


def test_a_profile_without_inputs_needs_all_sizes_but_the_batch(pooled):
    with pytest.raises(InputError, match="the size length of the input 'ids' is free; give the"):
        pooled.profile()
    found = pooled.profile(np.zeros((2, 3), int), np.ones((2, 3), bool), repeats=1)
    assert found.batch == 2


def test_integers_that_the_inputs_type_cannot_hold_are_refused(tmp_path):
    class Counts(nn.Module):
        def forward(self, count):
            return count.float()

    skinny.pack(Counts(), tmp_path / "a.skinny", example=torch.zeros(1, 2, dtype=torch.int32))
    net = skinny.load(tmp_path / "a.skinny")
    for wrong in (2**31, -(2**31) - 1):
        with pytest.raises(InputError, match=f"has {wrong}, which int32 cannot hold"):
            net(np.full((1, 2), wrong))
    most = np.full((1, 2), 2**31 - 1)
    np.testing.assert_array_equal(net(most), most.astype(np.float32))


def test_a_torch_tensor_that_needs_a_gradient_is_an_input_error(tmp_path):
    class Mish(nn.Module):  # which format 1 does not have
        def forward(self, x):
            return nn.functional.mish(x)

    skinny.pack(Mish(), tmp_path / "a.skinny", example=torch.zeros(1, 6))
    with pytest.raises(InputError, match="'x' cannot be made an array: Can't call numpy"):
        skinny.load(tmp_path / "a.skinny")(torch.zeros(1, 6, requires_grad=True))
