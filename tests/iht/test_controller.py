"""The controller's promises (docs/method.md), each for every optimizer it is likely to meet."""

import copy
import io
import itertools

import pytest
import torch
from torch import nn

from skinny.errors import SkinnyError
from skinny.iht import timeline
from skinny.iht.controller import IHT

SGD, Adam, AdamW, RMSprop = (
    torch.optim.SGD,
    torch.optim.Adam,
    torch.optim.AdamW,
    torch.optim.RMSprop,
)
OPTIMIZERS = {
    "sgd": (SGD, {"lr": 0.1}),
    "momentum and decay": (SGD, {"lr": 0.05, "momentum": 0.9, "weight_decay": 1e-2}),
    "nesterov": (SGD, {"lr": 0.05, "momentum": 0.9, "nesterov": True, "weight_decay": 1e-2}),
    "adam": (Adam, {"lr": 1e-2, "weight_decay": 1e-2}),
    "adamw": (AdamW, {"lr": 1e-2, "weight_decay": 1e-1}),
    "amsgrad": (AdamW, {"lr": 1e-2, "amsgrad": True}),
    "rmsprop": (RMSprop, {"lr": 1e-3, "momentum": 0.9, "centered": True, "weight_decay": 1e-2}),
}
every_optimizer = pytest.mark.parametrize("kind", OPTIMIZERS)
LINE = timeline.sdnn(epochs=8, sparsity=0.8, dense=2, sparse=2)  # D2 S2 D2 S2


def network(seed=0):
    torch.manual_seed(seed)
    return nn.Sequential(
        nn.Conv2d(1, 6, 3, padding=1),
        nn.BatchNorm2d(6),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(6 * 4 * 4, 8),
        nn.ReLU(),
        nn.Linear(8, 3),
    )


def batches(count=3, seed=0):
    draw = torch.Generator().manual_seed(seed)
    return [
        (torch.randn(8, 1, 4, 4, generator=draw), torch.randint(0, 3, (8,), generator=draw))
        for _ in range(count)
    ]


def optimizer_for(model, kind="momentum and decay"):
    factory, options = OPTIMIZERS[kind]
    return factory(model.parameters(), **options)


def step(model, optimizer, x, y):
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(x), y).backward()
    optimizer.step()


def train(model, optimizer, iht, epochs, check=lambda: None):
    for _ in range(epochs):
        iht.begin_epoch()
        for x, y in batches():
            step(model, optimizer, x, y)
            check()


def assert_truncated_are_zero(iht):
    for name, weight in iht.weights.items():
        truncated = weight[~iht.masks[name]]
        assert (truncated == 0).all()
        assert not torch.signbit(truncated).any()


def weights_of(model):
    return {name: value.clone() for name, value in model.state_dict().items()}


def assert_same(a, b):
    assert a.keys() == b.keys()
    for name in a:
        assert torch.equal(a[name], b[name]), name


@every_optimizer
def test_truncated_weights_are_exactly_zero_after_every_step(kind):
    model = network()
    optimizer = optimizer_for(model, kind)
    iht = IHT(model, optimizer, LINE)
    seen = []

    def check():
        seen.append(iht.sparse)
        if iht.sparse:
            assert_truncated_are_zero(iht)

    train(model, optimizer, iht, 8, check)
    assert seen == ([False] * 6 + [True] * 6) * 2
    for name, weight in iht.weights.items():
        kept = round(0.2 * weight.numel())
        assert int(iht.masks[name].sum()) == kept
        assert int((weight != 0).sum()) == kept  # the model that comes out meets its budget


