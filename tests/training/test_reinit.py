import dataclasses

import pytest
import torch

from skinny.training import Config, Silent, train
from skinny.training.folder import RunFolder
from skinny.training.loop import Position, _begin_epoch
from skinny.training.session import build

TINY = Config(train_size=60, width=0.125, epochs=4, dense=1, sparse=1, sparsity=0.8, batch_size=32)


def stepped(config, folder):
    """A session that has begun its first sparse span after one step in the dense one."""
    parts = build(config)
    folder = RunFolder(folder)
    folder.path.mkdir(parents=True)
    _begin_epoch(parts, Position(), folder)
    x, y = next(iter(parts.train_batches.epoch(0)))
    torch.nn.functional.cross_entropy(parts.model(x), y).backward()
    parts.optimizer.step()
    before = {name: weight.detach().clone() for name, weight in parts.iht.weights.items()}
    _begin_epoch(parts, Position(epoch=1), folder)
    return parts, before, folder


def test_kept_weights_are_fresh_and_truncated_ones_stay_zero(tmp_path):
    parts, before, _ = stepped(dataclasses.replace(TINY, reinit=True), tmp_path / "a")
    for name, weight in parts.iht.weights.items():
        kept = parts.iht.masks[name]
        assert torch.count_nonzero(weight[~kept]) == 0
        assert not torch.equal(weight[kept], before[name][kept])
        assert weight not in parts.optimizer.state


def test_without_it_kept_weights_keep_their_values(tmp_path):
    parts, before, _ = stepped(TINY, tmp_path / "a")
    for name, weight in parts.iht.weights.items():
        kept = parts.iht.masks[name]
        assert torch.equal(weight[kept], before[name][kept])


def test_drawing_anew_does_not_move_the_generator_of_the_training(tmp_path):
    states = []
    for name, config in (("a", TINY), ("b", dataclasses.replace(TINY, reinit=True))):
        stepped(config, tmp_path / name)
        states.append(torch.get_rng_state())
    assert torch.equal(*states)


def test_momentum_is_forgotten_at_restoration_only(tmp_path):
    for name, reset in (("a", False), ("b", True)):
        parts, _, folder = stepped(dataclasses.replace(TINY, reset_momentum=reset), tmp_path / name)
        assert parts.optimizer.state
        _begin_epoch(parts, Position(epoch=2), folder)
        assert bool(parts.optimizer.state) is not reset


class StopAt(Silent):
    def step(self, step):
        if step.epoch == 3:
            raise KeyboardInterrupt


def test_an_interrupted_run_with_both_goes_on_exactly(tmp_path):
    config = dataclasses.replace(TINY, reinit=True, reset_momentum=True)
    with pytest.raises(KeyboardInterrupt):
        train(config, RunFolder(tmp_path / "a"), observer=StopAt())
    results = [train(config, RunFolder(tmp_path / name)) for name in "ab"]
    assert results[0]["train_loss"] == results[1]["train_loss"]
    assert results[0]["test_loss"] == results[1]["test_loss"]
