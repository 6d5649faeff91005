import copy
import io

import pytest
import torch
from torch import nn

import skinny
from skinny.errors import SkinnyError
from skinny.iht import fake_quantize, input_range

LINE = {"steps": 12, "sparsity": 0.8, "dense": 2, "sparse": 4}  # the last span: steps 9 to 12


def network():
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(1, 8, 3, padding=1),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(8 * 36, 10),
    )


def attach(quantize="int8", optimizer=torch.optim.AdamW, wrap=None, **options):
    model = network()
    steps = optimizer(model.parameters(), lr=0.01)
    called = model if wrap is None else wrap(model)
    line = skinny.timeline.sdnn(**LINE)
    return model, steps, skinny.IHT(called, steps, line, quantize=quantize, **options), called


def batch(number):
    return torch.randn(16, 1, 6, 6, generator=torch.Generator().manual_seed(number))


def train(model, optimizer, iht, called, steps=range(12), within_step=False):
    for number in steps:

        def closure(number=number):
            optimizer.zero_grad()
            loss = called(batch(number)).square().mean()
            loss.backward()
            return loss

        if within_step:
            optimizer.step(closure)
        else:
            closure()
            optimizer.step()
    return model, optimizer, iht


@pytest.fixture(scope="module")
def trained():
    return train(*attach())


def assert_same(one, other):
    for name, value in one.state_dict().items():
        assert torch.equal(value, other.state_dict()[name]), name


def test_the_last_span_alone_is_quantised():
    model, optimizer, iht, called = attach()
    keys = list(model.state_dict())
    train(model, optimizer, iht, called, range(7))
    for name, weight in iht.weights.items():
        assert not torch.equal(weight, fake_quantize.int8_weight(weight)), name
    assert iht.ranges == {}
    train(model, optimizer, iht, called, range(7, 9))
    for name, weight in iht.weights.items():
        assert torch.equal(weight, fake_quantize.int8_weight(weight)), name
    assert list(model.state_dict()) == keys
    assert {*iht.ranges} == {"0.weight", "4.weight"}


def test_masks_hold_and_so_does_the_budget(trained):
    _, _, iht = trained
    left = iht.finish()
    for name, weight in iht.weights.items():
        assert not weight[~iht.masks[name]].any()
        assert 0 < left[name] <= iht.history[-1].kept[name]


def test_a_gradient_is_that_of_the_rounded_network_and_moves_the_value_behind_it():
    model, optimizer, iht, called = attach(optimizer=torch.optim.SGD)
    train(model, optimizer, iht, called, range(9))
    weight = model[4].weight
    before = iht.state_dict()["quantizer"]["trained"]["4.weight"].clone()
    other = copy.deepcopy(model)
    loss = other(batch(9)).square().mean()
    (gradient,) = torch.autograd.grad(loss, other[4].weight)
    train(model, optimizer, iht, called, [9])
    after = iht.state_dict()["quantizer"]["trained"]["4.weight"]
    torch.testing.assert_close(after, (before - 0.01 * gradient) * iht.masks["4.weight"])
    assert torch.equal(weight, fake_quantize.int8_weight(after))


@pytest.mark.parametrize("quantize", ["int8", "codebook3"])
def test_a_resumed_training_is_the_same(quantize):
    whole = train(*attach(quantize))
    for stopped in (5, 10):
        begun = train(*attach(quantize), range(stopped))
        file = io.BytesIO()
        torch.save([each.state_dict() for each in begun], file)
        file.seek(0)
        *again, called = attach(quantize)
        for one, state in zip(again, torch.load(file, weights_only=True), strict=True):
            one.load_state_dict(state)
        train(*again, called, range(stopped, 12))
        assert_same(again[0], whole[0])
        assert again[2].ranges == whole[2].ranges


def test_a_compiled_model_is_quantised_the_same(trained):
    torch.compiler.reset()  # what other tests compiled counts towards the limit of recompilations
    compiled = train(*attach(wrap=lambda model: torch.compile(model, backend="aot_eager")))
    assert_same(compiled[0], trained[0])
    assert compiled[2].ranges == trained[2].ranges


