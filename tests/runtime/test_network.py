"""Whole networks on the kernels, against PyTorch."""

import os
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from runtime_builder import Builder
from runtime_cases import CASES

from skinny import native, packing
from skinny.errors import SkinnyError
from skinny.peers.torch_graph import run as run_torch
from skinny.runtime import load


def check(builder: Builder, path, images: int, *outputs: str) -> None:
    packing.write(path, builder.tensors, graph=builder.graph(*outputs))
    net = load(path, threads=2)
    x = builder.batch(images)
    results = net(x)
    weights = {name: torch.from_numpy(array) for name, array in builder.tensors.items()}
    expected = run_torch(builder.graph(*outputs), weights, torch.from_numpy(x))
    for result, wanted in zip(
        results if isinstance(results, tuple) else [results], expected, strict=True
    ):
        wanted = wanted.numpy()
        assert result.shape == wanted.shape
        scale = max(np.abs(wanted).max(), 1e-6)
        np.testing.assert_allclose(result, wanted, rtol=1e-4, atol=1e-5 * scale)


@pytest.mark.parametrize("images", [1, 3, 8, 64])
@pytest.mark.parametrize("name", CASES)
def test_results_equal_pytorchs(name, images, tmp_path):
    check(CASES[name](), tmp_path / "net.skinny", images)


def test_several_outputs_come_as_a_tuple(tmp_path):
    builder = CASES["resnet"]()
    names = [node["output"] for node in builder.nodes]
    for images in (1, 20):
        check(builder, tmp_path / "net.skinny", images, names[1], builder.last, names[4], "x")


def test_batch_norms_cost_nothing_after_a_convolution(tmp_path):
    builder = CASES["vgg"]()
    packing.write(tmp_path / "net.skinny", builder.tensors, graph=builder.graph())
    steps = [row.step.op for row in load(tmp_path / "net.skinny").profile(1, repeats=1).rows]
    assert "conv" in steps
    assert "batch_norm" not in steps


@pytest.mark.parametrize("name", CASES)
def test_low_memory_computes_the_same(name, tmp_path):
    builder = CASES[name]()
    packing.write(tmp_path / "net.skinny", builder.tensors, graph=builder.graph())
    x = builder.batch(3)
    plain, frugal = (load(tmp_path / "net.skinny", low_memory=low)(x) for low in (False, True))
    np.testing.assert_allclose(frugal, plain, rtol=1e-5, atol=1e-5 * np.abs(plain).max())


def test_the_reference_runs_where_the_kernels_are_missing(tmp_path, monkeypatch):
    monkeypatch.setenv("SKINNY_NATIVE", "0")
    native.extension.cache_clear()
    try:
        check(CASES["nin"](), tmp_path / "net.skinny", 2)
        with pytest.raises(SkinnyError, match="nothing to profile"):
            load(tmp_path / "net.skinny").profile()
    finally:
        monkeypatch.undo()
        native.extension.cache_clear()


def test_threads_computing_at_once_do_not_disturb_each_other(tmp_path):
    builder = CASES["nin"]()
    packing.write(tmp_path / "net.skinny", builder.tensors, graph=builder.graph())
    net = load(tmp_path / "net.skinny", threads=2)
    batches = [builder.batch(images, seed=images) for images in (1, 2, 5, 16, 17, 40)]
    expected = [load(tmp_path / "net.skinny")(x) for x in batches]
    with ThreadPoolExecutor(6) as pool:
        for _ in range(10):
            for result, wanted in zip(pool.map(net, batches), expected, strict=True):
                np.testing.assert_array_equal(result, wanted)


def test_threads_may_be_the_first_to_use_a_batch_mode_at_once(tmp_path):
    """Its code is made by one of them, and appears while the others run."""
    builder = CASES["nin"]()
    packing.write(tmp_path / "net.skinny", builder.tensors, graph=builder.graph())
    x = builder.batch(40)
    expected = load(tmp_path / "net.skinny")(x)
    with ThreadPoolExecutor(4) as pool:
        for _ in range(10):
            net = load(tmp_path / "net.skinny", threads=2)
            for result in pool.map(net, [x] * 4):
                np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-6)


