"""Several processes train what one process would: real ranks over gloo, and torchrun itself."""

import contextlib
import dataclasses
import os
import shutil
import subprocess
import sys
from itertools import chain

import numpy as np
import pytest
import torch
import torch._dynamo  # which DistributedDataParallel loads: here once, before ranks are forked
from tests.iht.processes import run

import skinny
from skinny.cli.main import main
from skinny.data.share import Share
from skinny.errors import SkinnyError
from skinny.training import (
    Config,
    RunFolder,
    Silent,
    checkpoint,
    distributed,
    load_run,
    outcome,
    packed,
    train,
)
from skinny.training import config as configs

PLAIN = Config(
    name="tiny",
    augment="flip-crop",
    width=0.125,
    dropout=0.0,
    batch_norm=True,
    epochs=4,
    dense=1,
    sparse=1,
    sparsity=0.8,
    eval_every=4,
    batch_size=31,  # shares of 15 and 16 images
    channels_last=True,
)
WITH_DROPOUT = dataclasses.replace(PLAIN, dropout=0.3, seed=1)


class Copies(Silent):
    """Copies the run folder as it is when the third epoch is under way."""

    def __init__(self, folder):
        self.folder = folder

    def step(self, progress):
        if (progress.epoch, progress.step) == (2, 3):
            shutil.copytree(self.folder, f"{self.folder}-halfway")


def save_squares(path, side):
    """100 images to train on, 25 to test by; of three classes, one brighter than the other."""
    labels = np.arange(125) % 3
    noise = np.random.default_rng(0).integers(0, 80, (125, side, side), dtype=np.uint8)
    np.savez(path, images=noise + (80 * labels[:, None, None]).astype(np.uint8), labels=labels)


def on_squares(config, folder, **changes):
    return dataclasses.replace(config, data=f"npz:{folder}/squares.npz", **changes)


def pack_nothing(model, path, **_):
    path.write_bytes(b"")


def train_both(folder):
    for config, name in ((PLAIN, "plain"), (WITH_DROPOUT, "dropout")):
        path = f"{folder}/{name}"
        train(
            on_squares(config, folder), RunFolder(path), observer=Copies(path), checkpoint_seconds=0
        )
        outcome.pack_trained = pack_nothing  # once is enough
    train(on_squares(WITH_DROPOUT, folder), RunFolder(f"{folder}/dropout-halfway"))
    with pytest.raises(SkinnyError, match=r"last batch .* too few images \(1\) for 2 processes"):
        train(on_squares(PLAIN, folder, train_size=32), RunFolder(f"{folder}/one image"))


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("two")
    save_squares(folder / "squares.npz", side=8)
    run(train_both, 2, str(folder))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(outcome, "pack_trained", pack_nothing)
        train(on_squares(PLAIN, folder), RunFolder(folder / "one process"))
        yield folder


def final(path):
    return checkpoint.load(RunFolder(path).checkpoints, pytest.fail, dict)["session"]


def assert_close(path, other):
    """The same masks, and weights, running averages and momentum to rounding."""
    found, expected = final(path), final(other)
    for name, mask in expected["iht"]["masks"].items():
        assert torch.equal(found["iht"]["masks"][name], mask), name
    for name, value in expected["model"].items():
        torch.testing.assert_close(found["model"][name], value, rtol=1e-3, atol=1e-5)
    for index, state in expected["optimizer"]["state"].items():
        buffer = found["optimizer"]["state"][index]["momentum_buffer"]
        torch.testing.assert_close(buffer, state["momentum_buffer"], rtol=1e-2, atol=1e-4)


def test_two_ranks_find_the_masks_and_weights_of_one_process(runs):
    assert_close(runs / "plain", runs / "one process")
    two, one = RunFolder(runs / "plain").result(), RunFolder(runs / "one process").result()
    assert (two["processes"], one["processes"]) == (2, 1)
    assert sum(two["test_images"]) == 25
    for key in ("test_images", "test_errors", "weights", "nonzero"):
        assert two[key] == one[key], key
    assert two["test_loss"] == pytest.approx(one["test_loss"], rel=1e-4)
    for record, expected in zip(
        RunFolder(runs / "plain").metrics(), RunFolder(runs / "one process").metrics(), strict=True
    ):
        assert record["train_loss"] == pytest.approx(expected["train_loss"], rel=1e-4)
        assert record["train_accuracy"] == expected["train_accuracy"]


def test_what_two_ranks_trained_is_packed_as_a_plain_model(runs):
    trained = load_run(runs / "plain")
    images = trained.dataset.test.images[:20]
    mean, std = (
        torch.tensor(v)[:, None, None] for v in (trained.dataset.mean, trained.dataset.std)
    )
    with torch.no_grad():
        expected = trained.model((images / 255 - mean) / std)
    scores = torch.from_numpy(skinny.load(runs / "plain" / "model.skinny")(images.numpy()))
    torch.testing.assert_close(scores, expected, rtol=1e-3, atol=1e-4)


