"""The controller's life: what it records, saves, restores and refuses."""

import copy
import io
import itertools

import pytest
import torch
from tests.iht.networks import (
    LINE,
    assert_same,
    assert_truncated_are_zero,
    batches,
    network,
    optimizer_for,
    step,
    train,
    weights_of,
)
from torch import nn

from skinny.errors import SkinnyError
from skinny.iht import timeline
from skinny.iht.controller import IHT


def test_an_iht_made_with_a_state_goes_on_without_pruning_the_weights_it_finds():
    """The timeline begins sparse: an IHT without a state prunes as soon as it is made."""
    spans = tuple(timeline.Span(2 * i, 2, 0.5 * (i % 2 == 0)) for i in range(3))  # S2 D2 S2
    line = timeline.Timeline("sparse first", "step", spans)
    model = network()
    optimizer = optimizer_for(model)
    iht = IHT(model, optimizer, line)
    for x, y in batches(3):
        step(model, optimizer, x, y)
    assert not iht.sparse
    state, weights = copy.deepcopy(iht.state_dict()), weights_of(model)
    iht.detach()
    again = IHT(model, optimizer, line, state=state)
    assert_same(weights, weights_of(model))
    assert again.history == iht.history
    assert again.span == iht.span
    for x, y in batches(3):
        step(model, optimizer, x, y)
    again.finish()


def test_an_iht_whose_state_does_not_fit_leaves_the_model_free():
    model = network()
    state = IHT(model, optimizer_for(model), LINE, score="random").state_dict()
    with pytest.raises(SkinnyError, match="made with score='random'"):
        IHT(model, optimizer_for(model), LINE, state=state)
    IHT(model, optimizer_for(model), LINE)


def test_a_deep_copy_is_free_and_a_new_iht_can_take_it_over():
    model = network()
    optimizer = optimizer_for(model)
    iht = IHT(model, optimizer, LINE)
    train(model, optimizer, iht, 3)
    twin = copy.deepcopy(model)
    assert_same(weights_of(model), weights_of(twin))
    twin_optimizer = optimizer_for(twin)
    original = weights_of(model)
    step(twin, twin_optimizer, *batches()[0])
    assert_same(original, weights_of(model))
    assert int((twin[4].weight != 0).sum()) > int((model[4].weight != 0).sum())

    twin = copy.deepcopy(model)
    twin_optimizer = optimizer_for(twin)
    twin_optimizer.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    twin_iht = IHT(twin, twin_optimizer, LINE)
    twin_iht.load_state_dict(iht.state_dict())
    train(model, optimizer, iht, 5)
    train(twin, twin_optimizer, twin_iht, 5)
    assert_same(weights_of(model), weights_of(twin))


@pytest.mark.parametrize("stop", range(1, 8))
@pytest.mark.parametrize("restore", ["zero", "last"])
@pytest.mark.parametrize("kind", ["nesterov", "adamw"])
def test_state_restores_exactly_in_every_epoch(kind, restore, stop):
    def make():
        model = network()
        optimizer = optimizer_for(model, kind)
        return model, optimizer, IHT(model, optimizer, LINE, restore=restore)

    model, optimizer, iht = make()
    train(model, optimizer, iht, stop)
    file = io.BytesIO()
    torch.save([owner.state_dict() for owner in (model, optimizer, iht)], file)
    train(model, optimizer, iht, 8 - stop)

    file.seek(0)
    again = make()
    for owner, state in zip(again, torch.load(file, weights_only=True), strict=True):
        owner.load_state_dict(state)
    train(*again, 8 - stop)
    assert_same(weights_of(model), weights_of(again[0]))
    assert iht.history == again[2].history


def test_state_restores_exactly_between_any_two_steps():
    line = timeline.sdnn(steps=12, sparsity=0.8, dense=2, sparse=3)
    data = batches(12)

    def make():
        model = network()
        optimizer = optimizer_for(model, "adamw")
        return model, optimizer, IHT(model, optimizer, line, score="random", seed=5)

    for stop in range(12):
        model, optimizer, iht = make()
        for x, y in data[:stop]:
            step(model, optimizer, x, y)
        states = copy.deepcopy([owner.state_dict() for owner in (model, optimizer, iht)])
        for x, y in data[stop:]:
            step(model, optimizer, x, y)
        again = make()
        for owner, state in zip(again, states, strict=True):
            owner.load_state_dict(state)
        for x, y in data[stop:]:
            step(again[0], again[1], x, y)
        assert_same(weights_of(model), weights_of(again[0]))


def test_step_timelines_need_no_call_at_all():
    model = network()
    optimizer = optimizer_for(model)
    iht = IHT(model, optimizer, timeline.sdnn(steps=6, sparsity=0.5, dense=1, sparse=1))
    phases = []
    for x, y in batches(6):
        phases.append(iht.span.phase)
        step(model, optimizer, x, y)
    assert phases == ["dense", "sparse"] * 3
    assert [record.at for record in iht.history] == [1, 3, 5]
    assert_truncated_are_zero(iht)


