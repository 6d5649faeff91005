"""pack(compute="int8"): ranges, what stays fp32, files, accuracy, ONNX both ways."""

import json

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits

import skinny
from skinny import packing
from skinny.errors import SkinnyError
from skinny.export.calibration import step
from skinny.graph import GraphError

digits = load_digits()
images = torch.tensor(digits.images / 16, dtype=torch.float32)[:, None]
labels = torch.tensor(digits.target)
TRAINED = 1400


class Residual(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first = torch.nn.Conv2d(1, 16, 3, padding=1)
        self.norm = torch.nn.BatchNorm2d(16)
        self.second = torch.nn.Conv2d(16, 16, 3, padding=1, bias=False)
        self.after = torch.nn.BatchNorm2d(16)
        self.head = torch.nn.Linear(16 * 16, 10)

    def forward(self, x):
        x = torch.max_pool2d(torch.relu(self.norm(self.first(x))), 2)
        x = torch.relu(x + self.after(self.second(x)))
        return self.head(x.flatten(1))


@pytest.fixture(scope="module")
def model():
    torch.manual_seed(0)
    made = Residual()
    optimizer = torch.optim.Adam(made.parameters(), 1e-2)
    for _ in range(4):
        for batch in torch.randperm(TRAINED).split(64):
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(made(images[batch]), labels[batch]).backward()
            optimizer.step()
    return made.eval()


@pytest.fixture(scope="module")
def packed(model, tmp_path_factory):
    path = tmp_path_factory.mktemp("int8") / "model.skinny"
    report = skinny.pack(
        model, path, example=images[:1], compute="int8", calibration=images[:256].split(64)
    )
    return path, report


def ops(path):
    with packing.open(path) as file:
        return [node["op"] for node in file.graph["nodes"]]


def test_a_trained_network_is_as_good_in_int8(model, packed):
    path, report = packed
    assert [row.compute for row in report.layers] == ["int8"] * 3
    assert "second  int8" in str(report)
    with torch.no_grad():
        exact = model(images[TRAINED:]).numpy()
    scores = skinny.load(path)(images[TRAINED:].numpy())
    wanted = labels[TRAINED:].numpy()
    assert (exact.argmax(1) == wanted).mean() > 0.9
    assert abs((exact.argmax(1) == wanted).mean() - (scores.argmax(1) == wanted).mean()) <= 0.008


def test_batch_norms_are_folded_and_sums_stay_in_eight_bits(packed):
    assert ops(packed[0]).count("batch_norm") == 0
    assert ops(packed[0]).count("fake_quantize") == 1
    if skinny.native.extension() is not None:
        steps = str(skinny.load(packed[0]).profile(batch=2))
        assert "second + add" in steps


def test_the_file_brings_the_rounded_weights_back_and_computes_the_same_from_exact_ones(
    model, packed, tmp_path
):
    state = skinny.unpack(packed[0])
    assert list(state) == list(model.state_dict())
    weight = model.second.weight.detach()
    steps = weight.abs().amax((1, 2, 3), keepdim=True) / 127
    assert ((state["second.weight"] - weight).abs() <= steps * 0.501).all()
    exact = tmp_path / "exact.skinny"
    skinny.pack(model, exact, example=images[:1], compute="int8", values="fp16",
                calibration=images[:256].split(64))  # fmt: skip
    batch = images[:5].numpy()
    np.testing.assert_allclose(skinny.load(exact)(batch), skinny.load(packed[0])(batch), atol=0.5)


def test_ranges_may_be_given_and_layers_without_one_stay_fp32(model, tmp_path):
    path = tmp_path / "model.skinny"
    given = {"second.weight": (0.0, 4.0)}
    report = skinny.pack(model, path, example=images[:1], compute="int8", calibration=given)
    assert [(row.compute, row.why) for row in report.layers] == [
        ("fp32", "no range was given"),
        ("int8", ""),
        ("fp32", "no range was given"),
    ]
    with packing.open(path) as file:
        (layer,) = [node for node in file.graph["nodes"] if node["op"] == "conv_int8"]
    assert (layer["input_scale"], layer["input_zero"]) == step(0, 4)


def test_a_layer_that_loses_too_much_stays_fp32(tmp_path):
    net = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Linear(8, 3))
    with torch.no_grad():
        net[0].weight.zero_()
        net[0].weight[:, 0] = 1e4  # of an input that is nearly zero beside the others
        net[0].weight[:, 1] = 1e-3
    x = torch.randn(64, 8) * torch.tensor([1e-5, 1e2, 1, 1, 1, 1, 1, 1])
    report = skinny.pack(net, tmp_path / "x.skinny", example=x[:1], compute="int8", calibration=[x])
    assert report.layers[0].compute == "fp32"
    assert report.layers[0].why == "below 20 dB"
    assert report.layers[0].ratio < 20


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"compute": "int4"}, "compute is 'int4'"),
        ({"compute": "int8"}, "needs calibration"),
        ({"compute": "int8", "calibration": []}, "there are none"),
        ({"compute": "int8", "calibration": {"else": (0, 1)}}, "no layer's weight"),
        ({"compute": "int8", "calibration": {"second.weight": (1, 2)}}, "must hold 0"),
        ({"compute": "int8", "calibration": [images[:2] * np.nan]}, "not finite"),
        ({"compute": "int8", "calibration": [images[:2]], "size": 9999}, "one of them"),
    ],
)
def test_wrong_calibration_is_refused(model, tmp_path, given, message):
    with pytest.raises(SkinnyError, match=message):
        skinny.pack(model, tmp_path / "x.skinny", example=images[:1], **given)