def test_the_same_number_of_ranks_goes_on_exactly(runs):
    whole, resumed = final(runs / "dropout"), final(runs / "dropout-halfway")
    for name, value in whole["model"].items():
        assert torch.equal(resumed["model"][name], value), name
    one, other = (state["random_of_other_ranks"][0]["cpu"] for state in (whole, resumed))
    assert torch.equal(one, other)
    assert not torch.equal(one, whole["random"]["cpu"])  # each rank drops out other activations


def test_another_number_of_ranks_goes_on_from_the_same_step(runs):
    class Hears(Silent):
        heard = ""

        def note(self, text):
            self.heard += text

    observer = Hears()
    train(on_squares(PLAIN, runs), RunFolder(runs / "plain-halfway"), observer=observer)
    assert observer.heard.endswith("from epoch 3, step 2")
    assert_close(runs / "plain-halfway", runs / "one process")


@pytest.mark.parametrize("images", [2, 7, 8, 33])
@pytest.mark.parametrize("count", [1, 2, 3, 8])
def test_shares_make_up_the_batch_in_its_order(images, count):
    batch = list(range(images))
    shares = [batch[Share(index, count).of(images)] for index in range(count)]
    assert list(chain(*shares)) == batch
    assert max(map(len, shares)) - min(map(len, shares)) <= 1


def test_a_process_that_cannot_join_the_others_says_so_in_one_sentence(monkeypatch, capsys):
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.delenv("MASTER_ADDR", raising=False)
    assert main(["train", "demo", "--plan"]) == 1
    error = capsys.readouterr().err
    assert error.startswith("skinny: this process has a RANK, and cannot join the others: ")
    assert "MASTER_ADDR" in error
    assert error.count("\n") == 1


def test_code_that_outlives_errors_does_not_outlive_the_end_of_its_process():
    """As a user's data set may, or torch.export, when torchrun ends the ranks."""
    with pytest.raises(distributed._EndedError), contextlib.suppress(Exception):
        distributed._end()


def test_a_rank_that_is_ended_while_others_load_its_data_tells_of_a_process_that_is_gone():
    """The DataLoader's handler of signals raises where the rank's own error is on its way."""
    with pytest.raises(RuntimeError, match="a loader") as raised:
        try:
            distributed._end()
        finally:
            raise RuntimeError("a loader is gone")
    assert distributed._misses_a_rank(raised.value)
    first = RuntimeError("DataLoader worker (pid 7) is killed by signal: Terminated. ")
    assert distributed._misses_a_rank(first)
    assert not distributed._misses_a_rank(RuntimeError("DataLoader worker exited unexpectedly"))


DIES = """
import os, signal
from torch import nn

class Net(nn.Module):
    def __init__(self, classes, image_size):
        super().__init__()
        self.layer = nn.Linear(image_size[0] * image_size[1], classes)
        self.calls = 0

    def forward(self, x):
        self.calls += self.training
        if os.environ.get("RANK") == "1" and self.calls == 6:
            os.kill(os.getpid(), signal.SIGKILL)
        return self.layer(x.flatten(1))
"""


def test_a_rank_that_dies_ends_all_with_one_line_and_nothing_is_lost(tmp_path, monkeypatch):
    """By torchrun; the rest is trained in this process, to the weights of one that went through."""
    (tmp_path / "dies.py").write_text(DIES)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(outcome, "pack_trained", pack_nothing)
    monkeypatch.setattr(packed, "note_unpackable", lambda *_: None)
    save_squares("squares.npz", side=6)
    config = Config(
        data="npz:squares.npz",
        model="dies:Net",
        epochs=4,
        dense=1,
        sparse=1,
        batch_size=40,
        sparsity=0.8,
    )
    command = [
        *(sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "-m", "skinny"),
        *("train", "--data", "npz:squares.npz", "--model", "dies:Net", "--epochs", "4", "--dense"),
        *("1", "--sparse", "1", "--batch-size", "40", "--sparsity", "0.8", "--device", "cpu"),
    ]
    ended = subprocess.run(
        command,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert ended.returncode == 1
    ours = [line for line in ended.stderr.splitlines() if line.startswith("skinny:")]
    assert len(ours) == 1, ended.stderr
    assert "another process of this training ended before it was done" in ours[0]
    assert "skinny/cli/main.py" not in ended.stderr  # torchrun's traceback, but none of a rank
    assert ended.stdout.count("epoch 1/4") == 1
    folder = RunFolder(tmp_path / "runs" / config.run_name)
    assert len(folder.metrics()) == 1
    train(config, folder)
    train(config, RunFolder(tmp_path / "whole"))
    assert configs.identity(folder.config()) == configs.identity(config)
    assert_close(folder.path, tmp_path / "whole")
