import json

import pytest
import torch

from skinny import data
from skinny.errors import SkinnyError
from skinny.experiments import greedy
from skinny.experiments.store import Store
from skinny.experiments.sweep import Serial, sweep
from skinny.training import Config, evaluate, load_run


@pytest.fixture(scope="module")
def dense(tmp_path_factory):
    """A dense network judged by held-out images."""
    config = Config(
        train_size=300, width=0.25, epochs=4, dense=1, sparse=1, batch_size=32, sparsity=0.8
    )
    held = greedy.held_out(config)
    runs = tmp_path_factory.mktemp("runs")
    sweep([held], Store(runs), executor=Serial())
    return runs / held.run_name


def batches_of(trained):
    return data.test_batches(trained.dataset, batch_size=256)


def test_the_search_starts_from_dense_training_judged_by_a_hold_out():
    config = Config(train_size=200, method="oneshot", sparsity=0.9, seed=3)
    held = greedy.held_out(config)
    assert (held.method, held.val_size, held.seed, held.train_size) == ("dense", 100, 3, 200)


def test_the_budget_is_met_exactly_and_the_model_is_left_as_it_was(dense):
    trained = load_run(dense)
    before = {name: value.clone() for name, value in trained.model.state_dict().items()}
    sizes = {n: w["size"] for n, w in trained.result["weights"].items()}
    counts = greedy.search(trained.model, batches_of(trained), 10, 0.8)
    assert counts.keys() == sizes.keys()
    assert sum(counts.values()) == round(0.2 * sum(sizes.values()))
    assert all(0.2 * 0.2 * sizes[n] - 1 <= counts[n] <= sizes[n] for n in counts)
    for name, value in trained.model.state_dict().items():
        assert torch.equal(value, before[name])


def test_what_is_found_costs_less_than_uniform_sparsity(dense):
    """Before any retraining, on the images it was searched on."""
    losses = []
    for uniform in (False, True):
        trained = load_run(dense)
        counts = greedy.search(trained.model, batches_of(trained), 10, 0.5)
        for name, count in counts.items():
            weight = trained.model.get_parameter(name)
            keep = round(0.5 * weight.numel()) if uniform else count
            greedy._truncate(weight, weight.detach().clone(), keep)
        losses.append(evaluate(trained.model, batches_of(trained), 10).loss)
    assert losses[0] < losses[1]


def test_a_search_is_made_once_and_its_damage_is_told(dense):
    assert greedy.found_rules(dense, 0.9) is None
    found = greedy.rules(dense, 0.9, device="cpu", data_dir=None)
    assert greedy.found_rules(dense, 0.9) == found
    file = dense / "greedy-0.9.json"
    counts = json.loads(file.read_text())
    file.write_text(json.dumps({**counts, "conv1.weight": 7}))
    assert "conv1.weight=7" in greedy.rules(dense, 0.9, device="cpu", data_dir=None)
    file.write_text("[]")
    with pytest.raises(SkinnyError, match=r"greedy-0\.9\.json is damaged"):
        greedy.found_rules(dense, 0.9)


def test_a_run_judged_by_test_images_is_refused(tmp_path, tiny):
    sweep([tiny], Store(tmp_path), executor=Serial())
    with pytest.raises(SkinnyError, match="may not look at those"):
        greedy.rules(tmp_path / tiny.run_name, 0.9, device="cpu", data_dir=None)