def test_history_records_sparsity_per_layer_and_the_change_ratio():
    model = network()
    optimizer = optimizer_for(model)
    iht = IHT(model, optimizer, LINE, budget="uniform")
    iht.begin_epoch()
    iht.begin_epoch()
    iht.begin_epoch()
    first = {name: mask.clone() for name, mask in iht.masks.items()}
    train(model, optimizer, iht, 5)
    early, late = iht.history
    assert (early.at, late.at) == (2, 6)
    assert early.target == pytest.approx(0.5 + 2 * 0.3 / 8)
    assert early.change is None
    assert early.change_ratio is None
    expected = {name: float((first[name] != m).float().mean()) for name, m in iht.masks.items()}
    assert late.change == pytest.approx(expected)
    sizes = late.size
    overall = sum(expected[n] * sizes[n] for n in sizes) / sum(sizes.values())
    assert late.change_ratio == pytest.approx(overall)
    for name, value in late.layer_sparsity().items():
        assert value == pytest.approx(0.8, abs=0.5 / sizes[name] + 1e-9)
    assert late.sparsity == pytest.approx(0.8, abs=0.01)


@pytest.mark.parametrize("budget", ["uniform", "erk", "global", {"4": 0.9, "6": 5}])
@pytest.mark.parametrize("line", [LINE, timeline.gradual(epochs=8, sparsity=0.8)])
@pytest.mark.parametrize("score", ["magnitude", "random"])
def test_every_budget_runs_on_every_kind_of_timeline(budget, line, score):
    model = network()
    optimizer = optimizer_for(model)
    iht = IHT(model, optimizer, line, budget=budget, score=score)
    masks = []
    for _ in range(8):
        iht.begin_epoch()
        step(model, optimizer, *batches()[0])
        if iht.sparse:
            assert_truncated_are_zero(iht)
            masks.append({name: mask.clone() for name, mask in iht.masks.items()})
    last = iht.history[-1]
    if budget == {"4": 0.9, "6": 5}:
        assert last.kept == {"0.weight": 11, "4.weight": 77, "6.weight": 5}
    else:
        assert last.sparsity == pytest.approx(0.8, abs=0.01)
    if line.name == "gradual":  # nothing is restored
        for earlier, later in itertools.pairwise(masks):
            assert not any((later[n] & ~earlier[n]).any() for n in later)


def test_nothing_is_zeroed_when_one_layer_holds_a_nan():
    model = network()
    optimizer = optimizer_for(model)
    iht = IHT(model, optimizer, timeline.oneshot(epochs=2, sparsity=0.5, dense=1))
    iht.begin_epoch()
    with torch.no_grad():
        model[6].weight[0, 0] = float("nan")
    before = weights_of(model)
    with pytest.raises(SkinnyError, match=r"layer 6.weight: .* NaN or infinite"):
        iht.begin_epoch()
    after = weights_of(model)
    assert all(torch.equal(before[n], after[n]) for n in before if n != "6.weight")
    assert iht.masks is None


def test_state_dict_keys_of_the_model_never_change():
    model = network()
    keys = list(model.state_dict())
    optimizer = optimizer_for(model)
    iht = IHT(model, optimizer, LINE)
    train(model, optimizer, iht, 4)
    assert list(model.state_dict()) == keys


def test_detached_it_enforces_nothing():
    model = network()
    optimizer = optimizer_for(model)
    iht = IHT(model, optimizer, LINE)
    train(model, optimizer, iht, 3)
    iht.detach()
    step(model, optimizer, *batches()[0])
    assert int((model[4].weight != 0).sum()) > int(iht.masks["4.weight"].sum())


def test_a_forgotten_begin_epoch_is_noticed():
    model = network()
    optimizer = optimizer_for(model)
    IHT(model, optimizer, LINE)
    with pytest.raises(SkinnyError, match=r"call iht.begin_epoch\(\)"):
        step(model, optimizer, *batches()[0])


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"budget": "even"}, "budget is 'even'; allowed: uniform, erk, global"),
        ({"budget": {"9": 0.5}}, "matches no prunable layer"),
        ({"score": "gradient"}, "score is 'gradient'; allowed: magnitude, random"),
        ({"restore": "mean"}, "restore is 'mean'"),
        ({"exclude": "9"}, "matches nothing"),
    ],
)
def test_bad_options_are_refused_before_training_starts(options, complaint):
    model = network()
    with pytest.raises(SkinnyError, match=complaint):
        IHT(model, optimizer_for(model), LINE, **options)


def test_weights_the_optimizer_does_not_hold_are_refused_by_name():
    model = network()
    optimizer = torch.optim.SGD(model[0].parameters(), lr=0.1)
    with pytest.raises(SkinnyError, match=r"does not hold 4.weight, 6.weight"):
        IHT(model, optimizer, LINE)


