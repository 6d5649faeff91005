"""`IHTCallback` in Lightning's Trainer, in one process."""

import copy
import csv
import os

import pytest
import torch
import torch.distributed as dist
from lightning.pytorch import LightningModule, Trainer
from lightning.pytorch.callbacks import Callback, EMAWeightAveraging, ModelCheckpoint
from lightning.pytorch.loggers import CSVLogger
from lightning.pytorch.strategies import DDPStrategy, ModelParallelStrategy
from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.utils.data import DataLoader

import skinny
from skinny.errors import SkinnyError
from skinny.integrations.lightning import IHTCallback

pytestmark = [
    # Lightning 2.6 uses a class that torch 2.13 deprecates
    pytest.mark.filterwarnings("ignore:`isinstance.treespec, LeafSpec.` is deprecated"),
    pytest.mark.filterwarnings("ignore:The '.*_dataloader' does not have many workers"),
    pytest.mark.filterwarnings("ignore:The number of training batches"),
    # the trainings here resume without the ModelCheckpoint that saved
    pytest.mark.filterwarnings("ignore:Be aware that when using `ckpt_path`"),
    # and mid-epoch with batches that are a function of the step
    pytest.mark.filterwarnings("ignore:You're resuming from a checkpoint that ended before the ep"),
    # says that fp16 on a CPU is slow
    pytest.mark.filterwarnings(
        "ignore:You passed `Trainer.accelerator='cpu', precision='16-mixed'"
    ),
]

BATCHES = 4  # an epoch
EPOCHS = skinny.timeline.sdnn(epochs=6, sparsity=0.8, dense=1, sparse=2)  # D1 S2 D1 S2
STEPS = skinny.timeline.sdnn(steps=24, sparsity=0.8, dense=3, sparse=5)
LINES = pytest.mark.parametrize("line", [EPOCHS, STEPS], ids=["epochs", "steps"])


def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(12, 16), nn.ReLU(), nn.Linear(16, 3))


class Module(LightningModule):
    """Its batches are a function of the step, whatever a resumed loader starts with."""

    def __init__(self, automatic=True):
        super().__init__()
        self.net = network()
        self.automatic_optimization = automatic
        self.example_input_array = torch.zeros(1, 12)

    def forward(self, x):
        return self.net(x)

    def training_step(self, batch, number):
        draw = torch.Generator().manual_seed(100 * self.current_epoch + number)
        x, y = torch.randn(8, 12, generator=draw), torch.randint(0, 3, (8,), generator=draw)
        loss = nn.functional.cross_entropy(self(x.to(self.dtype)), y)
        if not self.automatic_optimization:
            for optimizer in self.optimizers():
                optimizer.zero_grad()
            self.manual_backward(loss)
            for optimizer in self.optimizers():
                optimizer.step()
        return loss

    def configure_optimizers(self):
        if self.automatic_optimization:
            return torch.optim.AdamW(self.parameters(), lr=0.02, weight_decay=0.1)
        matrices = [self.net[0].weight, self.net[2].weight]
        biases = [self.net[0].bias, self.net[2].bias]
        return torch.optim.Muon(matrices, lr=0.02), torch.optim.AdamW(biases, lr=0.02)


class Watch(Callback):
    """Truncated weights are zero after every batch."""

    def __init__(self):
        self.sparse = 0

    def on_train_batch_end(self, trainer, module, *_):
        iht = next(c for c in trainer.callbacks if isinstance(c, IHTCallback)).iht
        if iht.sparse:
            self.sparse += 1
            assert not any(w[~iht.masks[n]].any() for n, w in iht.weights.items())


def fit(callback, *others, module=None, epochs=6, ckpt_path=None, **options):
    module = module or Module()
    quiet = {"enable_progress_bar": False, "enable_model_summary": False, "accelerator": "cpu"}
    saves = any(isinstance(other, ModelCheckpoint) for other in others)
    trainer = Trainer(
        max_epochs=epochs,
        callbacks=[callback, *others],
        enable_checkpointing=saves,
        **{"logger": False, **quiet, **options},
    )
    trainer.fit(module, DataLoader(torch.zeros(BATCHES, 1)), ckpt_path=ckpt_path)
    return trainer


class Sharded(Module):
    def configure_model(self):
        if not hasattr(self.net, "unshard"):
            fully_shard(self.net, mesh=self.device_mesh["data_parallel"])


@pytest.fixture
def process_group(tmp_path):
    """One rank; `tests.integrations.two_ranks` has two."""
    environment = dict(os.environ)
    dist.init_process_group("gloo", init_method=f"file://{tmp_path}/group", rank=0, world_size=1)
    yield
    dist.destroy_process_group()
    os.environ.clear()  # of what Lightning says there of its ranks
    os.environ.update(environment)


