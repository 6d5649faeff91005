import sys

import numpy as np
import pytest
import torch
from tests.export.test_graph import NETWORKS, network, outputs
from torch import nn

from skinny import packing
from skinny.errors import SkinnyError
from skinny.export import pack, to_onnx

onnx = pytest.importorskip("onnx", reason="the extra `onnx` is not installed")
ort = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")


@pytest.fixture
def files(tmp_path):
    return tmp_path / "model.skinny", tmp_path / "model.onnx"


def run(path, x):
    options = ort.SessionOptions()
    options.log_severity_level = 3
    session = ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    return session.run(None, {session.get_inputs()[0].name: x.numpy()})


@pytest.mark.parametrize("name", NETWORKS)
def test_onnxruntime_computes_what_the_model_does(files, name):
    model, graph, side = network(name)
    state = {key: tensor.numpy() for key, tensor in model.state_dict().items()}
    packing.write(files[0], state, graph=graph, labels=["a"])
    to_onnx(*files)
    for batch in (1, 3):
        x = torch.randn(batch, 3, side, side)
        for ours, theirs in zip(run(files[1], x), outputs(model, x), strict=True):
            np.testing.assert_allclose(ours, theirs.numpy(), rtol=1e-3, atol=1e-4)


def test_the_zeros_are_in_place(files):
    model = nn.Sequential(nn.Flatten(), nn.Linear(300, 50))
    with torch.no_grad():
        model[1].weight[torch.rand(50, 300) < 0.9] = 0
    pack(model, files[0], example=torch.zeros(1, 3, 10, 10))
    to_onnx(*files)
    stored = {t.name: onnx.numpy_helper.to_array(t) for t in onnx.load(files[1]).graph.initializer}
    np.testing.assert_array_equal(stored["1.weight"], model[1].weight.detach().numpy())


def test_labels_and_preprocessing_go_along(files):
    pack(
        nn.Sequential(nn.ReLU()),
        files[0],
        example=torch.zeros(1, 3),
        labels=["a", "b", "c"],
        preprocessing={"mean": [0.5] * 3, "std": [0.5] * 3},
    )
    to_onnx(*files)
    found = {entry.key: entry.value for entry in onnx.load(files[1]).metadata_props}
    assert found["labels"] == '["a", "b", "c"]'
    assert '"mean": [0.5, 0.5, 0.5]' in found["preprocessing"]


def test_what_onnx_does_not_have_is_told(files):
    layer = nn.AvgPool2d(2, ceil_mode=True, divisor_override=3)
    pack(nn.Sequential(layer), files[0], example=torch.zeros(1, 3, 8, 8))
    with pytest.raises(SkinnyError, match="both a divisor and rounding up"):
        to_onnx(*files)
    assert not files[1].exists()


@pytest.mark.parametrize("layer", [nn.LocalResponseNorm(4), nn.AdaptiveAvgPool2d((3, 4))], ids=str)
def test_what_onnx_has_in_another_form_is_rewritten(files, layer):
    pack(nn.Sequential(layer), files[0], example=torch.zeros(1, 3, 8, 8))
    to_onnx(*files)
    x = torch.randn(2, 3, 8, 8)
    np.testing.assert_allclose(run(files[1], x)[0], layer(x).numpy(), rtol=1e-4, atol=1e-5)


def test_weights_without_a_graph_are_told(files):
    pack({"w": torch.ones(2)}, files[0])
    with pytest.raises(SkinnyError, match="without a graph"):
        to_onnx(*files)


def test_a_missing_extra_is_named(files, monkeypatch):
    pack({"w": torch.ones(2)}, files[0])
    monkeypatch.setitem(sys.modules, "onnx.checker", None)
    with pytest.raises(SkinnyError, match=r"skinny-nn\[onnx\]"):
        to_onnx(*files)
