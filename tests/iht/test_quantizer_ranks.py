"""`quantize` on several ranks: one network, with ranges that hold for the batches of all."""

import pytest
import torch
import torch.distributed as dist
from tests.iht.processes import run
from torch import nn
from torch.distributed.fsdp import fully_shard

from skinny.errors import SkinnyError
from skinny.iht import ranks, timeline
from skinny.iht.controller import IHT

LINE = timeline.sdnn(steps=8, sparsity=0.5, dense=1, sparse=3)
ROWS = 5  # of the last layer, which two ranks cannot share evenly


def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 7), nn.ReLU(), nn.Linear(7, ROWS))


def train(wrap, quantize):
    """Ranks differ in their batches: those of rank 1 are ten times as large."""
    model = wrap(network())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    iht = IHT(model, optimizer, LINE, quantize=quantize)
    draw = torch.Generator().manual_seed(dist.get_rank())
    iht.begin_epoch()
    for _ in range(8):
        x = torch.randn(4, 6, generator=draw) * 10 ** dist.get_rank()
        optimizer.zero_grad()
        nn.functional.cross_entropy(
            model(x), torch.randint(0, ROWS, (4,), generator=draw)
        ).backward()
        optimizer.step()
    weights = {name: ranks.whole(weight.detach()).clone() for name, weight in iht.weights.items()}
    return iht.ranges, weights


def train_and_save(folder):
    shard = {"ddp": nn.parallel.DistributedDataParallel, "fsdp2": fully_shard}
    made = {name: train(wrap, "int8") for name, wrap in shard.items()}
    made["codebook"] = train(nn.parallel.DistributedDataParallel, "codebook2")
    torch.save(made, f"{folder}/{dist.get_rank()}.pt")
    with pytest.raises(SkinnyError, match="can be quantised to int8, not to codebook4"):
        train(fully_shard, "codebook4")


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("ranks")
    run(train_and_save, 2, str(folder))
    return [torch.load(folder / f"{rank}.pt", weights_only=True) for rank in (0, 1)]


@pytest.mark.parametrize("kind", ["ddp", "fsdp2"])
def test_all_ranks_share_the_ranges_of_all_batches(trained, kind):
    (ranges, _), (ranges_1, _) = (made[kind] for made in trained)
    assert list(ranges) == ["0.weight", "2.weight"]
    assert ranges == ranges_1
    low, high = ranges["0.weight"]
    assert low < -5  # of rank 1's inputs; those of rank 0 are hardly beyond 3
    assert high > 5


def test_ddp_and_fsdp2_train_the_same_network(trained):
    (ranges, weights), (sharded_ranges, sharded) = (trained[0][kind] for kind in ("ddp", "fsdp2"))
    for name, weight in weights.items():
        torch.testing.assert_close(sharded[name], weight)
        assert ranges[name] == pytest.approx(sharded_ranges[name])


@pytest.mark.parametrize("kind", ["ddp", "fsdp2", "codebook"])
def test_all_ranks_have_the_same_rounded_weights(trained, kind):
    (_, weights), (_, weights_1) = (made[kind] for made in trained)
    for name, weight in weights.items():
        assert torch.equal(weight, weights_1[name])
        for row in weight if kind != "codebook" else [weight.reshape(-1)]:
            if kind == "codebook":
                assert len(row[row != 0].unique()) <= 4
            else:
                steps = row / (row.abs().max().clamp(min=1e-20) / 127)
                torch.testing.assert_close(steps, steps.round(), rtol=0, atol=1e-3)
