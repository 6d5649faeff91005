"""FSDP2 (`fully_shard`) in real processes: masks, budgets and states of one process, in shards."""

import itertools

import pytest
import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from tests.iht.processes import run
from torch import nn
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.fsdp import FullyShardedDataParallel, fully_shard
from torch.distributed.tensor import Replicate, Shard, distribute_tensor
from torch.distributed.tensor.parallel import ColwiseParallel, parallelize_module

from skinny.errors import SkinnyError
from skinny.iht import masks as masking
from skinny.iht import threshold, timeline
from skinny.iht.budget import globally
from skinny.iht.controller import IHT
from skinny.iht.patterns import Pattern, Structured, fits
from skinny.integrations.accelerate import WholeState

LINE = timeline.sdnn(steps=12, sparsity=0.8, dense=2, sparse=2)  # D2 S2 D2 S2 D2 S2
OPTIONS = {"restore": "last", "budget": "global"}
SAVED = 7  # steps before the checkpoint
MESSAGE = r"0\.weight, 2\.weight, 4\.weight of the model is no longer the tensor"


def network():
    """Few rows in the last layer: with four ranks, one of them has none."""
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Linear(8, 17), nn.ReLU(), nn.Linear(17, 10), nn.ReLU(), nn.Linear(10, 3)
    )


def sharded():
    model = network()
    mesh = dist.init_device_mesh("cpu", (dist.get_world_size(),))
    fully_shard(model[0], mesh=mesh)
    return fully_shard(model, mesh=mesh)


class Training:
    """Model and optimizer as the documents of torch save them."""

    def __init__(self, model, optimizer):
        self.owners = model, optimizer

    def state_dict(self):
        model, optimizer = get_state_dict(*self.owners)
        return {"model": model, "optimizer": optimizer}

    def load_state_dict(self, state):
        set_state_dict(
            *self.owners, model_state_dict=state["model"], optim_state_dict=state["optimizer"]
        )


def batch(number):
    draw = torch.Generator().manual_seed(number)
    return torch.randn(8, 8, generator=draw), torch.randint(0, 3, (8,), generator=draw)


def step(model, optimizer, x, y):
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(x), y).backward()
    optimizer.step()


def train(model, optimizer, iht, steps):
    """All ranks see the same batches, so that one process would compute the same gradients."""
    for number in steps:
        was_sparse = iht.sparse
        step(model, optimizer, *batch(number))
        for name, weight in iht.weights.items():
            if was_sparse and iht.sparse:
                assert not weight.grad.full_tensor()[~mask(iht, name)].any()
            if iht.sparse:
                assert not weight.full_tensor()[~mask(iht, name)].any()


def mask(iht, name):
    return iht.masks[name].full_tensor()


def make(model, **options):
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.02, weight_decay=0.1)
    return optimizer, IHT(model, optimizer, LINE, **options)


def check_thresholds(mesh, placements):
    """Masks of shards against masks of the whole, with many ties."""
    for rows, k in itertools.product((1, 3, 7), (1, 5, 11)):
        draw = torch.Generator().manual_seed(k)
        x = torch.randint(-3, 4, (rows, 11), generator=draw).float()
        within = torch.rand(rows, 11, generator=draw) < 0.9
        if within.sum() < k:
            continue
        spread = distribute_tensor(x, mesh, placements)
        inside = distribute_tensor(within, mesh, placements)
        for whole, shards in ((None, None), (within, inside)):
            expected = threshold.magnitude_mask(x, k, whole)
            assert torch.equal(threshold.magnitude_mask(spread, k, shards).full_tensor(), expected)
            drawn = [
                threshold.random_mask(t, k, w, generator=torch.Generator().manual_seed(k))
                for t, w in ((x, whole), (spread, shards))
            ]
            assert torch.equal(drawn[1].full_tensor(), drawn[0])
        assert masking.change_ratio(inside, ~inside) == 1
        both = {"a": x, "b": x + 1}
        in_shards = {name: distribute_tensor(t, mesh, placements) for name, t in both.items()}
        assert globally(in_shards, 0.7) == globally(both, 0.7)


def check_patterns(mesh, rows=7):
    """Groups lie along the columns, so that each rank has whole ones."""
    x = torch.randint(-3, 4, (rows, 8), generator=torch.Generator().manual_seed(0)).float()
    spread = distribute_tensor(x, mesh, [Shard(0)])
    for pattern, score in itertools.product((Pattern(4), Pattern(4, 1)), ("magnitude", "random")):
        structured = {"x": Structured(pattern, 1)}
        assert not fits(pattern, spread, 0)
        alone, shards = (
            masking.build(
                {"x": tensor}, {"x": 2 * rows if pattern.keep else 4 * (rows - 2)}, score=score,
                structured=structured, generator=torch.Generator().manual_seed(0),
            )["x"]
            for tensor in (x, spread)
        )  # fmt: skip
        assert torch.equal(shards.full_tensor(), alone)


