import os

import numpy as np
import pytest
import torch
from tests.export import networks
from torch import nn
from torch.nn.utils import prune as prune_module
from torch.optim.swa_utils import AveragedModel

from skinny import packing
from skinny.errors import SkinnyError
from skinny.export import UnsupportedOperationError, check, pack, unpack
from skinny.export.tensors import to_array, to_tensor
from skinny.runtime import load
from skinny.runtime.fold import fold_batch_norms


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.skinny"


def prune(model, sparsity=0.9):
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.masked_fill_(torch.rand_like(parameter) < sparsity, 0.0)
    return model


def same(left, right):
    """Bit for bit, so that NaN equals NaN and 0.0 does not equal -0.0."""
    assert list(left) == list(right)
    for name in left:
        assert left[name].dtype == right[name].dtype, name
        assert left[name].shape == right[name].shape, name
        one, other = (to_array(state[name].detach()) for state in (left, right))
        one, other = (a.array if isinstance(a, packing.Bits) else a for a in (one, other))
        assert one.tobytes() == other.tobytes(), name
    return True


EXAMPLE = torch.zeros(1, 3, 32, 32)


def test_a_pruned_network_becomes_small_and_comes_back_exactly(path):
    model = prune(networks.ResNet())
    pack(model, path, example=EXAMPLE, labels="abcdefghij")
    same(unpack(path), model.state_dict())
    dense = sum(p.numel() * p.element_size() for p in model.state_dict().values())
    assert os.path.getsize(path) < dense / 2.5  # a tiny network: the header weighs a lot
    with packing.open(path) as file:
        assert file.labels == list("abcdefghij")
        assert file.graph is not None


@pytest.mark.parametrize("dynamic", [None, {"x": {1: "length"}}])
def test_labels_are_as_many_as_classes(path, dynamic):
    class Mean(nn.Module):
        def __init__(self):
            super().__init__()
            self.head = nn.Linear(5, 3)

        def forward(self, x):
            return self.head(x.mean(1))

    example = torch.rand(1, 4, 5)
    with pytest.raises(SkinnyError, match="there are 2 labels, but the network scores 3 classes"):
        pack(Mean(), path, example=example, labels="ab", dynamic=dynamic)
    assert not os.path.exists(path)
    pack(Mean(), path, example=example, labels=iter("abc"), dynamic=dynamic)
    with packing.open(path) as file:
        assert file.labels == list("abc")


