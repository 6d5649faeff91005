"""The examples of trainers run, on little data, and end within their budget."""

import socket
from pathlib import Path

import pytest
import torch.multiprocessing as mp
from accelerate.state import AcceleratorState
from tests.integrations import torchrun
from tests.integrations.torchrun import FOLDER, example

import skinny

TRAINERS = sorted(path.stem for path in FOLDER.glob("train_*.py"))
IN_ONE_PROCESS = ["train_accelerate", "train_ema", "train_lightning", "train_loop"]
BY_TORCHRUN = ["train_ddp", "train_fsdp2"]


def test_every_example_of_a_trainer_is_run_here_and_short():
    assert sorted([*IN_ONE_PROCESS, *BY_TORCHRUN, "train_transformers"]) == TRAINERS
    for name in TRAINERS:
        assert len((FOLDER / f"{name}.py").read_text("utf-8").splitlines()) < 80, name


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    AcceleratorState._reset_state(reset_partial_state=True)


@pytest.mark.parametrize("name", IN_ONE_PROCESS)
# Lightning 2.6 uses a class that torch 2.13 deprecates; the other is advice
@pytest.mark.filterwarnings("ignore:`isinstance.treespec, LeafSpec.` is deprecated")
@pytest.mark.filterwarnings("ignore:The 'train_dataloader' does not have many workers")
def test_an_example_trains_within_its_budget(name):
    kept = example(name).main(epochs=3, images=256)
    assert sum(kept.values()) == 740


def test_the_example_of_text_trains_and_packs():
    kept = example("train_transformers").main(
        epochs=3, texts=64, folder="out", use_cpu=True, disable_tqdm=True,
        dataloader_pin_memory=False,
    )  # fmt: skip
    assert all(count > 0 for count in kept.values())
    assert Path("out/model.safetensors").exists()
    assert Path("out/tokenizer.json").exists()
    packed = skinny.unpack("out/bert.skinny")
    assert {name: int(packed[name].count_nonzero()) for name in kept} == kept


@pytest.mark.parametrize("name", BY_TORCHRUN)
def test_an_example_for_torchrun_trains_on_two_ranks(name):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    mp.get_context("forkserver").set_forkserver_preload(["torch", torchrun.__name__])
    mp.start_processes(torchrun.as_torchrun, (2, name, port), 2, start_method="forkserver")