@pytest.mark.parametrize(
    "change",
    [
        {"input_scale": 0},
        {"input_scale": -1.0},
        {"input_scale": 1e-45},
        {"input_zero": 256},
        {"input_zero": -1},
        {"weight_scale": "first.bias:nothing"},
        {"weight_scale": "first.bias"},  # negative numbers
        {"factor": "norm.running_mean:nothing"},
        {"groups": 3},
    ],
    ids=str,
)
def test_hostile_graphs_are_refused(packed, tmp_path, change):
    with packing.open(packed[0]) as file:
        graph = json.loads(json.dumps(file.graph))
        tensors = {name: file.read(name) for name in file.names}
    tensors["first.bias"] = -np.abs(tensors["first.bias"]) - 1
    graph["nodes"][0].update(change)
    path = tmp_path / "hostile.skinny"
    with pytest.raises(GraphError):
        packing.write(path, tensors, graph=graph, format=2)
        skinny.load(path)(images[:1].numpy())


def test_onnx_runtime_runs_it_and_the_file_comes_back(packed, tmp_path):
    onnxruntime = pytest.importorskip("onnxruntime")
    skinny.export.to_onnx(packed[0], tmp_path / "model.onnx")
    session = onnxruntime.InferenceSession(tmp_path / "model.onnx")
    batch = images[TRAINED:].numpy()
    (theirs,) = session.run(None, {session.get_inputs()[0].name: batch})
    ours = skinny.load(packed[0])(batch)
    assert np.abs(theirs - ours).max() < 0.02 * np.abs(ours).max()
    skinny.pack(tmp_path / "model.onnx", tmp_path / "again.skinny")
    again = skinny.load(tmp_path / "again.skinny")(batch)
    np.testing.assert_allclose(again, ours, rtol=1e-5, atol=1e-5)
    assert ops(tmp_path / "again.skinny").count("conv_int8") == 2


@pytest.mark.parametrize("signed", [False, True])
def test_a_network_that_onnx_runtime_quantised_runs_in_int8(model, tmp_path, signed):
    quantization = pytest.importorskip("onnxruntime.quantization")
    import onnxruntime

    class Reader(quantization.CalibrationDataReader):
        def __init__(self):
            self.left = iter(images[:256].split(64))

        def get_next(self):
            batch = next(self.left, None)
            return None if batch is None else {"x": batch.numpy()}

    skinny.pack(model, tmp_path / "float.skinny", example=images[:1])
    skinny.export.to_onnx(tmp_path / "float.skinny", tmp_path / "float.onnx")
    kind = quantization.QuantType.QInt8 if signed else quantization.QuantType.QUInt8
    quantization.quantize_static(
        tmp_path / "float.onnx", tmp_path / "theirs.onnx", Reader(), per_channel=True,
        activation_type=kind, weight_type=quantization.QuantType.QInt8,
        quant_format=quantization.QuantFormat.QDQ,
    )  # fmt: skip
    skinny.pack(tmp_path / "theirs.onnx", tmp_path / "ours.skinny")
    assert ops(tmp_path / "ours.skinny").count("conv_int8") == 2
    batch = images[TRAINED:].numpy()
    session = onnxruntime.InferenceSession(tmp_path / "theirs.onnx")
    (theirs,) = session.run(None, {session.get_inputs()[0].name: batch})
    ours = skinny.load(tmp_path / "ours.skinny")(batch)
    assert (ours.argmax(1) == theirs.argmax(1)).mean() > 0.98
    assert np.abs(ours - theirs).max() < 0.05 * np.abs(theirs).max()