@every_optimizer
def test_kept_weights_learn_as_if_the_truncated_ones_did_not_exist(kind):
    """A sparse span equals training W * M from cleared optimizer state at the truncated places."""
    model = network()
    optimizer = optimizer_for(model, kind)
    line = timeline.oneshot(epochs=3, sparsity=0.7, dense=1)
    iht = IHT(model, optimizer, line)
    train(model, optimizer, iht, 1)
    iht.begin_epoch()

    twin = network()
    twin.load_state_dict(model.state_dict())
    twin_optimizer = optimizer_for(twin, kind)
    twin_optimizer.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    for x, y in batches():
        step(model, optimizer, x, y)
        masked = {
            name: value * iht.masks[name].float() if name in iht.masks else value
            for name, value in twin.named_parameters()
        }
        twin_optimizer.zero_grad()
        logits = torch.func.functional_call(twin, masked, (x,))
        nn.functional.cross_entropy(logits, y).backward()
        twin_optimizer.step()
        with torch.no_grad():  # weight decay may move what the product with the mask hides
            for name, value in twin.named_parameters():
                if name in iht.masks:
                    value.mul_(iht.masks[name])
    for name, value in model.named_parameters():
        torch.testing.assert_close(value, dict(twin.named_parameters())[name], rtol=1e-5, atol=1e-7)


@every_optimizer
def test_optimizer_state_of_truncated_weights_is_cleared_and_stays_clear(kind):
    model = network()
    optimizer = optimizer_for(model, kind)
    iht = IHT(model, optimizer, LINE)

    def check():
        if not iht.sparse:
            return
        for name, weight in iht.weights.items():
            for value in optimizer.state[weight].values():
                if torch.is_tensor(value) and value.shape == weight.shape:
                    assert (value[~iht.masks[name]] == 0).all()

    train(model, optimizer, iht, 4, check)


@every_optimizer
def test_restored_weights_start_at_zero_and_learn_again(kind):
    model = network()
    optimizer = optimizer_for(model, kind)
    iht = IHT(model, optimizer, LINE)
    train(model, optimizer, iht, 4)
    truncated = {name: ~mask for name, mask in iht.masks.items()}
    iht.begin_epoch()
    assert not iht.sparse
    assert_truncated_are_zero(iht)
    step(model, optimizer, *batches()[0])
    revived = sum(int((iht.weights[n][m] != 0).sum()) for n, m in truncated.items())
    assert revived > 0.5 * sum(int(m.sum()) for m in truncated.values())


def test_restore_last_gives_back_the_values_before_truncation():
    model = network()
    optimizer = optimizer_for(model)
    iht = IHT(model, optimizer, LINE, restore="last")
    train(model, optimizer, iht, 2)
    before = weights_of(model)
    train(model, optimizer, iht, 2)
    trained = weights_of(model)
    iht.begin_epoch()
    for name, weight in iht.weights.items():
        mask = iht.masks[name]
        assert torch.equal(weight[~mask], before[name][~mask])
        assert torch.equal(weight[mask], trained[name][mask])


def test_restore_last_remembers_across_ever_sparser_spans():
    model = network()
    optimizer = optimizer_for(model, "sgd")
    spans = [timeline.Span(0, 1, 0.5), timeline.Span(1, 1, 0.8), timeline.Span(2, 1, 0.0)]
    iht = IHT(model, optimizer, timeline.Timeline("x", "epoch", tuple(spans)), restore="last")
    start = weights_of(model)
    iht.begin_epoch()
    first = {name: mask.clone() for name, mask in iht.masks.items()}
    iht.begin_epoch()
    iht.begin_epoch()
    for name, weight in iht.weights.items():
        assert torch.equal(weight[~first[name]], start[name][~first[name]])


def test_clipping_and_norms_do_not_see_truncated_gradients():
    model = network()
    optimizer = optimizer_for(model)
    iht = IHT(model, optimizer, timeline.sdnn(epochs=2, sparsity=0.9, dense=1, sparse=1))
    train(model, optimizer, iht, 1)
    iht.begin_epoch()
    optimizer.zero_grad()
    x, y = batches()[0]
    nn.functional.cross_entropy(model(x), y).backward()
    for name, weight in iht.weights.items():
        assert (weight.grad[~iht.masks[name]] == 0).all()
        assert (weight.grad[iht.masks[name]] != 0).any()
    norm = nn.utils.clip_grad_norm_(model.parameters(), 0.01)
    visible = torch.cat(
        [
            p.grad[iht.masks[n]] if n in iht.masks else p.grad.view(-1)
            for n, p in model.named_parameters()
        ]
    )
    assert visible.norm() == pytest.approx(0.01, rel=1e-3)
    assert norm > 0.01
    optimizer.step()
    assert_truncated_are_zero(iht)


