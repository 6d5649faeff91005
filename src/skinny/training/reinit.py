"""Kept weights drawn anew: what the paper says is worse than keeping them."""

import torch

from skinny.iht import masks as masking
from skinny.training.session import Session, build_model


@torch.no_grad()
def reinitialise(session: Session) -> None:
    """Give the weights inside the masks fresh initial values, and no optimizer state.

    Values come from a new model whose seed is that of the run and the number of mask updates, so
    that a resumed run draws the same ones. The generator that training uses is left as it was.
    """
    assert session.iht.masks is not None
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(session.config.seed * 1_000_003 + session.iht.mask_updates)
        fresh = build_model(session.config, session.dataset)
    for name, weight in session.iht.weights.items():
        weight.copy_(fresh.get_parameter(name))
        masking.apply_(weight, session.iht.masks[name])
        session.optimizer.state.pop(weight, None)
