"""The controller's promises (docs/method.md), each for every optimizer it is likely to meet."""

import copy

import pytest
import torch
from tests.iht.networks import (
    LINE,
    assert_same,
    assert_truncated_are_zero,
    batches,
    every_optimizer,
    network,
    optimizer_for,
    step,
    train,
    weights_of,
)
from torch import nn

from skinny.iht import timeline
from skinny.iht.controller import IHT


@every_optimizer
def test_truncated_weights_are_exactly_zero_after_every_step(kind):
    model = network()
    optimizer = optimizer_for(model, kind)
    iht = IHT(model, optimizer, LINE, budget="uniform")
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


def test_restore_last_restores_the_values_before_truncation():
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
                for some_x, some_y in zip(x.chunk(pieces), y.chunk(pieces), strict=True):
                    (nn.functional.cross_entropy(model(some_x), some_y) / pieces).backward()
                optimizer.step()
        assert_truncated_are_zero(iht)
        results.append(model[4].weight.detach().clone())
    torch.testing.assert_close(*results, rtol=1e-3, atol=1e-4)


def test_gradients_left_over_from_before_a_mask_update_cannot_revive_a_weight():
    model = network()
    optimizer = optimizer_for(model)
    iht = IHT(model, optimizer, timeline.oneshot(epochs=2, sparsity=0.6, dense=1))
    iht.begin_epoch()
    x, y = batches()[0]
    nn.functional.cross_entropy(model(x), y).backward()
    iht.begin_epoch()  # prunes in the middle of an accumulation
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
    iht = IHT(model, optimizer, LINE, include="embed")
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


def test_moving_to_another_dtype_and_back_keeps_the_masks():
    model = network()
    optimizer = optimizer_for(model, "sgd")
    iht = IHT(model, optimizer, timeline.oneshot(epochs=2, sparsity=0.5, dense=1))
    train(model, optimizer, iht, 2)
    model.double()
    x, y = batches()[0]
    step(model, optimizer, x.double(), y)
    assert_truncated_are_zero(iht)
