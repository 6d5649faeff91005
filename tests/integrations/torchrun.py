"""Running the examples, as a module and as torchrun does; light, because every rank imports it."""

import contextlib
import importlib.util
import io
import os
from pathlib import Path

import sklearn.datasets  # noqa: F401 (what the examples read: imported once, before the ranks fork)
import torch

FOLDER = Path(__file__).parents[2] / "examples"


def example(name):
    spec = importlib.util.spec_from_file_location(name, FOLDER / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def as_torchrun(rank, ranks, name, port):
    """One process of `torchrun --nproc-per-node`, as far as an example sees it."""
    os.environ |= {
        "RANK": str(rank),
        "LOCAL_RANK": str(rank),
        "WORLD_SIZE": str(ranks),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
    }
    torch.set_num_threads(1)
    with contextlib.redirect_stdout(io.StringIO()):
        kept = example(name).main(epochs=3, images=256)
    assert sum(kept.values()) == 740
