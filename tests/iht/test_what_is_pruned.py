"""What people call weights is thresholded; what they do not is left dense, and IHT says so."""

import warnings

import pytest
import torch
from torch import nn
from torch.nn.utils import parametrizations, parametrize, prune

import skinny
from skinny.errors import SkinnyError
from skinny.iht import timeline
from skinny.iht.controller import IHT
from skinny.iht.layers import prunable, select


class Conv1D(nn.Module):
    """GPT-2's linear layer, as `transformers` has it."""

    def __init__(self, outputs, inputs):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(inputs, outputs) / 8)
        self.bias = nn.Parameter(torch.zeros(outputs))

    def forward(self, x):
        return x @ self.weight + self.bias


class LanguageModel(nn.Module):
    """An embedding, and an output layer that is tied to it."""

    def __init__(self):
        super().__init__()
        self.wte = nn.Embedding(50, 16)
        self.c_attn = Conv1D(16, 16)
        self.head = nn.Linear(16, 50, bias=False)
        self.head.weight = self.wte.weight

    def forward(self, words):
        return self.head(self.c_attn(self.wte(words)))


class Adapted(nn.Module):
    """A frozen layer with LoRA, as `peft` names its parts."""

    def __init__(self):
        super().__init__()
        self.base_layer = nn.Linear(16, 16).requires_grad_(False)
        self.lora_A = nn.ModuleDict({"default": nn.Linear(16, 2, bias=False)})
        self.lora_B = nn.ModuleDict({"default": nn.Linear(2, 16, bias=False)})


def weight_norm_of_old(layer):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        return nn.utils.weight_norm(layer)


class Doubled(nn.Module):
    def forward(self, weight):
        return 2 * weight


def custom(layer):
    parametrize.register_parametrization(layer, "weight", Doubled())
    return layer


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (lambda: nn.MultiheadAttention(8, 2), ["in_proj_weight", "out_proj.weight"]),
        (
            lambda: nn.MultiheadAttention(8, 2, kdim=4, vdim=6),
            ["q_proj_weight", "k_proj_weight", "v_proj_weight", "out_proj.weight"],
        ),
        (lambda: nn.LSTM(4, 8), ["weight_ih_l0", "weight_hh_l0"]),
        (lambda: nn.LSTM(4, 8, proj_size=2), ["weight_ih_l0", "weight_hh_l0", "weight_hr_l0"]),
        (
            lambda: nn.GRU(4, 8, bidirectional=True),
            ["weight_ih_l0", "weight_hh_l0", "weight_ih_l0_reverse", "weight_hh_l0_reverse"],
        ),
        (lambda: nn.RNN(4, 8), ["weight_ih_l0", "weight_hh_l0"]),
        (lambda: nn.GRUCell(4, 8), ["weight_ih", "weight_hh"]),
        (lambda: nn.Bilinear(3, 4, 5), ["weight"]),
        (lambda: Conv1D(8, 4), ["weight"]),
        (lambda: nn.Sequential(nn.Linear(9, 1), nn.LayerNorm([3, 3])), ["0.weight"]),
        (
            lambda: parametrizations.spectral_norm(nn.Linear(8, 8)),
            ["parametrizations.weight.original"],
        ),
        (lambda: nn.utils.spectral_norm(nn.Linear(8, 8)), ["weight_orig"]),
    ],
)
def test_the_weights_of_a_layer_are_thresholded_whatever_it_calls_them(make, expected):
    assert list(prunable(make())) == expected


def recurrent(x):
    return nn.LSTM(6, 12, batch_first=True), lambda model: model(x)[0]


def attention(x):
    return nn.MultiheadAttention(6, 2, batch_first=True), lambda model: model(x, x, x)[0]


def spectral(x):
    layer = parametrizations.spectral_norm(nn.Linear(6, 12))
    return layer, lambda model: model(x)


def spectral_of_old(x):
    return nn.utils.spectral_norm(nn.Linear(6, 12)), lambda model: model(x)


