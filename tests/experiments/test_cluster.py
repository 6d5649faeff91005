import sys

import pytest

from skinny.errors import SkinnyError
from skinny.experiments.cluster import Cluster
from skinny.experiments.grid import grid
from skinny.experiments.store import Store
from skinny.experiments.sweep import sweep


def test_without_ray_the_error_names_the_extra(tmp_path, tiny, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(SkinnyError, match=r"skinny-nn\[ray\]"):
        sweep([tiny], Store(tmp_path), executor=Cluster())


@pytest.mark.filterwarnings("ignore")  # Ray's own
def test_a_grid_runs_on_a_local_cluster_and_a_failure_stays_its_own(tmp_path, tiny, monkeypatch):
    ray = pytest.importorskip("ray", reason="the extra `ray` is not installed")
    monkeypatch.setenv("HOME", str(tmp_path))  # Ray keeps a token of the cluster there
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    try:
        diverging = {"lr": [0.1, 1e30], "batch_norm": [False], "schedule": ["constant"]}
        configs = grid(tiny, diverging)
        configs += grid(tiny, {"data": [f"npz:{tmp_path}/nothing.npz"]})
        outcomes = sweep(configs, Store(tmp_path), executor=Cluster(), check_data=False)
        assert [outcome.status for outcome in outcomes] == ["trained", "diverged", "failed"]
        again = sweep(configs[:1], Store(tmp_path), executor=Cluster(), check_data=False)
        assert again[0].status == "already trained"
    finally:
        ray.shutdown()