def train_and_save(folder):
    model = sharded()
    optimizer, iht = make(model, **OPTIONS)
    train(model, optimizer, iht, range(SAVED))
    dcp.save({"training": Training(model, optimizer), "iht": iht}, checkpoint_id=f"{folder}/saved")
    train(model, optimizer, iht, range(SAVED, LINE.total))
    return model, iht


def load_and_train(folder):
    model = sharded()
    optimizer, iht = make(model, **OPTIONS)
    dcp.load({"training": Training(model, optimizer), "iht": iht}, checkpoint_id=f"{folder}/saved")
    train(model, optimizer, iht, range(SAVED, LINE.total))
    return model, iht


def check_as_in_one_process(model, iht):
    alone = network()
    optimizer, iht_alone = make(alone, **OPTIONS)
    for number in range(LINE.total):
        step(alone, optimizer, *batch(number))
    assert iht.finish() == iht_alone.finish()
    assert iht.history == iht_alone.history
    assert all(torch.equal(mask(iht, name), iht_alone.masks[name]) for name in iht.masks)
    for found, expected in zip(model.parameters(), alone.parameters(), strict=True):
        torch.testing.assert_close(found.full_tensor().detach(), expected.detach())


def check_refusals(mesh):
    optimizer, early = make(model := network())
    fully_shard(model, mesh=mesh)
    with pytest.raises(SkinnyError, match=MESSAGE):
        step(model, optimizer, *batch(0))
    with pytest.raises(SkinnyError, match=MESSAGE):
        early.finish()
    with pytest.raises(
        SkinnyError, match=r"\(FSDP1\) flattens .* use torch.distributed.fsdp.fully"
    ):
        make(FullyShardedDataParallel(network(), device_id=torch.device("cpu")))
    by_columns = network()
    for layer in by_columns[::2]:
        layer.weight = nn.Parameter(distribute_tensor(layer.weight.detach(), mesh, [Shard(1)]))
    with pytest.raises(SkinnyError, match=r"0\.weight is spread over ranks by S\(1\): IHT takes"):
        make(by_columns)


def check_tensor_parallel(mesh):
    """Column-wise parallel layers hold rows of their weights, as those of FSDP2 do."""
    layers = {name: ColwiseParallel(output_layouts=Replicate()) for name in "024"}
    model = parallelize_module(network(), mesh, layers)
    optimizer, iht = make(model, **OPTIONS)
    train(model, optimizer, iht, range(LINE.total))
    check_as_in_one_process(model, iht)


def check_gathered_weights():
    """FSDP2 keeps the outermost weights gathered after an evaluation, as copies of the shards."""
    model = sharded()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    iht = IHT(model, optimizer, timeline.oneshot(epochs=2, sparsity=0.8, dense=1))
    iht.begin_epoch()
    x, _ = batch(0)
    alone = network()
    with torch.no_grad():
        assert torch.equal(model(x), alone(x))
        iht.begin_epoch()
        assert iht.apply_to(alone) == iht.finish()
        torch.testing.assert_close(model(x), alone(x))


def check_files_that_one_rank_writes(folder):
    """As accelerate has it done, by pickle: whole masks are loaded, and shards are refused."""
    model = sharded()
    optimizer, iht = make(model, **OPTIONS)
    train(model, optimizer, iht, range(3))
    states = {"whole": WholeState(iht).state_dict(), "shards": iht.state_dict()}
    if dist.get_rank() == 0:
        torch.save(states, f"{folder}/states")
    dist.barrier()
    states = torch.load(f"{folder}/states", weights_only=False)
    iht.detach()
    _, again = make(model, **OPTIONS)
    WholeState(again).load_state_dict(states["whole"])
    assert all(torch.equal(mask(again, name), mask(iht, name)) for name in iht.masks)
    with pytest.raises(SkinnyError, match="one rank's file does not hold the masks of all"):
        again.load_state_dict(states["shards"])


def check_a_nan_on_one_rank(mesh):
    x = torch.ones(6, 5)
    x[5, 1] = float("nan")
    with pytest.raises(SkinnyError, match=r"layer x: .* 1 of 30 entries are NaN"):
        masking.build({"x": distribute_tensor(x, mesh, [Shard(0)])}, {"x": 3})


def two_ranks(folder):
    mesh = dist.init_device_mesh("cpu", (2,))
    check_thresholds(mesh, [Shard(0)])
    check_as_in_one_process(*train_and_save(folder))
    check_tensor_parallel(mesh)
    check_gathered_weights()
    check_a_nan_on_one_rank(mesh)
    check_patterns(mesh)
    check_files_that_one_rank_writes(folder)
    check_refusals(mesh)


def four_ranks(folder):
    mesh = dist.init_device_mesh("cpu", (4,))
    check_thresholds(mesh, [Shard(0)])
    check_patterns(mesh, rows=3)  # one rank has none
    check_thresholds(dist.init_device_mesh("cpu", (2, 2)), [Replicate(), Shard(0)])
    check_as_in_one_process(*load_and_train(folder))


def test_two_ranks_train_as_one_process_and_four_go_on_from_their_checkpoint(tmp_path):
    run(two_ranks, 2, str(tmp_path))
    run(four_ranks, 4, str(tmp_path))
