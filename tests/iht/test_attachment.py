"""What an IHT is bound to: closures, other IHTs, layers that are replaced, pickling."""

import copy
import pickle

import pytest
import torch
from tests.iht.networks import LINE, batches, network, optimizer_for, step, train
from torch import nn

from skinny.errors import SkinnyError
from skinny.iht import timeline
from skinny.iht.controller import IHT

BY_STEP = timeline.sdnn(steps=9, sparsity=0.8, dense=1, sparse=2)  # D1 S2 D1 S2 D1 S2
CLOSURES = {
    "lbfgs": lambda p: torch.optim.LBFGS(p, lr=0.1, max_iter=4, history_size=3),
    "lbfgs, strong wolfe": lambda p: torch.optim.LBFGS(
        p, max_iter=4, history_size=3, line_search_fn="strong_wolfe"
    ),
    "sgd": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, weight_decay=0.01),
    "adam": lambda p: torch.optim.Adam(p, lr=0.01),
}


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"timeline": 0.9}, "the timeline is 0.9; make one, such as skinny.timeline.sdnn"),
        ({"budget": 0.9}, "the budget is 0.9; it may be 'erk'"),
        ({"budget": "wide"}, "budget is 'wide'; allowed: uniform, erk, global"),
        ({"model": network().state_dict()}, "the model is a OrderedDict: give IHT"),
    ],
)
def test_what_iht_cannot_take_is_told(change, complaint):
    model = network()
    given = {"model": model, "optimizer": optimizer_for(model), "timeline": BY_STEP, **change}
    with pytest.raises(SkinnyError, match=complaint):
        IHT(**given)


@pytest.mark.parametrize("sparsity", ["0.9", None, True, 90, float("nan")])
def test_a_sparsity_is_a_share(sparsity):
    with pytest.raises(SkinnyError, match="must lie in"):
        timeline.sdnn(epochs=9, sparsity=sparsity)


@pytest.mark.parametrize("kind", CLOSURES)
def test_a_closure_sees_masked_weights_wherever_the_optimizer_evaluates_it(kind):
    model = network()
    optimizer = CLOSURES[kind](model.parameters())
    iht = IHT(model, optimizer, BY_STEP)
    x, y = batches()[0]
    seen = []

    def closure():
        if iht.sparse:
            seen.append(all((w[~iht.masks[n]] == 0).all() for n, w in iht.weights.items()))
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        return loss

    losses = [optimizer.step(closure).item() for _ in range(9)]
    assert len(seen) >= 6
    assert all(seen)
    assert losses[-1] < losses[0]
    iht.finish()


@pytest.mark.parametrize("named", [True, False])
def test_gradients_that_a_closure_assigns_move_no_truncated_weight(named):
    """As an approximation of the average over ranks does; no hook sees them arrive."""
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    iht = IHT(model, optimizer, BY_STEP)

    def closure():
        for p in model.parameters():
            p.grad = torch.ones_like(p)

    for _ in range(2):
        optimizer.step(**{"closure": closure}) if named else optimizer.step(closure)
    for name, weight in iht.weights.items():
        momentum = optimizer.state[weight]["momentum_buffer"]
        assert not momentum[~iht.masks[name]].any()
        assert momentum[iht.masks[name]].all()


def test_a_step_at_a_learning_rate_of_zero_is_counted_where_a_closure_computes_the_gradients():
    model = network()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.0)
    iht = IHT(model, optimizer, BY_STEP)

    def closure():
        nn.functional.cross_entropy(model(batches()[0][0]), batches()[0][1]).backward()

    optimizer.step(closure)
    assert iht.sparse


def test_two_ihts_on_the_same_weights_are_an_error():
    model = network()
    first = IHT(model, optimizer_for(model), LINE)
    with pytest.raises(SkinnyError, match=r"another IHT is attached to 4\.weight: call its detach"):
        IHT(model, optimizer_for(model), LINE, include="4")
    first.detach()
    IHT(model, optimizer_for(model), LINE)


def test_two_ihts_with_layers_of_their_own_share_a_model():
    model = network()
    optimizer = optimizer_for(model)
    ihts = [IHT(model, optimizer, LINE, include="4"), IHT(model, optimizer, LINE, exclude="4")]
    for _ in range(8):
        for iht in ihts:
            iht.begin_epoch()
        step(model, optimizer, *batches()[0])
    assert [list(iht.finish()) for iht in ihts] == [["4.weight"], ["0.weight", "6.weight"]]


def test_a_model_whose_training_is_forgotten_can_be_trained_again():
    model = network()

    def train_it():
        optimizer = optimizer_for(model)
        train(model, optimizer, IHT(model, optimizer, timeline.oneshot(epochs=2, sparsity=0.5)), 2)

    train_it()
    with pytest.warns(UserWarning, match="zero and no mask says why"):
        train_it()


def test_an_iht_that_cannot_begin_leaves_nothing_attached():
    model = network()
    with torch.no_grad():
        model[4].weight[0, 0] = float("nan")
    optimizer = optimizer_for(model)
    sparse = timeline.Timeline("sparse", "step", (timeline.Span(0, 2, 0.5),))
    with pytest.raises(SkinnyError, match="NaN"):
        IHT(model, optimizer, sparse)
    with torch.no_grad():
        model[4].weight[0, 0] = 1.0
    IHT(model, optimizer, sparse)
    assert len(optimizer._optimizer_step_post_hooks) == 1


def replace(model):
    model[4] = nn.Linear(6 * 4 * 4, 8)


def parametrise(model):
    nn.utils.parametrizations.spectral_norm(model[4])


@pytest.mark.parametrize("change", [replace, parametrise])
@pytest.mark.parametrize("line", [LINE, BY_STEP], ids=["epochs", "steps"])
def test_a_layer_that_is_replaced_after_attaching_is_noticed(change, line):
    model = network()
    optimizer = optimizer_for(model)
    iht = IHT(model, optimizer, line)
    change(model)
    with pytest.raises(SkinnyError, match=r"4\.weight of the model is no longer the tensor"):
        train(model, optimizer, iht, 1)
    with pytest.raises(SkinnyError, match=r"4\.weight of the model is no longer the tensor"):
        iht.finish()


def test_a_layer_that_is_replaced_in_the_middle_is_noticed_where_a_span_begins():
    model = network()
    optimizer = optimizer_for(model)
    IHT(model, optimizer, BY_STEP)
    step(model, optimizer, *batches()[0])
    step(model, optimizer, *batches()[0])
    replace(model)
    with pytest.raises(SkinnyError, match="no longer the tensor"):
        step(model, optimizer, *batches()[0])


@pytest.mark.parametrize("duplicate", [pickle.dumps, copy.copy, copy.deepcopy])
def test_an_iht_says_why_it_cannot_be_pickled_and_what_can(duplicate):
    model = network()
    iht = IHT(model, optimizer_for(model), LINE)
    with pytest.raises(SkinnyError, match=r"cannot be pickled or copied: save iht.state_dict\(\)"):
        duplicate(iht)
    duplicate(iht.state_dict())
