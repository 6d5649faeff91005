"""Networks that need more than the native planner: packed, loaded, and compared with torch."""

import warnings

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from tests.runtime.golden import make as golden
from torch import nn

import skinny
from skinny import native, packing
from skinny.export import to_onnx
from skinny.graph import operations
from skinny.runtime import InputError
from skinny.runtime.general import GeneralNetwork
from skinny.runtime.memory import MemoryLimitError


class Gate(nn.Module):
    """Squeeze and excitation: a product, which the planner does not have, between convolutions."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3, padding=1)
        self.norm = nn.BatchNorm2d(8)
        self.gate = nn.Conv2d(8, 8, 1)
        self.head = nn.Linear(8, 5)

    def forward(self, x):
        x = F.relu(self.norm(self.stem(x)))
        x = x * self.gate(x.mean((2, 3), keepdim=True)).sigmoid()
        return self.head(F.adaptive_avg_pool2d(F.max_pool2d(x, 2), 1).flatten(1))


class Tagger(nn.Module):
    """Integers in, several outputs by name, a mask that is optional to nobody."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(50, 16)
        self.layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
        self.out = nn.Linear(16, 4)

    def forward(self, ids, keep):
        x = self.layer(self.embed(ids), src_key_padding_mask=~keep)
        return {"tags": self.out(x), "pooled": [x.mean(1), x.amax(1)], "loss": None}


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.GRU(6, 8, 2, batch_first=True, bidirectional=True)

    def forward(self, x):
        return self.rnn(x)[0].softmax(-1)


