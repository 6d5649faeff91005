import json

import numpy as np
import pytest

from skinny import packing
from skinny.cli import bench
from skinny.errors import SkinnyError


@pytest.fixture
def model(tmp_path):
    graph = {
        "inputs": [{"name": "x", "shape": [None, 8], "dtype": "float32"}],
        "nodes": [{"op": "linear", "inputs": ["x"], "output": "y", "weight": "w", "bias": None}],
        "outputs": ["y"],
    }
    packing.write(tmp_path / "net.skinny", {"w": np.eye(3, 8, dtype=np.float32)}, graph=graph)
    return str(tmp_path / "net.skinny")


def test_ratios_to_every_engine_that_is_installed(model, capsys):
    assert bench.main([model, "--batch", "3", "--rounds", "2", "--profile"]) == 0
    out = capsys.readouterr().out
    assert "batch 3" in out
    assert "torch" in out
    assert "x as fast" in out
    assert "GFLOP/s" in out


def test_json_has_milliseconds_for_each(model, capsys):
    assert bench.main([model, "--rounds", "2", "--json"]) == 0
    record = json.loads(capsys.readouterr().out)
    assert record["best_ms"]["skinny"] > 0
    assert record["best_ms"].keys() == record["median_ms"].keys() >= {"skinny", "torch"}


def test_nothing_to_time_is_an_error(model):
    with pytest.raises(SkinnyError, match="both must be positive"):
        bench.main([model, "--rounds", "0"])