class Bag(torch.nn.Module):
    """tied: the output layer has the table's weights, and is too coarse in int8."""

    def __init__(self, tied=False):
        super().__init__()
        torch.manual_seed(0)
        self.table = torch.nn.Embedding(300, 24)
        self.places = torch.nn.Embedding(6, 24)
        self.head = torch.nn.Linear(24, 300, bias=False)
        if tied:
            self.head.weight = self.table.weight

    def forward(self, i):
        return self.head(self.table(i) + self.places(torch.arange(6)))


def test_embeddings_are_tables_of_integers_in_file_memory_and_onnx(tmp_path):
    model, index = Bag(), torch.randint(0, 300, (4, 6))
    path = tmp_path / "m.skinny"
    report = skinny.pack(model, path, example=index, compute="int8", calibration=[index])
    assert [(row.layer, row.compute, row.why) for row in report.layers] == [
        ("table", "int8", ""),
        ("places", "fp32", "its input is constant"),
        ("head", "int8", ""),
    ]
    assert report.layers[0].ratio > 35
    assert path.stat().st_size < 300 * 24 * 2 * 1.6
    net = skinny.load(path)
    held = net._tensors.bytes
    ours = net(index.numpy())
    if skinny.native.extension() is not None:
        assert held - net._tensors.bytes >= 4 * 300 * 24
    exact = model(index).detach().numpy()
    assert np.abs(ours - exact).max() < 0.03 * np.abs(exact).max()
    onnxruntime = pytest.importorskip("onnxruntime")
    skinny.export.to_onnx(path, tmp_path / "m.onnx")
    session = onnxruntime.InferenceSession(tmp_path / "m.onnx")
    (theirs,) = session.run(None, {session.get_inputs()[0].name: index.numpy()})
    assert np.abs(ours - theirs).max() < 0.01 * np.abs(exact).max()
    skinny.pack(tmp_path / "m.onnx", tmp_path / "again.skinny")
    assert "embedding_int8" in ops(tmp_path / "again.skinny")
    again = skinny.load(tmp_path / "again.skinny")(index.numpy())
    np.testing.assert_allclose(again, ours, rtol=1e-5, atol=1e-5)


def test_an_embedding_stays_fp32_where_a_layer_in_fp32_has_its_table_or_ranges_are_given(tmp_path):
    model, index = Bag(tied=True), torch.randint(0, 300, (4, 6))
    path = tmp_path / "m.skinny"
    both = skinny.pack(model, path, example=index, compute="int8", calibration=[index])
    assert [row.compute for row in both.layers] == ["int8", "fp32", "int8"]
    exact = model(index).detach().numpy()
    assert np.abs(skinny.load(path)(index.numpy()) - exact).max() < 0.03 * np.abs(exact).max()
    with torch.no_grad():
        model.places.weight[:, 0] = 1e5  # beside which the others are nothing in eight bits
        model.table.weight[:, 0] = 0
    one = skinny.pack(model, path, example=index, compute="int8", calibration=[index])
    assert [row.why for row in one.layers][::2] == [
        "another layer reads its table in fp32", "below 20 dB"]  # fmt: skip
    given = {"head.weight": (-2.0, 2.0)}
    ranges = skinny.pack(model, path, example=index, compute="int8", calibration=given)
    assert ranges.layers[0].why == "no range was given"


def test_a_network_holds_its_weights_once_and_serves_other_batches_from_them(tmp_path):
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(70, 50), torch.nn.ReLU(), torch.nn.Linear(50, 9))
    x = torch.randn(40, 70)
    path = tmp_path / "m.skinny"
    skinny.pack(model, path, example=x, compute="int8", calibration=[x])
    few, many = skinny.load(path), skinny.load(path)
    packed = few._tensors.bytes
    few(x[:1].numpy())
    assert packed - few._tensors.bytes >= 4 * (70 * 50 + 50 * 9) * 0.9
    np.testing.assert_array_equal(few(x.numpy()), many(x.numpy()))
    np.testing.assert_array_equal(many(x[:1].numpy()), few(x[:1].numpy()))