@pytest.mark.parametrize("fresh", [False, True])
def test_gradients_changed_after_they_arrived_are_masked_again(fresh):
    model = network()
    optimizer = optimizer_for(model)
    iht = IHT(model, optimizer, timeline.oneshot(epochs=2, sparsity=0.6, dense=1))
    train(model, optimizer, iht, 1)
    iht.begin_epoch()
    x, y = batches()[0]
    for _ in range(3):
        optimizer.zero_grad(set_to_none=False)  # the same gradient tensors, written again
        nn.functional.cross_entropy(model(x), y).backward()
        for parameter in model.parameters():
            parameter.grad.add_(1.0)  # noise, as some methods add it
        if fresh:  # in a new tensor, which may lie where the old one was
            noisy = [parameter.grad.clone() for parameter in model.parameters()]
            for parameter, gradient in zip(model.parameters(), noisy, strict=True):
                parameter.grad = None
                parameter.grad = torch.empty_like(parameter).copy_(gradient)
        optimizer.step()
        assert_truncated_are_zero(iht)
        for name, weight in iht.weights.items():
            assert (optimizer.state[weight]["momentum_buffer"][~iht.masks[name]] == 0).all()


def test_gradient_accumulation_equals_the_large_batch():
    line = timeline.oneshot(epochs=2, sparsity=0.6, dense=1)
    results = []
    for pieces in (1, 2):
        model = network()
        model[1] = nn.Identity()  # batch norm would see the pieces
        optimizer = optimizer_for(model, "adamw")
        iht = IHT(model, optimizer, line)
        for _ in range(2):
            iht.begin_epoch()
            for x, y in batches():
                optimizer.zero_grad()
                for part_x, part_y in zip(x.chunk(pieces), y.chunk(pieces), strict=True):
                    (nn.functional.cross_entropy(model(part_x), part_y) / pieces).backward()
                optimizer.step()
        assert_truncated_are_zero(iht)
        results.append(model[4].weight.detach().clone())
    torch.testing.assert_close(*results, rtol=1e-3, atol=1e-4)


def test_gradients_left_over_from_before_a_thresholding_cannot_revive_a_weight():
    model = network()
    optimizer = optimizer_for(model)
    iht = IHT(model, optimizer, timeline.oneshot(epochs=2, sparsity=0.6, dense=1))
    iht.begin_epoch()
    x, y = batches()[0]
    nn.functional.cross_entropy(model(x), y).backward()
    iht.begin_epoch()  # thresholds in the middle of an accumulation
    optimizer.step()
    assert_truncated_are_zero(iht)
    for name, weight in iht.weights.items():
        assert (optimizer.state[weight]["momentum_buffer"][~iht.masks[name]] == 0).all()


def test_amp_scaler_skips_a_bad_step_and_the_masks_hold():
    model = network()
    optimizer = optimizer_for(model, "adamw")
    iht = IHT(model, optimizer, timeline.oneshot(epochs=2, sparsity=0.6, dense=1))
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**10)
    for epoch in range(2):
        iht.begin_epoch()
        for number, (x, y) in enumerate(batches()):
            optimizer.zero_grad()
            with torch.autocast("cpu", dtype=torch.bfloat16):
                loss = nn.functional.cross_entropy(model(x), y)
            scaler.scale(loss).backward()
            if number == 1:
                model[0].bias.grad.fill_(float("inf"))  # an overflow: this step is skipped
            before = weights_of(model)
            scaler.unscale_(optimizer)
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            scaler.step(optimizer)
            scaler.update()
            if number == 1:
                assert_same(before, weights_of(model))
            if epoch == 1:
                assert_truncated_are_zero(iht)
    assert scaler.get_scale() < 2.0**10