def quiet(path, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        return skinny.load(path, **options)


def call(net, *args, **named):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        return net(*args, **named)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.skinny"


@pytest.mark.parametrize("low_memory", [False, True])
@pytest.mark.parametrize(
    ("build", "shape"), [(Gate, (3, 12, 12)), (Recurrent, (7, 6))], ids=["gate", "recurrent"]
)
def test_a_network_beyond_the_planner_computes_what_torch_does(path, build, shape, low_memory):
    torch.manual_seed(0)
    model = build().eval()
    skinny.pack(model, path, example=torch.zeros(1, *shape))
    net = quiet(path, low_memory=low_memory)
    assert isinstance(net, GeneralNetwork)
    for batch in (1, 3, 17):
        x = torch.randn(batch, *shape)
        with torch.no_grad():
            expected = model(x).numpy()
        np.testing.assert_allclose(call(net, x.numpy()), expected, rtol=1e-4, atol=1e-5)


def test_inputs_go_by_name_and_outputs_keep_their_keys(path):
    torch.manual_seed(0)
    model = Tagger().eval()
    example = {"ids": torch.randint(0, 50, (1, 6)), "keep": torch.ones(1, 6, dtype=torch.bool)}
    free = {"ids": {1: "length"}, "keep": {1: "length"}}
    skinny.pack(model, path, example=example, dynamic=free)
    net = quiet(path)
    assert net.inputs == {"ids": ("batch", "length"), "keep": ("batch", "length")}
    for batch, length in ((1, 6), (3, 9), (2, 2)):
        ids = torch.randint(0, 50, (batch, length))
        keep = torch.rand(batch, length) < 0.7
        keep[:, 0] = True
        with torch.no_grad():
            expected = model(ids, keep)
        found = call(net, ids=ids.numpy(), keep=keep.numpy())
        assert list(found) == ["tags", "pooled", "loss"]
        assert found["loss"] is None
        np.testing.assert_allclose(found["tags"], expected["tags"].numpy(), atol=1e-5)
        for ours, theirs in zip(found["pooled"], expected["pooled"], strict=True):
            np.testing.assert_allclose(ours, theirs.numpy(), atol=1e-5)


class Sums(nn.Module):
    """A cumulative sum, which has no kernel, between layers."""

    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(6, 8), nn.Linear(8, 3)

    def forward(self, x):
        return self.last(self.first(x).cumsum(1))


def test_what_runs_by_its_reference_is_named_once_and_in_the_profile(path):
    skinny.pack(Sums(), path, example=torch.zeros(1, 6))
    net = skinny.load(path)
    x = np.zeros((2, 6), np.float32)
    if native.extension() is None:
        pytest.skip("without the extension everything runs by its reference")
    with pytest.warns(RuntimeWarning, match="no kernel and run by their NumPy references: cumsum"):
        net(x)
    net(x)  # told once
    rows = net.profile(x, repeats=1).rows
    assert [row.step.op for row in rows] == ["linear", "cumsum", "linear"]
    assert [row.step.kernel == "NumPy reference" for row in rows] == [False, True, False]
    assert sum(row.share for row in rows) == pytest.approx(1)
    assert [row.step for row in net.profile(batch=2, repeats=1).rows] == [row.step for row in rows]


def test_programs_of_different_shapes_share_their_weights(path):
    skinny.pack(
        nn.Sequential(nn.Linear(6, 8), nn.Softmax(1)),
        path,
        example=torch.zeros(1, 20, 6),
        dynamic={"input": {1: "length"}},
    )
    net = quiet(path)
    if native.extension() is None:
        pytest.skip("there are no programs without the extension")
    for length in (64, 96, 128):
        call(net, np.zeros((1, length, 6), np.float32))
    assert len(net._weights) == 1


def test_a_changed_file_does_not_matter_after_loading(path):
    torch.manual_seed(0)
    model = Gate().eval()
    skinny.pack(model, path, example=torch.zeros(1, 3, 12, 12))
    net = quiet(path)
    path.write_bytes(b"")
    x = torch.randn(2, 3, 12, 12)
    with torch.no_grad():
        np.testing.assert_allclose(call(net, x.numpy()), model(x).numpy(), atol=1e-5)


def test_more_memory_than_allowed_is_told_before_it_is_taken(path):
    skinny.pack(Gate(), path, example=torch.zeros(1, 3, 12, 12))
    net = quiet(path, max_memory=1 << 16)
    with pytest.raises(skinny.SkinnyError, match="max_memory"):
        call(net, np.zeros((1000, 3, 12, 12), np.float32))


def _node(op, *inputs, **attributes):
    return {"op": op, "inputs": list(inputs), "output": "y" if op != "cast" else "i", **attributes}


@pytest.mark.parametrize(
    ("shape", "nodes"),
    [
        ([2], [_node("cast", "x", dtype="int64"), _node("embedding", "i", weight="zeros")]),
        ([2048], [_node("linear", "x", weight="zeros", bias=None, transposed=True)]),
    ],
    ids=lambda value: value[-1]["op"] if isinstance(value[-1], dict) else "",
)
def test_what_a_reference_needs_beside_its_result_counts_too(path, shape, nodes):
    inputs = [{"name": "x", "shape": ["batch", *shape], "dtype": "float32"}]
    graph = {"inputs": inputs, "nodes": nodes, "outputs": ["y"]}
    zeros = np.zeros((2048, 2048), np.float32)  # 16 MB, of a file of a few kilobytes
    packing.write(path, {"zeros": zeros}, graph=graph, format=2)
    x = np.zeros((1, *shape), np.float32)
    with pytest.raises(MemoryLimitError):
        call(quiet(path, max_memory=10_000_000), x)
    assert call(quiet(path, max_memory=100_000_000), x).shape[0] == 1


def test_what_format_1_can_express_is_written_in_it(path):
    skinny.pack(nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU()), path, example=torch.zeros(1, 3, 8, 8))
    with packing.open(path) as file:
        assert file.format == 1
    skinny.pack(Gate(), path, example=torch.zeros(1, 3, 12, 12))
    with packing.open(path) as file:
        assert file.format == 2
        assert {node["op"] for node in file.graph["nodes"]} <= set(operations())


