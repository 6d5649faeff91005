"""Runs that are trained for few bits: resumed, evaluated again, packed."""

import dataclasses

import pytest
import torch

from skinny import data, packing
from skinny.iht import fake_quantize, input_range
from skinny.training import Config, RunFolder, Silent, evaluate, load_run, train

pytestmark = pytest.mark.usefixtures("graphs_taken_once")
TINY = Config(
    name="tiny",
    train_size=100,
    width=0.125,
    epochs=3,
    dense=1,
    sparse=2,
    batch_size=32,
    sparsity=0.8,
    batch_norm=True,
)


class Stop(Silent):
    """Breaks off in the last epoch, as Ctrl-C would."""

    def step(self, progress):
        if progress.epoch == 2:
            raise KeyboardInterrupt


@pytest.mark.parametrize("quantize", ["int8", "int8-after", "codebook3"])
def test_a_run_resumes_exactly_and_is_evaluated_as_it_was_trained(quantize, tmp_path):
    config = dataclasses.replace(TINY, quantize=quantize)
    result = train(config, RunFolder(tmp_path / "whole"))
    with pytest.raises(KeyboardInterrupt):
        train(config, RunFolder(tmp_path / "again"), observer=Stop())
    train(config, RunFolder(tmp_path / "again"))
    whole, again = (load_run(tmp_path / name) for name in ("whole", "again"))
    for name, value in whole.model.state_dict().items():
        assert torch.equal(value, again.model.state_dict()[name]), name
    ranges = input_range.find(whole.model)
    assert ranges == input_range.find(again.model)
    batches = data.test_batches(whole.dataset, batch_size=256, device=torch.device("cpu"))
    found = evaluate(whole.model, batches, 10)
    assert found.loss == pytest.approx(result["test_loss"], abs=1e-6)
    weights = {name: p.detach() for name, p in whole.model.named_parameters() if p.dim() == 4}
    if quantize == "codebook3":
        assert not ranges
        with packing.open(tmp_path / "whole" / "model.skinny") as file:
            for name, weight in weights.items():
                entry = file.entry(name)
                assert (entry.values, entry.error) == ("codebook3", 0.0)
                assert torch.equal(torch.from_numpy(file.read(name)), weight)
    else:
        assert ranges.keys() == weights.keys()
        for weight in weights.values():
            assert torch.equal(weight, fake_quantize.int8_weight(weight))