def weights(module):
    found = [p.detach().clone() for p in module.net.parameters()]
    return [p.full_tensor() if hasattr(p, "full_tensor") else p for p in found]


def equal(a, b):
    return all(map(torch.equal, weights(a), weights(b)))


@LINES
def test_the_trainer_trains_as_a_loop_with_iht_does(line):
    module = Module()
    callback = IHTCallback(line, budget="uniform")
    fit(callback, watch := Watch(), module=module)
    assert watch.sparse >= 14
    alone = network()
    optimizer = torch.optim.AdamW(alone.parameters(), lr=0.02, weight_decay=0.1)
    iht = skinny.IHT(alone, optimizer, line, budget="uniform")
    for epoch in range(6):
        iht.begin_epoch()
        for number in range(BATCHES):
            draw = torch.Generator().manual_seed(100 * epoch + number)
            x, y = torch.randn(8, 12, generator=draw), torch.randint(0, 3, (8,), generator=draw)
            optimizer.zero_grad()
            nn.functional.cross_entropy(alone(x), y).backward()
            optimizer.step()
    assert all(map(torch.equal, module.net.parameters(), alone.parameters()))
    assert list(callback.iht.finish().values()) == list(iht.finish().values())


@pytest.mark.parametrize(("line", "restore"), [(EPOCHS, "zero"), (STEPS, "last")])
def test_checkpoints_at_any_step_resume_exactly(line, restore, tmp_path):
    whole = Module()
    saver = ModelCheckpoint(tmp_path, "{step}", every_n_train_steps=3, save_top_k=-1)
    first = IHTCallback(line, restore=restore)
    fit(first, saver, module=whole)
    for step in (3, 9, 12, 18):  # in the middle of epochs and at their end, dense and sparse
        again, resumed = Module(), IHTCallback(line, restore=restore)
        fit(resumed, Watch(), module=again, ckpt_path=tmp_path / f"step={step}.ckpt")
        assert equal(again, whole), step
        assert resumed.iht.history == first.iht.history


def test_a_checkpoint_of_the_end_of_an_epoch_resumes_exactly(tmp_path):
    whole = Module()
    saver = ModelCheckpoint(tmp_path, "{epoch}", every_n_epochs=1, save_top_k=-1)
    fit(IHTCallback(EPOCHS), saver, module=whole)
    for epoch in (0, 2, 4):
        fit(
            IHTCallback(EPOCHS),
            module=(again := Module()),
            ckpt_path=tmp_path / f"epoch={epoch}.ckpt",
        )
        assert equal(again, whole), epoch


@pytest.mark.parametrize("precision", ["bf16-mixed", "bf16-true", "16-mixed", "64-true"])
def test_truncated_weights_stay_zero_in_every_precision(precision):
    options = {"precision": precision, "accumulate_grad_batches": 2, "gradient_clip_val": 0.1}
    fit(callback := IHTCallback(EPOCHS), watch := Watch(), **options)
    assert watch.sparse == 16
    assert callback.iht.finish() == {"net.0.weight": 29, "net.2.weight": 19}


@LINES
@pytest.mark.filterwarnings("ignore:Using ModelCheckpoint with manual optimization")
def test_several_optimizers_of_manual_optimization_have_one_budget_and_resume(line, tmp_path):
    whole = Module(automatic=False)
    saver = ModelCheckpoint(tmp_path, "at", every_n_train_steps=18)  # counts both optimizers
    fit(callback := IHTCallback(line), Watch(), saver, module=whole)
    again = Module(automatic=False)
    fit(resumed := IHTCallback(line), module=again, ckpt_path=tmp_path / "at.ckpt")
    assert equal(again, whole)
    assert resumed.iht.history == callback.iht.history


