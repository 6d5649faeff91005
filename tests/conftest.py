import os

import pytest
import torch
from hypothesis import HealthCheck, settings

# Machines that run tests are shared: how long an example takes says nothing about it.
settings.register_profile(
    "skinny",
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    derandomize="CI" in os.environ,
)
settings.load_profile("skinny")


@pytest.fixture(autouse=True, scope="session")
def one_thread():
    """The tests' networks are tiny: a second thread costs more than it brings."""
    torch.set_num_threads(1)