def test_a_closure_within_the_step_sees_the_rounded_network(trained):
    assert_same(train(*attach(), within_step=True)[0], trained[0])


def test_several_optimizers_give_the_same(trained):
    model = network()
    parts = [torch.optim.AdamW(model[i].parameters(), lr=0.01) for i in (0, 1, 4)]
    iht = skinny.IHT(model, parts, skinny.timeline.sdnn(**LINE), quantize="int8")
    for number in range(12):
        model.zero_grad()
        model(batch(number)).square().mean().backward()
        for part in parts:
            part.step()
    assert_same(model, trained[0])
    assert iht.ranges == trained[2].ranges


def test_ranges_are_frozen_in_evaluation_and_copies_round_as_the_model_does(trained):
    model, _, iht = trained
    known = iht.ranges
    model.eval()
    x = 100 * batch(99)
    with torch.no_grad():
        y, copied = model(x), copy.deepcopy(model)(x)
    model.train()
    assert iht.ranges == known
    assert torch.equal(y, copied)
    with input_range.paused(model.eval()), torch.no_grad():
        assert not torch.equal(model(x), y)  # which was clipped
    again = network().eval()
    again.load_state_dict(model.state_dict())
    input_range.attach(again, known)
    with torch.no_grad():
        assert torch.equal(again(x), y)
    assert input_range.find(again) == known
    model.train()


def test_a_forward_pass_that_fails_leaves_the_model_as_it_was(trained):
    model = copy.deepcopy(trained[0])
    with pytest.raises(RuntimeError):
        model(torch.zeros(1, 3, 6, 6))
    assert_same(model, trained[0])


def test_layers_left_dense_are_quantised_and_frozen_ones_are_not():
    model = network()
    model[0].weight.requires_grad_(False)
    first = model[0].weight.clone()
    optimizer = torch.optim.SGD([*model[1].parameters(), *model[4].parameters()], lr=0.01)
    model.append(nn.Linear(10, 4))
    optimizer.add_param_group({"params": [*model[5].parameters()]})
    line = skinny.timeline.oneshot(steps=4, sparsity=0.5)
    iht = skinny.IHT(model, optimizer, line, quantize="int8", exclude="5")
    train(model, optimizer, iht, model, range(4))
    assert {*iht.ranges} == {"4.weight", "5.weight"}
    assert torch.equal(model[0].weight, first)
    assert torch.equal(model[5].weight, fake_quantize.int8_weight(model[5].weight))
    assert model[5].weight.all()


def test_a_layer_has_as_many_values_as_its_codebook():
    _, _, iht = train(*attach("codebook2"))
    assert iht.ranges == {}
    for name, weight in iht.weights.items():
        assert 1 < len(weight[weight != 0].unique()) <= 4, name


def test_detached_models_are_plain():
    model, _, iht = train(*attach())
    iht.detach()
    x = batch(50)
    plain = network()
    plain.load_state_dict(model.state_dict())
    assert torch.equal(model.eval()(x), plain.eval()(x))


@pytest.mark.parametrize("kind", ["int4", "fp8", "codebook1", 8])
def test_other_kinds_are_refused(kind):
    with pytest.raises(SkinnyError, match=r"quantize is .*; allowed: int8, codebook2"):
        attach(kind)


def test_a_state_of_another_kind_is_refused_and_one_before_there_were_kinds_is_none():
    state = attach("int8")[2].state_dict()
    with pytest.raises(SkinnyError, match="made with quantize='int8', but this IHT has"):
        attach(None)[2].load_state_dict(state)
    older = attach(None)[2].state_dict()
    del older["quantize"], older["quantizer"]
    attach(None)[2].load_state_dict(older)


def test_packing_takes_the_graph_of_the_plain_network(trained, tmp_path):
    model, _, iht = trained
    skinny.pack(model, tmp_path / "m.skinny", example=batch(0)[:1])
    x = batch(60)
    with input_range.paused(model.eval()), torch.no_grad():
        expected = model(x)
    found = skinny.load(tmp_path / "m.skinny")(x.numpy())
    model.train()
    torch.testing.assert_close(torch.from_numpy(found), expected, atol=1e-4, rtol=1e-4)
    assert input_range.find(model) == iht.ranges