def test_several_parameter_groups_keep_their_own_settings():
    model = network()
    groups = [
        {"params": [p for n, p in model.named_parameters() if "weight" in n], "weight_decay": 0.1},
        {"params": [p for n, p in model.named_parameters() if "bias" in n], "lr": 0.2},
    ]
    optimizer = torch.optim.SGD(groups, lr=0.1, momentum=0.9)
    iht = IHT(model, optimizer, LINE)
    train(model, optimizer, iht, 4)
    assert_truncated_are_zero(iht)
    assert [group["lr"] for group in optimizer.param_groups] == [0.1, 0.2]


def test_tied_weights_are_thresholded_once_and_stay_tied():
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = nn.Embedding(11, 6)
            self.out = nn.Linear(6, 11, bias=False)
            self.out.weight = self.embed.weight

        def forward(self, x):
            return self.out(self.embed(x).mean(1))

    torch.manual_seed(0)
    model = Tied()
    optimizer = optimizer_for(model, "adamw")
    iht = IHT(model, optimizer, LINE)
    draw = torch.Generator().manual_seed(0)
    for _ in range(4):
        iht.begin_epoch()
        x = torch.randint(0, 11, (16, 3), generator=draw)
        step(model, optimizer, x, x[:, 0])
    assert list(iht.masks) == ["embed.weight"]
    assert model.out.weight is model.embed.weight
    assert_truncated_are_zero(iht)


def test_a_compiled_model_trains_as_the_plain_one():
    outcomes = []
    for wrap in (lambda m: m, lambda m: torch.compile(m, backend="aot_eager")):
        plain = network()
        model = wrap(plain)
        optimizer = optimizer_for(plain, "adamw")
        iht = IHT(model, optimizer, LINE)
        train(model, optimizer, iht, 8)
        assert_truncated_are_zero(iht)
        outcomes.append((plain[4].weight.detach(), {n: m.clone() for n, m in iht.masks.items()}))
    torch.testing.assert_close(outcomes[0][0], outcomes[1][0], rtol=1e-3, atol=1e-5)
    assert outcomes[0][1].keys() == outcomes[1][1].keys()


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
    torch.save([part.state_dict() for part in (model, optimizer, iht)], file)
    train(model, optimizer, iht, 8 - stop)

    file.seek(0)
    again = make()
    for part, state in zip(again, torch.load(file, weights_only=True), strict=True):
        part.load_state_dict(state)
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
        states = copy.deepcopy([part.state_dict() for part in (model, optimizer, iht)])
        for x, y in data[stop:]:
            step(model, optimizer, x, y)
        again = make()
        for part, state in zip(again, states, strict=True):
            part.load_state_dict(state)
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
    iht = IHT(model, optimizer, LINE)
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
    if line.name == "gradual":  # nothing is given back
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


def test_moving_to_another_dtype_and_back_keeps_the_masks():
    model = network()
    optimizer = optimizer_for(model, "sgd")
    iht = IHT(model, optimizer, timeline.oneshot(epochs=2, sparsity=0.5, dense=1))
    train(model, optimizer, iht, 2)
    model.double()
    x, y = batches()[0]
    step(model, optimizer, x.double(), y)
    assert_truncated_are_zero(iht)


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
    with pytest.raises(SkinnyError, match="another timeline"):
        iht.load_state_dict(IHT(model, optimizer_for(model), timeline.dense(epochs=8)).state_dict())
    other = nn.Sequential(nn.Linear(3, 4))
    other_iht = IHT(other, optimizer_for(other), LINE)
    for _ in range(3):
        other_iht.begin_epoch()
    with pytest.raises(SkinnyError, match="made for other layers"):
        iht.load_state_dict(other_iht.state_dict())
