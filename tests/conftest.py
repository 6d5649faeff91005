import pytest
import torch


@pytest.fixture(autouse=True, scope="session")
def one_thread():
    """The tests' networks are tiny: a second thread costs more than it brings."""
    torch.set_num_threads(1)
