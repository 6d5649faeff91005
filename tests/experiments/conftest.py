import pytest

from skinny.training import Config


@pytest.fixture(scope="session")
def tiny():
    """A training of a few tenths of a second."""
    return Config(
        name="tiny",
        data="digits",
        train_size=60,
        model="nin-digits",
        width=0.125,
        epochs=2,
        dense=1,
        sparse=1,
        batch_size=32,
        sparsity=0.8,
        batch_norm=True,
    )


@pytest.fixture(autouse=True, scope="module")
def _graphs(graphs_taken_once):
    """Every training packs its network."""