def test_sparsity_and_change_ratio_are_in_the_logger_and_in_the_callback_metrics(tmp_path):
    logger = CSVLogger(tmp_path)
    trainer = fit(callback := IHTCallback(STEPS, log_layers=True), logger=logger)
    assert trainer.callback_metrics["iht/sparsity"] == pytest.approx(0.8)
    with open(logger.experiment.metrics_file_path, encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    events = [row for row in rows if row["iht/sparsity/net.0.weight"]]
    assert [row["step"] for row in events] == ["3", "8", "11", "16", "19"]
    assert [float(row["iht/sparsity"]) > 0 for row in events] == [True, False, True, False, True]
    changed = callback.iht.history[-1]
    assert float(events[-1]["iht/change_ratio"]) == pytest.approx(changed.change_ratio)
    layer = float(events[-1]["iht/change_ratio/net.0.weight"])
    assert layer == pytest.approx(changed.change["net.0.weight"])
    assert not events[0]["iht/change_ratio"]
    assert sum(bool(row["iht/sparsity"]) for row in rows) == len(events) + 6


def test_the_average_that_lightning_leaves_in_the_module_is_given_the_masks():
    fit(callback := IHTCallback(EPOCHS), EMAWeightAveraging(decay=0.9), module=(module := Module()))
    with pytest.raises(SkinnyError, match=r"net\.0\.weight has 192 weights, and its budget is 29"):
        callback.iht.finish()
    assert callback.iht.apply_to(module) == callback.iht.finish()


def test_the_best_checkpoint_is_one_that_meets_the_budget(tmp_path):
    class Judged(Module):
        def on_train_epoch_end(self):
            self.log("badness", float(self.current_epoch))  # the first epoch is the best

    saver = ModelCheckpoint(tmp_path, "{epoch}", monitor="badness")
    fit(callback := IHTCallback(EPOCHS), saver, module=Judged())
    assert saver.best_model_path == str(tmp_path / "epoch=4.ckpt")
    state = torch.load(saver.best_model_path, weights_only=True)["state_dict"]
    assert all(state[n].count_nonzero() == k for n, k in callback.iht.finish().items())


def test_the_model_is_packed_when_the_training_is_over(tmp_path):
    module = Module()
    pack = {"path": tmp_path / "m.skinny", "labels": ["a", "b", "c"]}
    fit(IHTCallback(EPOCHS, pack=pack), module=module)
    net = skinny.load(tmp_path / "m.skinny")
    x = torch.randn(5, 12)
    torch.testing.assert_close(torch.from_numpy(net(x.numpy())), module(x).detach())
    assert net.labels == ["a", "b", "c"]


STRATEGIES = {
    "ddp": (Module, DDPStrategy),
    "fsdp2": (Sharded, lambda: ModelParallelStrategy(1, 1)),
    "fsdp2, one file": (Sharded, lambda: ModelParallelStrategy(1, 1, False)),
}


@pytest.fixture
def alone():
    """What is trained without a strategy."""
    fit(IHTCallback(STEPS, restore="last"), module=(module := Module()))
    return module


@pytest.mark.parametrize("kind", STRATEGIES)
def test_strategies_of_several_processes_save_and_resume(kind, tmp_path, alone, process_group):
    module, strategy = STRATEGIES[kind]
    options = {"devices": 1, "use_distributed_sampler": False}
    saver = ModelCheckpoint(tmp_path / "saved", "{step}", every_n_train_steps=9, save_top_k=-1)
    callback = IHTCallback(STEPS, restore="last")
    fit(callback, saver, module=(trained := module()), strategy=strategy(), **options)
    assert equal(trained, alone)
    fit(
        resumed := IHTCallback(STEPS, restore="last"), module=(again := module()),
        strategy=strategy(), ckpt_path=tmp_path / "saved" / "step=9.ckpt", **options,
    )  # fmt: skip
    assert equal(again, trained)
    assert resumed.iht.history == callback.iht.history


@pytest.mark.usefixtures("process_group")
def test_a_sharded_model_is_not_packed_at_the_end(tmp_path):
    with pytest.raises(SkinnyError, match="pack needs a model that is not sharded"):
        fit(
            IHTCallback(STEPS, pack={"path": tmp_path / "m.skinny"}), module=Sharded(),
            strategy=ModelParallelStrategy(1, 1), devices=1,
        )  # fmt: skip


def test_a_second_fit_goes_on_with_the_timeline():
    callback, module = IHTCallback(EPOCHS), Module()
    with pytest.warns(UserWarning, match=r"not yet what its IHT promises: .* after 3 of 6 epochs"):
        trainer = fit(callback, module=module, epochs=3)
    masks = copy.deepcopy(callback.iht.masks)
    trainer.fit_loop.max_epochs = 6
    trainer.fit(module, DataLoader(torch.zeros(BATCHES, 1)))
    assert callback.iht.finish() == {"net.0.weight": 29, "net.2.weight": 19}
    assert any((masks[name] != mask).any() for name, mask in callback.iht.masks.items())


def test_a_checkpoint_without_the_state_of_iht_is_noticed(tmp_path):
    saver = ModelCheckpoint(tmp_path, "at", every_n_train_steps=BATCHES)
    fit(Callback(), saver, epochs=1)
    with pytest.warns(UserWarning, match="IHT begins at the start of its timeline, but the optimi"):
        fit(IHTCallback(EPOCHS), epochs=7, ckpt_path=tmp_path / "at.ckpt")


def test_an_unknown_option_is_an_error_when_the_callback_is_made():
    with pytest.raises(
        SkinnyError, match="no option 'sparsity'; of IHT it takes budget, pattern, qu"
    ):
        IHTCallback(EPOCHS, sparsity=0.9)