def test_state_of_another_timeline_or_model_is_refused():
    model = network()
    iht = IHT(model, optimizer_for(model), LINE)
    by_step = timeline.Timeline("sdnn", "step", LINE.spans)
    other_model = network()
    with pytest.raises(SkinnyError, match="another timeline"):
        iht.load_state_dict(IHT(other_model, optimizer_for(other_model), by_step).state_dict())
    with pytest.raises(SkinnyError, match="not the state of an IHT: it has no 'before'"):
        iht.load_state_dict({})
    other_model = network()
    plain = IHT(other_model, optimizer_for(other_model), timeline.dense(epochs=8))
    with pytest.raises(SkinnyError, match="another timeline"):
        iht.load_state_dict(plain.state_dict())
    other = nn.Sequential(nn.Linear(3, 4))
    other_iht = IHT(other, optimizer_for(other), LINE)
    for _ in range(3):
        other_iht.begin_epoch()
    with pytest.raises(SkinnyError, match="made for other layers"):
        iht.load_state_dict(other_iht.state_dict())


def test_layers_of_another_shape_are_named():
    narrow, wide = nn.Sequential(nn.Linear(3, 4)), nn.Sequential(nn.Linear(3, 5))
    state = IHT(wide, optimizer_for(wide), LINE).state_dict()
    with pytest.raises(SkinnyError, match=r"its 0.weight has the shape \[5, 3\], the model's \["):
        IHT(narrow, optimizer_for(narrow), LINE).load_state_dict(state)


def test_state_of_other_layers_is_refused_before_there_is_a_mask():
    model = network()
    iht = IHT(model, optimizer_for(model), LINE)
    other = network()
    fewer = IHT(other, optimizer_for(other), LINE, exclude="6")
    with pytest.raises(SkinnyError, match=r"other layers: it has 0.weight, 4.weight; the model"):
        iht.load_state_dict(fewer.state_dict())


@pytest.mark.parametrize(
    ("saved", "complaint"),
    [
        ({"restore": "last"}, "made with restore='last', but this IHT has restore='zero'"),
        ({"score": "random"}, "made with score='random', but this IHT has score='magnitude'"),
        ({"seed": 3}, "made with seed=3, but this IHT has seed=0"),
        ({"budget": "global"}, "made with budget='global', but this IHT has budget='erk'"),
        ({"budget": {"4": 0.5}}, r"made with budget=\[\['4', 0.5\]\], but this IHT has"),
    ],
)
def test_state_made_with_other_options_is_refused_by_name(saved, complaint):
    def make(**options):
        model = network()
        return IHT(model, optimizer_for(model), LINE, **options)

    with pytest.raises(SkinnyError, match=complaint):
        make().load_state_dict(make(**saved).state_dict())
    make(**saved).load_state_dict(make(**saved).state_dict())


BY_STEP = timeline.sdnn(steps=24, sparsity=0.8, dense=6, sparse=6)


@pytest.mark.parametrize("line", [LINE, BY_STEP], ids=["epochs", "steps"])
@pytest.mark.parametrize(
    ("epochs", "signs"),
    [
        (1, "the optimizer has taken steps before"),
        (
            3,
            "the optimizer has taken steps before and many weights of 0.weight, 4.weight, 6.weight",
        ),
    ],
)
def test_a_training_resumed_without_the_state_of_iht_is_noticed(line, epochs, signs):
    model = network()
    optimizer = optimizer_for(model)
    iht = IHT(model, optimizer, line, budget="uniform")
    train(model, optimizer, iht, epochs)
    states = copy.deepcopy([owner.state_dict() for owner in (model, optimizer, iht)])

    again = network()
    again_optimizer = optimizer_for(again)
    again_iht = IHT(again, again_optimizer, line, budget="uniform")
    again.load_state_dict(states[0])
    again_optimizer.load_state_dict(states[1])
    with pytest.warns(UserWarning, match=signs):
        train(again, again_optimizer, again_iht, 1)
    train(again, again_optimizer, again_iht, 1)  # says it once

    whole = network()
    whole_optimizer = optimizer_for(whole)
    whole_iht = IHT(whole, whole_optimizer, line, budget="uniform")
    for owner, state in zip((whole, whole_optimizer, whole_iht), states, strict=True):
        owner.load_state_dict(state)
    train(whole, whole_optimizer, whole_iht, 1)  # a warning would be an error here


def test_a_sparse_model_may_be_fine_tuned_and_a_zero_layer_is_no_sign():
    model = network()
    with torch.no_grad():
        model[4].weight[:, ::2] = 0
        model[6].weight.zero_()
    optimizer = optimizer_for(model, "sgd")
    iht = IHT(model, optimizer, LINE)
    with pytest.warns(UserWarning, match=r"but many weights of 4.weight are zero .* all is well"):
        iht.begin_epoch()
    train(model, optimizer, iht, 7)
    assert iht.finish() == iht.history[-1].kept


def test_steps_that_start_sparse_are_not_taken_for_a_resumption():
    model = network()
    optimizer = optimizer_for(model, "sgd")
    spans = (timeline.Span(0, 2, 0.5),)
    IHT(model, optimizer, timeline.Timeline("sparse", "step", spans))
    step(model, optimizer, *batches()[0])