def test_tensors_of_the_graph_alone_are_not_in_the_state_dict(path):
    class Shifted(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(3, 3)
            self.register_buffer("shift", torch.ones(3), persistent=False)

        def forward(self, x):
            return self.fc(x) * self.shift + torch.tensor([1.0, 2.0, 3.0])

    model = Shifted().eval()
    skinny.pack(model, path, example=torch.zeros(1, 3))
    assert set(skinny.unpack(path)) == set(model.state_dict())
    x = torch.randn(4, 3)
    with torch.no_grad():
        np.testing.assert_allclose(call(quiet(path), x.numpy()), model(x).numpy(), atol=1e-6)


def test_a_file_of_format_2_computes_what_it_always_did():
    net = quiet(golden.HERE / "v2.skinny")
    with np.load(golden.HERE / "v2.npz") as expected:
        found = call(net, **golden.inputs())
        np.testing.assert_allclose(found["scores"], expected["scores"], rtol=1e-5)
        np.testing.assert_allclose(found["pooled"][0], expected["pooled"], rtol=1e-5)
    assert net.labels == ["a", "b", "c", "d"]


def test_the_golden_network_is_the_formula_it_stands_for():
    """The file's numbers, computed once more without the registry."""
    tensors, given = golden.tensors(), golden.inputs()
    rows = tensors["embed"][given["words"]].reshape(3, 7, 2, 3) + np.arange(3)
    pooled = np.maximum(rows[:, :, 0] * 0.5, rows[:, :, 1]).mean(1)
    scores = pooled @ tensors["head"].T * given["scale"]
    with np.load(golden.HERE / "v2.npz") as expected:
        np.testing.assert_allclose(expected["pooled"], pooled, rtol=1e-5)
        np.testing.assert_allclose(expected["scores"], scores, rtol=1e-5)


class Half(nn.Module):
    """Sizes that follow from free ones."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3, stride=2, padding=1)

    def forward(self, x):
        y = F.interpolate(self.conv(x), scale_factor=2.0)
        return torch.roll(y, 7, 2), y.unsqueeze(1) + torch.zeros_like(y).unsqueeze(1)


def test_what_follows_from_a_free_size_is_free_too(path):
    torch.manual_seed(0)
    model = Half().eval()
    free = {"x": {2: "height", 3: "width"}}
    skinny.pack(model, path, example=torch.zeros(2, 3, 9, 9), dynamic=free)
    net = quiet(path)
    for shape in ((1, 3, 17, 13), (4, 3, 4, 6), (3, 3, 9, 9)):
        x = torch.randn(shape)
        with torch.no_grad():
            expected = model(x)
        for ours, theirs in zip(call(net, x.numpy()), expected, strict=True):
            np.testing.assert_allclose(ours, theirs.numpy(), atol=1e-5)


def test_outputs_are_the_callers_own(path):
    class Passes(nn.Module):
        def __init__(self):
            super().__init__()
            self.table = nn.Parameter(torch.ones(3))

        def forward(self, x):
            return x, x.unsqueeze(1), self.table * 2

    skinny.pack(Passes(), path, example=torch.zeros(1, 3))
    net = quiet(path)
    x = np.ones((2, 3), np.float32)
    for array in call(net, x):
        array[:] = 7
    assert (x == 1).all()
    assert all(
        (array == expected).all() for array, expected in zip(call(net, x), (1, 1, 2), strict=True)
    )


def test_an_index_outside_the_embedding_is_told(path):
    skinny.pack(nn.Embedding(10, 4), path, example=torch.zeros(1, 3, dtype=torch.int64))
    net = quiet(path)
    for index in (-1, 10):
        with pytest.raises(InputError, match=r"10 (entries|rows)"):
            call(net, np.full((1, 3), index))


def test_a_dense_table_is_held_once(path):
    skinny.pack(nn.Embedding(10, 4), path, example=torch.zeros(1, 3, dtype=torch.int64))
    tensors = quiet(path)._tensors
    assert np.shares_memory(tensors.tensor("weight"), tensors.read_sparse("weight").values)
    assert not np.shares_memory(tensors.read_float32("weight"), tensors.tensor("weight"))


def test_a_model_that_changes_its_input_or_a_buffer_packs(path):
    class Counts(nn.Module):
        def __init__(self):
            super().__init__()
            self.act = nn.ReLU(inplace=True)
            self.register_buffer("calls", torch.zeros(1))

        def forward(self, x):
            self.calls += 1
            return self.act(x) * 2

    skinny.pack(Counts(), path, example=torch.zeros(1, 3))
    x = torch.tensor([[-1.0, 0.5, 2.0]])
    np.testing.assert_allclose(call(quiet(path), x.numpy()), [[0, 1, 4]])


class Masked(nn.Module):
    def forward(self, q, mask):
        return nn.functional.scaled_dot_product_attention(q, q, q, attn_mask=mask)


@pytest.mark.parametrize("kind", [torch.bool, torch.float32])
@pytest.mark.parametrize("value", [torch.nan, torch.inf])
def test_masked_attention_keeps_nan_and_infinity_visible_as_torch_does(path, kind, value):
    q = torch.rand(2, 10, 4)
    q[0, 3, 2] = value
    seen = torch.rand(2, 10, 10) < 0.7
    seen[0, :, 0], seen[1, 5] = True, False  # a query that sees nothing gets zeros
    mask = seen if kind == torch.bool else torch.where(seen, 0.0, -torch.inf)
    wanted = Masked()(q, mask).numpy()
    skinny.pack(Masked(), path, example=(q, mask))
    np.testing.assert_allclose(call(quiet(path), q.numpy(), mask.numpy()), wanted, atol=1e-5)
    assert np.isnan(wanted[0]).any()
    onnxruntime = pytest.importorskip("onnxruntime")
    to_onnx(path, path.with_suffix(".onnx"))
    session = onnxruntime.InferenceSession(
        path.with_suffix(".onnx"), providers=["CPUExecutionProvider"]
    )
    (found,) = session.run(None, {"q": q.numpy(), "mask": mask.numpy()})
    np.testing.assert_allclose(found, wanted, atol=1e-5)