@pytest.mark.parametrize("budget", ["uniform", "erk", "global"])
@pytest.mark.parametrize("make", [recurrent, attention, spectral, spectral_of_old])
def test_such_layers_train_to_their_budget_and_resume_exactly(make, budget):
    x = torch.randn(3, 5, 6, generator=torch.Generator().manual_seed(1))
    line = timeline.sdnn(steps=12, sparsity=0.9, dense=2, sparse=3)

    def begin():
        torch.manual_seed(0)
        model, run = make(x)
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
        return model, run, optimizer, IHT(model, optimizer, line, budget=budget)

    def train(model, run, optimizer, iht, steps):
        for _ in range(steps):
            optimizer.zero_grad()
            (run(model) - 1).square().mean().backward()
            optimizer.step()

    model, run, optimizer, iht = begin()
    train(model, run, optimizer, iht, 7)
    states = [owner.state_dict() for owner in (model, optimizer, iht)]
    states = torch.utils._pytree.tree_map_only(torch.Tensor, torch.clone, states)
    train(model, run, optimizer, iht, 5)
    left = iht.finish()
    assert left == iht.history[-1].kept
    assert sum(left.values()) == pytest.approx(0.1 * sum(iht.history[-1].size.values()), abs=2)
    assert 0 < iht.history[-1].change_ratio < 1
    assert run(model).isfinite().all()

    other = begin()
    for owner, state in zip((other[0], other[2], other[3]), states, strict=True):
        owner.load_state_dict(state)
    train(*other, 5)
    assert all(torch.equal(other[3].weights[name], iht.weights[name]) for name in iht.weights)


@pytest.mark.parametrize("make", [spectral, spectral_of_old])
def test_zeros_under_spectral_norm_are_zeros_of_the_weight_that_is_used(make):
    x = torch.randn(4, 6)
    model, run = make(x)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    iht = IHT(model, optimizer, timeline.oneshot(steps=2, sparsity=0.75))
    for _ in range(2):
        run(model).square().mean().backward()
        optimizer.step()
    run(model)
    (mask,) = iht.masks.values()
    assert torch.equal(model.weight != 0, mask)


@pytest.mark.parametrize(
    ("parametrise", "complaint"),
    [
        (parametrizations.weight_norm, r"0\.weight is .* row .* NaN .*remove_parametrizations"),
        (weight_norm_of_old, r"0\.weight is .* NaN .*remove_weight_norm\(layer\)"),
        (parametrizations.orthogonal, r"0\.weight is .* _Orthogonal need not leave zeros"),
        (custom, r"0\.weight is .* Doubled need not leave zeros"),
        (
            lambda layer: prune.l1_unstructured(layer, "weight", 0.5),
            r"0\.weight is .*prune\.remove\(layer, 'weight'\)",
        ),
    ],
)
def test_a_weight_that_cannot_keep_its_zeros_is_refused_with_a_reason(parametrise, complaint):
    model = nn.Sequential(parametrise(nn.Linear(4, 4)), nn.Linear(4, 2))
    with pytest.raises(SkinnyError, match=complaint) as error:
        prunable(model)
    assert "exclude='0'" in str(error.value)
    with pytest.raises(SkinnyError, match=complaint):
        prunable(model, include="*")
    assert list(prunable(model, exclude="0")) == ["1.weight"]


def test_embeddings_and_what_is_tied_to_them_stay_dense_unless_they_are_included():
    model = LanguageModel()
    assert list(prunable(model)) == ["c_attn.weight"]
    assert list(prunable(model, include="wte")) == ["wte.weight"]
    assert list(prunable(model, include="head")) == ["wte.weight"]
    assert list(prunable(model, include="*")) == ["wte.weight", "c_attn.weight"]


def test_what_is_large_and_left_dense_is_named_when_iht_is_attached():
    model = LanguageModel()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    line = timeline.oneshot(epochs=2, sparsity=0.5)
    with pytest.warns(UserWarning, match=r"leaves dense: wte.weight \(75%; embeddings, .*include"):
        iht = IHT(model, optimizer, line)
    iht.begin_epoch()
    iht.begin_epoch()
    iht.detach()
    IHT(model, optimizer, line, exclude="wte").detach()  # said: a warning would be an error here
    IHT(model, optimizer, line, include="c_attn").detach()
    IHT(model, optimizer, timeline.dense(epochs=2)).detach()


