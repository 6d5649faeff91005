import json

import numpy as np
import pytest
from runtime_cases import CASES

from skinny import packing
from skinny.packing import open as open_packed
from skinny.runtime import load
from skinny.runtime.tuning import store_choice, stored_choice, tune, tuned_path
from skinny.runtime.weights import Weights


@pytest.fixture
def path(tmp_path):
    builder = CASES["vgg"]()
    packing.write(tmp_path / "net.skinny", builder.tensors, graph=builder.graph())
    return tmp_path / "net.skinny"


def test_the_faster_kernel_of_each_layer_is_kept(path):
    with open_packed(path) as file:
        weights = Weights(file)
        fast = {"t0.weight": "sparse", "t2.weight": "dense"}

        def milliseconds(kernels):
            return 10 - sum(kernels[name] == kernel for name, kernel in fast.items())

        choice = tune(file.graph, weights, milliseconds)
    assert fast.items() <= choice.items()


def test_a_gain_within_the_noise_changes_nothing(path):
    with open_packed(path) as file:
        weights = Weights(file)
        weighted = [node for node in file.graph["nodes"] if node["op"] in ("conv", "linear")]
        by_density = {node["weight"]: weights.kernel(node["weight"], 9) for node in weighted}
        times = iter(np.linspace(10, 9.9, 100))
        assert tune(file.graph, weights, lambda _: next(times)) == by_density


def test_the_choice_is_stored_and_used_by_the_next_load(path):
    x = CASES["vgg"]().batch(3)
    net = load(path)
    before = net(x)
    choice = net.tune(batch=3)
    assert tuned_path(path).exists()
    with open_packed(path) as file:
        assert stored_choice(file) == choice
        store_choice(file, dict.fromkeys(choice, "dense"))
    assert all("sparse" not in row.step.kernel for row in load(path).profile(1).rows)
    np.testing.assert_allclose(load(path)(x), before, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    "spoil",
    [
        lambda record: b"",
        lambda record: b"[" * 100_000,
        lambda record: b"\xff\xfe",
        lambda record: json.dumps([]).encode(),
        lambda record: json.dumps({**record, "isa": "other"}).encode(),
        lambda record: json.dumps({**record, "model": "other"}).encode(),
        lambda record: json.dumps({**record, "kernels": [1]}).encode(),
        lambda record: json.dumps({**record, "kernels": {"t0.weight": "quantum"}}).encode(),
    ],
)
def test_a_stored_choice_that_does_not_fit_is_ignored(path, spoil):
    with open_packed(path) as file:
        store_choice(file, {"t0.weight": "dense"})
        record = json.loads(tuned_path(path).read_text())
        tuned_path(path).write_bytes(spoil(record))
        assert stored_choice(file) == {}
