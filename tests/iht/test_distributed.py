"""Real processes under DistributedDataParallel: the same masks on all, checked at every update."""

import pytest
import torch
import torch.distributed as dist
from tests.iht.processes import run
from torch import nn

from skinny.errors import SkinnyError
from skinny.iht import timeline
from skinny.iht.controller import IHT


def train_one_rank(folder):
    rank = dist.get_rank()
    torch.manual_seed(0)
    plain = nn.Sequential(nn.Linear(12, 16), nn.ReLU(), nn.Linear(16, 3))
    model = nn.parallel.DistributedDataParallel(plain)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.05, weight_decay=0.1)
    iht = IHT(model, optimizer, timeline.sdnn(epochs=4, sparsity=0.8, dense=1, sparse=1))
    draw = torch.Generator().manual_seed(rank)  # each rank sees its own data
    norms = []
    for _ in range(4):
        iht.begin_epoch()
        for _ in range(3):
            x = torch.randn(8, 12, generator=draw)
            y = torch.randint(0, 3, (8,), generator=draw)
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(x), y).backward()
            norms.append(float(nn.utils.clip_grad_norm_(model.parameters(), 1.0)))
            if iht.sparse:
                assert all((p.grad[~iht.masks[n]] == 0).all() for n, p in iht.weights.items())
            optimizer.step()
            if iht.sparse:
                assert all((p[~iht.masks[n]] == 0).all() for n, p in iht.weights.items())
    torch.save((plain.state_dict(), iht.masks, norms), f"{folder}/{rank}.pt")


def test_every_rank_has_the_same_masks_and_weights(tmp_path):
    run(train_one_rank, 2, str(tmp_path))
    (weights, masks, norms), (weights_1, masks_1, norms_1) = (
        torch.load(tmp_path / f"{rank}.pt", weights_only=True) for rank in (0, 1)
    )
    assert list(masks) == ["0.weight", "2.weight"]
    assert all(torch.equal(masks[name], masks_1[name]) for name in masks)
    assert all(torch.equal(weights[name], weights_1[name]) for name in weights)
    assert norms == norms_1


def change_the_weights_of_one_rank(_):
    torch.manual_seed(0)
    model = nn.parallel.DistributedDataParallel(nn.Sequential(nn.Linear(6, 6), nn.Linear(6, 6)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    iht = IHT(
        torch.compile(model, backend="eager"), optimizer, timeline.oneshot(epochs=2, sparsity=0.5)
    )
    iht.begin_epoch()
    if dist.get_rank() == 1:
        with torch.no_grad():
            model.module[1].weight.copy_(torch.randn(6, 6))
    before = [weight.clone() for weight in model.parameters()]
    with pytest.raises(SkinnyError, match=r"the masks of 1\.weight on rank 1 differ from those on"):
        iht.begin_epoch()
    assert all(map(torch.equal, model.parameters(), before))
    assert iht.masks is None


def test_masks_that_differ_are_an_error_on_every_rank_before_anything_is_zeroed(tmp_path):
    run(change_the_weights_of_one_rank, 2, str(tmp_path))


def make_a_weight_of_one_rank_nan(_):
    model = nn.parallel.DistributedDataParallel(nn.Linear(6, 6))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    iht = IHT(model, optimizer, timeline.oneshot(epochs=2, sparsity=0.5), budget="global")
    iht.begin_epoch()
    if dist.get_rank() == 1:
        with torch.no_grad():
            model.module.weight[0, 0] = float("nan")
    problem = "rank 1, which says why", "1 of 36 entries are NaN"
    with pytest.raises(SkinnyError, match=problem[dist.get_rank()]):
        iht.begin_epoch()


def test_a_mask_update_that_fails_on_one_rank_ends_the_others_too(tmp_path):
    run(make_a_weight_of_one_rank_nan, 2, str(tmp_path))
