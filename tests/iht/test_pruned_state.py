"""Models that other packages pruned: their checkpoints become plain ones, and are trained on."""

import copy

import pytest
import torch
from tests.test_documents import ROOT, blocks
from torch import nn
from torch.nn.utils import prune

import skinny
from skinny.errors import SkinnyError
from skinny.iht import timeline
from skinny.iht.controller import IHT
from skinny.iht.pruned_state import plain_state_dict


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3))

    def forward(self, x):
        return self.net(x)


def by_torch(model):
    prune.l1_unstructured(model.net[0], "weight", amount=0.5)
    prune.random_unstructured(model.net[2], "weight", amount=7)
    prune.l1_unstructured(model.net[2], "bias", amount=1)
    return model


def by_torch_in_rounds(model):
    for _ in range(3):
        prune.l1_unstructured(model.net[0], "weight", amount=0.2)
    return model


def by_torch_ao(model):
    from torch.ao.pruning import WeightNormSparsifier

    sparsifier = WeightNormSparsifier(
        sparsity_level=0.5, sparse_block_shape=(1, 1), zeros_per_block=1
    )
    sparsifier.prepare(model, [{"tensor_fqn": "net.0.weight"}])
    sparsifier.step()
    squashed = copy.deepcopy(model)
    sparsifier.squash_mask()
    return model, squashed


def by_torchao(model):
    module = pytest.importorskip("torchao.prototype.sparsity.sparsifier.weight_norm_sparsifier")
    sparsifier = module.WeightNormSparsifier(
        sparsity_level=0.5, sparse_block_shape=(1, 1), zeros_per_block=1
    )
    sparsifier.prepare(model, [{"tensor_fqn": "net.0.weight"}])
    sparsifier.step()
    return model


def by_nncf(model):
    nncf = pytest.importorskip("nncf")
    mode = nncf.PruneMode.UNSTRUCTURED_MAGNITUDE_LOCAL
    return nncf.prune(model, mode, ratio=0.5, examples_inputs=torch.ones(1, 6))


@pytest.mark.filterwarnings("ignore")  # of packages that are not ours
@pytest.mark.parametrize("pruned_by", [by_torch, by_torch_in_rounds, by_torchao, by_nncf])
def test_a_plain_model_computes_the_same_from_the_checkpoint_of_a_pruned_one(pruned_by):
    torch.manual_seed(0)
    pruned, plain, x = pruned_by(Net()), Net(), torch.randn(5, 6)
    plain.load_state_dict(plain_state_dict(pruned.state_dict()))
    assert torch.equal(plain(x), pruned(x))
    weight = plain.net[0].weight
    assert int((weight == 0).sum()) == 24
    assert not torch.signbit(weight[weight == 0]).any()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("package", "layers"), [("torchao", ["0"]), ("nncf", ["0", "2"])])
def test_the_document_prunes_as_the_other_package_does(package, layers):
    """The block of the package, and the next one after it or before it that is done here."""
    pytest.importorskip(package)
    found = blocks((ROOT / "docs/migrating.md").read_text("utf-8"))
    theirs = next(i for i, block in enumerate(found) if f" {package}" in block.text.split("\n")[0])
    step = 1 if package == "nncf" else -1
    here = next(b for b in found[theirs + step :: step] if "model_here = " in b.text)
    names = {}
    exec(found[0].text, names)  # network and train_epoch
    assert found[theirs].language == "py"
    exec(found[theirs].text, names)
    exec(here.text, names)
    state, ours = names["model"].state_dict(), names["model_here"].state_dict()
    for layer in layers:
        assert torch.equal(ours[f"{layer}.weight"] == 0, state[f"{layer}.weight"] == 0)
    if package == "nncf":  # which trains on
        torch.testing.assert_close(ours, {name: state[name] for name in ours})


def test_what_torch_ao_saves_has_no_masks_before_they_are_squashed():
    squashed, unfinished = by_torch_ao(Net())
    state = squashed.state_dict()
    assert int((state["net.0.weight"] == 0).sum()) == 24
    assert all(torch.equal(state[name], value) for name, value in plain_state_dict(state).items())
    with pytest.raises(SkinnyError, match=r"net\.0\.parametrizations\.weight\.original .*squash_m"):
        plain_state_dict(unfinished.state_dict())


def test_other_names_that_look_alike_are_passed_on():
    state = {"attention_mask": torch.ones(3), "copy_orig": torch.zeros(2), "weight": torch.ones(4)}
    assert list(plain_state_dict(state)) == list(state)


@pytest.mark.parametrize(
    "state",
    [
        {"a.weight_orig": torch.ones(3), "a.weight_mask": torch.ones(2)},
        {"__nncf_hooks.post_hooks.a:weight__0.0.binary_mask": torch.ones(3)},
    ],
)
def test_a_mask_without_its_weight_is_one_sentence(state):
    with pytest.raises(SkinnyError, match=r"the mask of a\.weight has no weight of its shape"):
        plain_state_dict(state)


@pytest.mark.parametrize("unit", ["epochs", "steps"])
def test_iht_goes_on_under_the_masks_of_a_pruned_model(unit):
    """A budget of the weights that are left gives their very masks, and no warning of a past."""
    torch.manual_seed(0)
    model = Net()
    model.load_state_dict(skinny.plain_state_dict(by_torch(Net()).state_dict()))
    there = {name: value != 0 for name, value in model.named_parameters() if value.ndim > 1}
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
    budget = {name: int(mask.sum()) for name, mask in there.items()}
    spans = timeline.oneshot(**{unit: 2}, sparsity=0.5, dense=0)
    assert [(span.start, span.length, span.sparsity) for span in spans.spans] == [(0, 2, 0.5)]
    iht = IHT(model, optimizer, spans, budget=budget)
    for _ in range(2):
        iht.begin_epoch()
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(torch.randn(8, 6)), torch.arange(8) % 3).backward()
        optimizer.step()
    assert iht.finish() == budget
    for name, mask in there.items():
        assert torch.equal(model.get_parameter(name) != 0, mask)
