import gc
import os

import pytest
import torch
from hypothesis import HealthCheck, settings

import skinny.export.model

# Machines that run tests are shared: how long an example takes says nothing about it.
settings.register_profile(
    "skinny",
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    derandomize="CI" in os.environ,
)
settings.load_profile("skinny")


def pytest_collection_finish():
    """Modules and tests stay until the end: collections of garbage need not look through them, nor
    need they be as frequent as where memory is short."""
    gc.freeze()
    gc.set_threshold(10_000)


@pytest.fixture(autouse=True)
def one_thread(one_thread_in_fixtures):
    """Some commands set the number of threads, for the tests after theirs too."""
    torch.set_num_threads(1)


@pytest.fixture(autouse=True, scope="module")
def one_thread_in_fixtures():
    """The tests' networks are tiny: a second thread costs more than it brings."""
    torch.set_num_threads(1)


_graphs = {}


@pytest.fixture(scope="module")
def graphs_taken_once():
    """For tests that train dozens of our networks: every training packs its network, and taking the
    graph by torch.export would be half of their time. Networks of one architecture have one graph;
    what takes it is tested in tests/export and with the networks of users."""
    take_graph = skinny.export.model.take_graph

    def taken_once(model, examples):
        if not type(model).__module__.startswith("skinny.models."):
            return take_graph(model, examples)
        shapes = [(name, value.shape, value.dtype) for name, value in model.state_dict().items()]
        key = repr((model, shapes, [example.shape for example in examples.tensors]))
        if key not in _graphs:
            _graphs[key], more = take_graph(model, examples)
            assert not more  # tensors, which would be those of the first network
        return _graphs[key], {}

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("skinny.export.model.take_graph", taken_once)
        yield