def test_results_do_not_depend_on_the_number_of_threads(tmp_path):
    builder = CASES["alexnet"]()
    packing.write(tmp_path / "net.skinny", builder.tensors, graph=builder.graph())
    net = load(tmp_path / "net.skinny", threads=1)
    for images in (1, 3, 33):
        x = builder.batch(images)
        net.threads = 1
        expected = net(x)
        for threads in (2, 3, 5):
            net.threads = threads
            np.testing.assert_allclose(net(x), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork.*:DeprecationWarning")
def test_a_forked_child_can_compute(tmp_path):
    builder = CASES["nin"]()
    packing.write(tmp_path / "net.skinny", builder.tensors, graph=builder.graph())
    net = load(tmp_path / "net.skinny", threads=2)
    x = builder.batch(20)
    expected = net(x)
    child = os.fork()
    if child == 0:
        os._exit(0 if np.array_equal(net(x), expected) else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@pytest.mark.parametrize("threads", [0, -1, 1.5, True, 5000])
def test_an_impossible_number_of_threads_is_refused(tmp_path, threads):
    builder = CASES["only_linear"]()
    packing.write(tmp_path / "net.skinny", builder.tensors, graph=builder.graph())
    with pytest.raises(SkinnyError, match="it may be 1 to 1024"):
        load(tmp_path / "net.skinny", threads=threads)


def test_predictions_carry_labels_and_probabilities(tmp_path):
    builder = Builder(2)
    builder.linear(2, 3, sparsity=0.0, bias=False)
    builder.tensors["t0.weight"][:] = [[1, 0], [0, 1], [0, 0]]
    labels = ["left", "right", "none"]
    packing.write(tmp_path / "a", builder.tensors, graph=builder.graph(), labels=labels)
    x = np.array([[3, 0], [0, 4]], np.float32)
    first, second = load(tmp_path / "a").predict(x)
    assert (first.label, first.number) == ("left", 0)
    assert first.probability == pytest.approx(np.exp(3) / (np.exp(3) + 2), rel=1e-5)
    assert second.label == "right"
    builder.add("softmax", axis=1)
    packing.write(tmp_path / "b", builder.tensors, graph=builder.graph())
    assert load(tmp_path / "b").predict(x)[0].probability == pytest.approx(first.probability)
    assert load(tmp_path / "b").predict(x)[1].label == "1"


def test_a_network_that_does_not_classify_has_no_probabilities(tmp_path):
    builder = CASES["resnet"]()
    output = builder.nodes[0]["output"]
    packing.write(tmp_path / "net.skinny", builder.tensors, graph=builder.graph(output))
    with pytest.raises(SkinnyError, match="does not classify"):
        load(tmp_path / "net.skinny").predict(builder.batch(1))


@pytest.mark.parametrize("images", [1, 16, 18])
def test_a_profile_has_a_line_for_each_step(tmp_path, images):
    builder = CASES["alexnet"]()
    packing.write(tmp_path / "net.skinny", builder.tensors, graph=builder.graph())
    profile = load(tmp_path / "net.skinny").profile(images, repeats=2)
    text = str(profile)
    for weight in (name for name in builder.tensors if name.endswith(".weight")):
        assert weight.removesuffix(".weight") in text
    assert profile.milliseconds > 0
    assert sum(row.share for row in profile.rows) == pytest.approx(1)
    assert all(row.gflops > 0 for row in profile.rows if row.step.op in ("conv", "linear"))


def test_tied_weights_are_found_by_either_name(tmp_path):
    builder = Builder(6)
    builder.linear(6, 6)
    builder.linear(6, 6)
    builder.nodes[1]["weight"] = builder.nodes[0]["weight"]
    check(builder, tmp_path / "net.skinny", 3)


@pytest.mark.parametrize("values", ["fp16", "bf16", "int8"])
def test_lossy_values_run_as_they_were_stored(tmp_path, values):
    builder = CASES["alexnet"]()
    path = tmp_path / "net.skinny"
    packing.write(path, builder.tensors, graph=builder.graph(), values=values)
    with packing.open(path) as file:
        stored = {name: torch.from_numpy(np.array(file.read_float32(name))) for name in file.names}
    x = builder.batch(2)
    (wanted,) = run_torch(builder.graph(), stored, torch.from_numpy(x))
    np.testing.assert_allclose(load(path)(x), wanted.numpy(), rtol=1e-4, atol=1e-6)
