"""Trainers on several real ranks: trained, saved in the middle, resumed, compared.

    torchrun --nproc-per-node 2 -m tests.integrations.two_ranks

Not part of the test suite, because each rank imports Lightning and transformers, which takes longer
than many tests; the suite has the same strategies with one rank, and IHT itself with two and four.
"""

import tempfile
import warnings
from pathlib import Path

import torch
import torch.distributed as dist
from lightning.pytorch.callbacks import ModelCheckpoint
from lightning.pytorch.strategies import DDPStrategy, ModelParallelStrategy
from tests.integrations import test_lightning as lightning
from tests.integrations import test_transformers as transformers

from skinny.integrations.lightning import IHTCallback


def whole(parameters):
    return [p.full_tensor() if hasattr(p, "full_tensor") else p.detach() for p in parameters]


def check_lightning(module, strategy, folder):
    """Each rank sees the same batches, so that one process computes the same masks."""
    saver = ModelCheckpoint(folder, "{step}", every_n_train_steps=3, save_top_k=-1)
    options = {"devices": dist.get_world_size(), "use_distributed_sampler": False}
    callback, trained = IHTCallback(lightning.STEPS, restore="last"), module()
    lightning.fit(callback, saver, module=trained, strategy=strategy(), **options)
    alone = lightning.Module()
    expected = IHTCallback(lightning.STEPS, restore="last")
    lightning.fit(expected, module=alone)
    assert callback.iht.finish() == expected.iht.finish()
    for found, mask in zip(
        whole(callback.iht.masks.values()), expected.iht.masks.values(), strict=True
    ):
        assert torch.equal(found, mask)
    again, resumed = module(), IHTCallback(lightning.STEPS, restore="last")
    at = folder / "step=9.ckpt"
    lightning.fit(resumed, module=again, strategy=strategy(), ckpt_path=at, **options)
    assert all(map(torch.equal, whole(again.parameters()), whole(trained.parameters())))
    assert resumed.iht.history == callback.iht.history


def check_transformers(folder):
    options = {"save_strategy": "steps", "save_steps": 2, "per_device_train_batch_size": 2}
    trained = transformers.trainer(folder, **options, ddp_backend="gloo")
    iht = transformers.train(trained)
    assert type(trained.model_wrapped).__name__ == "DistributedDataParallel"
    again = transformers.trainer(folder, **options, ddp_backend="gloo")
    found = transformers.train(again, resume_from_checkpoint=str(folder / "checkpoint-4"))
    assert transformers.same(again, trained)
    assert found.finish() == iht.finish()


def main():
    warnings.filterwarnings("ignore")
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    folder = [tempfile.mkdtemp()]
    dist.broadcast_object_list(folder)
    for name, check in {
        "Lightning, DDP": lambda at: check_lightning(lightning.Module, DDPStrategy, at),
        "Lightning, FSDP2": lambda at: check_lightning(
            lightning.Sharded, lambda: ModelParallelStrategy(dist.get_world_size(), 1), at
        ),
        "transformers, DDP": check_transformers,
    }.items():
        check(Path(folder[0], name))
        if dist.get_rank() == 0:
            print(name, "on", dist.get_world_size(), "ranks: as it should be", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
