"""Which precisions a device has, and that the user hears of one that is only emulated."""

import dataclasses

import pytest
import torch

from skinny.errors import SkinnyError
from skinny.training import Config, RunFolder, Silent, precision, train

TINY = Config(name="tiny", data="digits", train_size=100, model="nin-digits", width=0.25)
TINY = dataclasses.replace(TINY, epochs=2, dense=1, sparse=1, batch_size=32, sparsity=0.8)
CPU, GPU = torch.device("cpu"), torch.device("cuda")
WITHOUT = {"architecture": "x86_64", "avx512_f": True, "avx512_bf16": False, "amx_bf16": False}


@pytest.fixture
def capabilities(monkeypatch):
    """Sets what PyTorch says of this CPU."""

    def say(**capabilities):
        monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: capabilities, raising=False)

    return say


def test_what_is_computed():
    a = torch.randn(4, 4)
    dtypes = {"fp32": torch.float32, "bf16": torch.bfloat16}
    for name, dtype in dtypes.items():
        with precision.autocast(name, CPU):
            assert (a @ a).dtype == dtype


def test_a_gpu_without_bf16_is_refused(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda: False)
    with pytest.raises(SkinnyError, match="this GPU has no bf16"):
        precision.check("bf16", GPU)
    precision.check("fp16", GPU)
    precision.check("bf16", CPU)
    with pytest.raises(SkinnyError, match="fp16 is for GPUs"):
        precision.check("fp16", CPU)


@pytest.mark.parametrize("name", ["avx512_bf16", "amx_bf16", "sve_bf16", "bf16"])
def test_a_cpu_with_instructions_for_bf16_does_not_emulate_it(capabilities, name):
    capabilities(**WITHOUT)
    assert precision.is_emulated("bf16", CPU)
    assert not precision.is_emulated("bf16", GPU)
    assert not precision.is_emulated("fp32", CPU)
    capabilities(**{**WITHOUT, name: True})
    assert not precision.is_emulated("bf16", CPU)


def test_of_an_unknown_processor_nothing_is_said(capabilities):
    capabilities(architecture="s390x")
    assert not precision.is_emulated("bf16", CPU)


def test_an_older_pytorch_cannot_tell(monkeypatch):
    monkeypatch.delattr(torch.cpu, "get_capabilities", raising=False)
    assert not precision.is_emulated("bf16", CPU)


class Listening(Silent):
    """Keeps what is said, and breaks off in the second epoch as Ctrl-C would, if it is to."""

    def __init__(self, *, breaks_off=False):
        self.said, self.breaks_off = [], breaks_off

    def note(self, text):
        self.said.append(text)

    def step(self, progress):
        if self.breaks_off and progress.epoch == 1:
            raise KeyboardInterrupt


def test_the_user_hears_of_it_once_and_not_when_it_goes_on(capabilities, tmp_path):
    capabilities(**WITHOUT)
    config = dataclasses.replace(TINY, precision="bf16")
    first, second = Listening(breaks_off=True), Listening()
    with pytest.raises(KeyboardInterrupt):
        train(config, RunFolder(tmp_path), observer=first)
    assert any(
        "only emulates bf16; --precision fp32 would be faster" in text for text in first.said
    )
    train(config, RunFolder(tmp_path), observer=second)
    assert not any("emulates" in text for text in second.said)


def test_nothing_is_said_of_fp32(capabilities, tmp_path):
    capabilities(**WITHOUT)
    observer = Listening()
    train(TINY, RunFolder(tmp_path), observer=observer)
    assert observer.said == []
