import dataclasses

import pytest
import torch

from skinny.training import Config, Silent, train
from skinny.training.folder import RunFolder
from skinny.training.loop import _begin_epoch
from skinny.training.session import build

TINY = Config(train_size=60, width=0.125, epochs=4, dense=1, sparse=1, sparsity=0.8, batch_size=32)


def stepped(config):
    """A session that has begun its first sparse span after one step in the dense one."""
    session = build(config)
    _begin_epoch(session)
    x, y = next(iter(session.train_batches.epoch(0)))
    torch.nn.functional.cross_entropy(session.model(x), y).backward()
    session.optimizer.step()
    before = {name: weight.detach().clone() for name, weight in session.iht.weights.items()}
    _begin_epoch(session)
    return session, before


def test_kept_weights_are_fresh_and_truncated_ones_stay_zero():
    session, before = stepped(dataclasses.replace(TINY, reinit=True))
    for name, weight in session.iht.weights.items():
        kept = session.iht.masks[name]
        assert torch.count_nonzero(weight[~kept]) == 0
        assert not torch.equal(weight[kept], before[name][kept])
        assert weight not in session.optimizer.state


def test_without_it_kept_weights_keep_their_values():
    session, before = stepped(TINY)
    for name, weight in session.iht.weights.items():
        kept = session.iht.masks[name]
        assert torch.equal(weight[kept], before[name][kept])


def test_drawing_anew_does_not_move_the_generator_of_the_training():
    states = []
    for config in (TINY, dataclasses.replace(TINY, reinit=True)):
        stepped(config)
        states.append(torch.get_rng_state())
    assert torch.equal(*states)


def test_momentum_is_forgotten_at_restoration_only():
    for reset in (False, True):
        session, _ = stepped(dataclasses.replace(TINY, reset_momentum=reset))
        assert session.optimizer.state
        _begin_epoch(session)
        assert bool(session.optimizer.state) is not reset


class StopAt(Silent):
    def step(self, progress):
        if progress.epoch == 3:
            raise KeyboardInterrupt


def test_an_interrupted_run_with_both_goes_on_exactly(tmp_path):
    config = dataclasses.replace(TINY, reinit=True, reset_momentum=True)
    with pytest.raises(KeyboardInterrupt):
        train(config, RunFolder(tmp_path / "a"), observer=StopAt())
    results = [train(config, RunFolder(tmp_path / name)) for name in "ab"]
    assert results[0]["train_loss"] == results[1]["train_loss"]
    assert results[0]["test_loss"] == results[1]["test_loss"]