def test_a_tensor_that_is_no_layers_weight_is_left_dense_and_named():
    model = nn.Linear(4, 4)
    model.positions = nn.Parameter(torch.randn(10, 4))
    assert list(prunable(model)) == ["weight"]
    assert "positions (67%; tensors that are not the weight" in select(model).warning()


def test_a_frozen_base_with_lora_has_nothing_to_prune_and_is_told_why():
    with pytest.raises(SkinnyError) as error:
        prunable(Adapted())
    assert "base_layer.weight: frozen weights are thresholded only if they are" in str(error.value)
    assert "lora_A.default.weight, lora_B.default.weight: LoRA adapters become" in str(error.value)
    assert list(prunable(Adapted(), include="lora_*")) == [
        "lora_A.default.weight",
        "lora_B.default.weight",
    ]
    with pytest.raises(SkinnyError, match=r"matches frozen weights alone \(base_layer.weight\)"):
        prunable(Adapted(), include="base_layer")


def test_a_trained_head_on_a_frozen_base_is_pruned_alone_with_a_warning():
    model = nn.Sequential(Adapted(), nn.Linear(16, 3))
    assert list(prunable(model)) == ["1.weight"]
    assert "0.base_layer.weight (66%; frozen weights" in select(model).warning()


def test_a_layer_without_a_shape_yet_is_an_error():
    with pytest.raises(SkinnyError, match=r"0\.weight has no shape yet: run a batch"):
        prunable(nn.Sequential(nn.LazyLinear(3)))


def test_printing_shows_layers_budget_and_the_share_of_all_parameters():
    model = LanguageModel()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with pytest.warns(UserWarning, match="leaves dense"):
        iht = IHT(model, optimizer, timeline.oneshot(epochs=2, sparsity=0.75))
    assert str(iht) == (
        "IHT, erk budget at 75.0%: 23.9% of the model's 1,072 parameters\n"
        "layer          shape    weights  kept  sparsity\n"
        "c_attn.weight  16 x 16      256    64     75.0%\n"
        "total of 1                  256    64     75.0%\n"
        "left dense: wte.weight (embedding), 800"
    )


def test_a_global_budget_is_printed_when_the_mask_update_has_found_it():
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    iht = IHT(model, optimizer, timeline.oneshot(epochs=2, sparsity=0.5), budget="global")
    assert str(iht).splitlines()[-1].split() == ["total", "of", "2", "32", "-", "-"]
    iht.begin_epoch()
    iht.begin_epoch()
    assert str(iht).splitlines()[-1].split() == ["total", "of", "2", "32", "16", "50.0%"]


def test_a_recurrent_network_with_attention_packs_its_zeros(tmp_path):
    class Tagger(nn.Module):
        def __init__(self):
            super().__init__()
            self.rnn = nn.GRU(6, 8, batch_first=True)
            self.attend = nn.MultiheadAttention(8, 2, batch_first=True)

        def forward(self, x):
            x, _ = self.rnn(x)
            return self.attend(x, x, x, need_weights=False)[0]

    torch.manual_seed(0)
    model, x = Tagger(), torch.randn(2, 5, 6)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    iht = IHT(model, optimizer, timeline.oneshot(steps=2, sparsity=0.9))
    for _ in range(2):
        model(x).square().mean().backward()
        optimizer.step()
    skinny.pack(model, tmp_path / "tagger.skinny", example=x)
    packed = skinny.unpack(tmp_path / "tagger.skinny")
    kept = {name: int((packed[name] != 0).sum()) for name in iht.weights}
    assert kept == iht.finish()


def test_a_budget_rule_reaches_a_weight_by_each_of_its_names():
    spectral = parametrizations.spectral_norm(nn.Linear(4, 4))
    tied = nn.Linear(4, 4)
    tied.weight = (down := nn.Linear(4, 4)).weight
    model = nn.Sequential(spectral, down, tied)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    line = timeline.oneshot(epochs=2, sparsity=0.5, dense=1)
    iht = IHT(model, optimizer, line, budget={"0": 3, "2": 5})
    iht.begin_epoch()
    iht.begin_epoch()
    assert iht.finish() == {"0.parametrizations.weight.original": 3, "1.weight": 5}
