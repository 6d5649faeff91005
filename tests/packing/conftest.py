import numpy as np
import pytest

from skinny import native


@pytest.fixture
def rng():
    return np.random.default_rng(0)


@pytest.fixture(params=["native", "reference"])
def engine(request, monkeypatch):
    """Run a test with the compiled kernels and again with their NumPy references."""
    if request.param == "native":
        if native.extension() is None:
            pytest.skip("the native extension was not built (no C++ compiler)")
        return request.param
    for module in ("adaptive", "bitmask", "entropy", "symbols"):
        monkeypatch.setattr(f"skinny.packing.{module}.extension", lambda: None)
    return request.param


@pytest.fixture
def nothing_small(monkeypatch):
    """Let tensors of a few bytes be stored as large ones are."""
    monkeypatch.setattr("skinny.packing.codec.SMALL", -1)