def test_labels_where_a_free_size_cannot_be_small(path):
    class Windows(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = nn.Conv1d(4, 3, 5)

        def forward(self, x):
            return self.conv(x).mean(2)

    dynamic = {"x": {2: "length"}}
    pack(Windows(), path, example=torch.rand(1, 4, 9), labels="abc", dynamic=dynamic)
    with packing.open(path) as file:
        assert file.labels == list("abc")


def test_what_is_too_wide_for_format_1_has_format_2(path):
    model, x = nn.Linear(70_000, 2), torch.rand(1, 70_000)
    pack(model, path, example=x)
    assert np.allclose(load(path)(x.numpy()), model(x).detach(), atol=1e-4)


def test_batch_norms_stay_in_the_file_for_the_loader_to_fold(path):
    model = networks.ResNet()
    pack(model, path, example=EXAMPLE)
    with packing.open(path) as file:
        kinds = [node["op"] for node in file.graph["nodes"]]
        assert kinds.count("batch_norm") == 8
        folded, _ = fold_batch_norms(file.graph, file.read)
    assert "batch_norm" not in [node["op"] for node in folded["nodes"]]


def test_a_state_dict_packs_without_a_graph(path):
    state = networks.vgg().state_dict()
    pack(state, path)
    same(unpack(path), state)
    with packing.open(path) as file:
        assert file.graph is None


def test_weights_only_packs_what_has_no_graph(path):
    class Dice(nn.Module):
        def forward(self, x):
            return x + torch.rand_like(x)

    model = nn.Sequential(nn.Linear(3, 3), Dice())
    with pytest.raises(SkinnyError, match=r"rand_like \(used by module '1' \(Dice\)\)"):
        pack(model, path, example=torch.zeros(1, 3))
    assert not path.exists()
    pack(model, path, weights_only=True)
    same(unpack(path), model.state_dict())


DTYPES = [
    torch.float16,
    torch.bfloat16,
    torch.float32,
    torch.float64,
    torch.int8,
    torch.uint8,
    torch.int16,
    torch.int32,
    torch.int64,
    torch.bool,
]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_every_type_round_trips(path, dtype):
    state = {
        "full": torch.arange(60).reshape(3, 4, 5).to(dtype),
        "sparse": (torch.rand(50, 80) < 0.1).to(dtype),
        "scalar": torch.tensor(1).to(dtype),
        "empty": torch.zeros(0, 2, dtype=dtype),
        "turned": torch.arange(12).reshape(3, 4).to(dtype).T,
    }
    pack(state, path)
    same(unpack(path), state)


def test_negative_zeros_infinities_and_nan_payloads_round_trip(path):
    bits = torch.tensor([0x7FC12345, -0x7FFFFF, -(2**31), 0x7F800000, 0, 0], dtype=torch.int32)
    state = {
        "nasty": bits.view(torch.float32),
        "pruned": torch.randn(99, 99) * (torch.rand(99, 99) < 0.1),
    }
    pack(state, path, signed_zeros=True)
    same(unpack(path), state)


@pytest.mark.parametrize("how", ["prune", "mask"])
def test_a_network_pruned_in_torch_is_no_larger_for_its_negative_zeros(tmp_path, how):
    model = networks.ResNet()
    layers = [m for m in model.modules() if isinstance(m, nn.Conv2d | nn.Linear)]
    with torch.no_grad():
        for layer in layers:
            if how == "prune":
                prune_module.l1_unstructured(layer, "weight", 0.9)
                prune_module.remove(layer, "weight")
            else:
                layer.weight *= layer.weight.abs() > layer.weight.abs().quantile(0.9)
    assert any((layer.weight == 0).logical_and(layer.weight.signbit()).any() for layer in layers)
    pack(model, tmp_path / "pruned", weights_only=True)
    with torch.no_grad():
        for layer in layers:
            layer.weight += 0.0  # makes -0.0 to 0.0
    pack(model, tmp_path / "clean", weights_only=True)
    assert (tmp_path / "pruned").read_bytes() == (tmp_path / "clean").read_bytes()
    same(unpack(tmp_path / "pruned"), model.state_dict())


def test_channels_last_weights_are_stored_in_plain_order(path):
    model = prune(networks.ResNet()).to(memory_format=torch.channels_last)
    pack(model, path, example=EXAMPLE)
    same(unpack(path), {k: v.contiguous() for k, v in model.state_dict().items()})


def test_tied_weights_are_stored_once_and_tied_again(path):
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = nn.Linear(200, 100)
            self.out = nn.Linear(200, 100, bias=False)
            self.out.weight = self.embed.weight

        def forward(self, x):
            return self.embed(x) + self.out(x)

    model = Tied()
    pack(model, path, example=torch.zeros(1, 200))
    assert os.path.getsize(path) < 1.1 * 200 * 100 * 4
    state = unpack(path)
    same(state, model.state_dict())
    assert state["out.weight"].data_ptr() == state["embed.weight"].data_ptr()
    fresh = Tied()
    fresh.load_state_dict(state)


def test_views_that_overlap_are_not_taken_for_tied(path):
    base = torch.arange(20.0)
    state = {"all": base, "head": base[:10], "tail": base[10:], "turned": base.view(4, 5).T}
    pack(state, path)
    same(unpack(path), state)


def test_unpacked_tensors_can_be_trained(path):
    pack({"w": torch.ones(3)}, path)
    unpack(path)["w"].add_(1)


def test_wrapped_models_pack_under_their_own_names(path):
    model = networks.vgg()
    pack(nn.DataParallel(model), path, weights_only=True)
    same(unpack(path), model.state_dict())
    pack(torch.compile(model, backend="eager"), path, example=EXAMPLE)
    same(unpack(path), model.state_dict())
    average = AveragedModel(nn.DataParallel(model))
    pack(average, path, example={"input": EXAMPLE})
    same(unpack(path), model.state_dict())
    check(average, {"input": EXAMPLE})


@pytest.mark.parametrize(
    "script", [torch.jit.script, lambda model: torch.jit.trace(model, EXAMPLE)]
)
@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")
def test_torchscript_packs_without_a_graph_alone(path, script):
    model = script(networks.vgg().eval())
    with pytest.raises(UnsupportedOperationError, match="give the module that it was made from"):
        pack(model, path, example=EXAMPLE)
    pack(model, path, weights_only=True)
    same(unpack(path), model.state_dict())


@pytest.mark.parametrize("values", ["fp16", "bf16", "int8"])
def test_rounded_values_come_back_near(path, values):
    model = prune(networks.vgg())
    pack(model, path, weights_only=True, values=values)
    state = unpack(path)
    with packing.open(path) as file:
        for name, tensor in model.state_dict().items():
            error = (state[name].double() - tensor.double()).abs().max().item()
            assert error <= file.entry(name).error
            assert state[name].dtype == tensor.dtype


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"model": nn.Linear(2, 2)}, "needs an example input"),
        ({"model": {"w": torch.ones(1)}, "example": EXAMPLE}, "a state_dict has no graph"),
        ({"model": {"w": 3}}, "'w', which is a int and not a tensor"),
        ({"model": {"w": torch.ones(2, dtype=torch.complex64)}}, "complex64"),
        ({"model": {"w": torch.eye(3).to_sparse()}}, "layout torch.sparse_coo"),
    ],
)
def test_what_cannot_be_packed_is_told(path, arguments, message):
    with pytest.raises(SkinnyError, match=message):
        pack(path=path, **arguments)
    assert not path.exists()


def test_bits_of_bfloat16_convert_both_ways():
    tensor = torch.tensor([1.5, -2.0], dtype=torch.bfloat16)
    bits = to_array(tensor)
    assert bits.dtype == "BF16"
    assert torch.equal(to_tensor(bits.array, "BF16"), tensor)


def test_a_numpy_only_reader_sees_the_same_numbers(path):
    model = prune(networks.vgg())
    pack(model, path, example=EXAMPLE)
    with packing.open(path) as file:
        for name, tensor in model.state_dict().items():
            np.testing.assert_array_equal(file.read(name), tensor.numpy())
