import itertools

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

import skinny
from skinny.errors import SkinnyError
from skinny.iht import masks, patterns
from skinny.iht.patterns import Pattern, Structured


def groups_of(x, axis, size):
    """The flat indices of every group, groups in the order of their first member."""
    index = torch.arange(x.numel()).view(x.shape).movedim(axis, -1)
    found = index.reshape(-1, x.shape[axis] // size, size).flatten(0, 1).tolist()
    return sorted(found)


def group_mask_reference(x, k, axis, size, within=None):
    flat = x.flatten().tolist()
    order = sorted(
        (g for g in groups_of(x, axis, size) if within is None or within.flatten()[g[0]]),
        key=lambda g: (-sum(flat[i] ** 2 for i in g), g[0]),
    )
    mask = torch.zeros(x.numel(), dtype=torch.bool)
    for group in order[: k // size]:
        mask[group] = True
    return mask.view(x.shape)


def n_of_m_reference(x, keep, axis, size, within=None):
    flat = x.flatten().tolist()
    mask = torch.zeros(x.numel(), dtype=torch.bool)
    for group in groups_of(x, axis, size):
        allowed = [i for i in group if within is None or within.flatten()[i]]
        mask[sorted(allowed, key=lambda i: (-abs(flat[i]), i))[:keep]] = True
    return mask.view(x.shape)


@st.composite
def layers(draw):
    """Whole numbers, so that ties are many and norms exact; kernels, strided memory, any axis."""
    size, axis = draw(st.integers(2, 5)), draw(st.integers(0, 2))
    shape = [draw(st.integers(1, 4)) for _ in range(draw(st.integers(max(2, axis + 1), 4)))]
    shape[axis] = size * draw(st.integers(1, 4))
    x = torch.randint(
        -3, 4, shape, generator=torch.Generator().manual_seed(draw(st.integers(0, 99)))
    )
    if draw(st.booleans()):
        x = x.transpose(0, 1).contiguous().transpose(0, 1)
    return x.to(draw(st.sampled_from([torch.float16, torch.float32, torch.float64]))), axis, size


@given(layers(), st.data())
def test_whole_groups_of_largest_norm_stay(layer, data):
    x, axis, size = layer
    on = Structured(Pattern(size), axis)
    first = size * data.draw(st.integers(0, x.numel() // size))
    second = size * data.draw(st.integers(0, first // size))
    found = masks.build({"w": x}, {"w": first}, structured={"w": on})["w"]
    assert torch.equal(found, group_mask_reference(x, first, axis, size))
    inside = masks.build({"w": x}, {"w": second}, structured={"w": on}, within={"w": found})["w"]
    assert torch.equal(inside, group_mask_reference(x, second, axis, size, found))


@given(layers(), st.data())
def test_the_n_largest_of_every_m_stay(layer, data):
    x, axis, size = layer
    first = data.draw(st.integers(2, size))
    keep = data.draw(st.integers(1, first - 1))
    on = Structured(Pattern(size, keep), axis)

    def build(count, within=None):
        counts = {"w": x.numel() // size * count}
        return masks.build({"w": x}, counts, structured={"w": on}, within=within)["w"]

    wider = build(first)
    assert torch.equal(wider, n_of_m_reference(x, first, axis, size))
    assert torch.equal(build(keep, {"w": wider}), n_of_m_reference(x, keep, axis, size, wider))


@pytest.mark.parametrize("pattern", [Pattern(4), Pattern(4, 1)])
def test_random_masks_have_the_pattern_and_the_count(pattern):
    x, on = torch.zeros(6, 8, 3), Structured(pattern, 1)
    draw = torch.Generator().manual_seed(0)
    made = [
        masks.build({"w": x}, {"w": 36}, score="random", structured={"w": on}, generator=draw)["w"]
        for _ in range(2)
    ]
    in_groups = [mask.view(6, 2, 4, 3).sum(2) for mask in made]
    assert [set(groups.flatten().tolist()) for groups in in_groups] == (
        [{0, 4}] * 2 if pattern.keep is None else [{1}] * 2
    )
    assert made[0].sum() == 36
    assert not torch.equal(*made)


def test_norms_neither_overflow_nor_vanish():
    x = torch.tensor([[1e30, 0, 0, 1e-30], [2e30, 0, 1e-30, 1e-30]])
    mask = masks.build({"w": x}, {"w": 6}, structured={"w": Structured(Pattern(2), 1)})["w"]
    assert mask.tolist() == [[True, True, False, False], [True, True, True, True]]


@pytest.mark.parametrize("text", ["", "4", "1x1", "2x4", "0:4", "4:4", "5:4", "1x-4", "1x4x4", 4])
def test_other_patterns_are_refused(text):
    with pytest.raises(SkinnyError, match=r"the pattern is .*; allowed: 1xM .* N:M"):
        patterns.parse(text)


@pytest.mark.parametrize("text", ["1x4", "2:4", "1x16", "1:8"])
def test_a_pattern_is_called_as_it_was_given(text):
    assert str(patterns.parse(text)) == text


class Net(nn.Module):
    """Three input channels first, which do not divide; a transposed layer has its inputs first."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.first = nn.Conv2d(3, 8, 3, padding=1)
        self.deep = nn.Conv2d(8, 12, 3, padding=1)
        self.up = nn.ConvTranspose2d(12, 5, 2, groups=1)
        self.last = nn.Linear(5 * 25, 10)

    def forward(self, x):
        x = self.up(self.deep(self.first(x).relu()).relu())
        return self.last(x.flatten(1))


def train(iht, model, optimizer, steps):
    for number in steps:
        draw = torch.Generator().manual_seed(number)
        optimizer.zero_grad()
        model(torch.randn(4, 3, 4, 4, generator=draw)).square().mean().backward()
        optimizer.step()


def attach(pattern, sparsity, **options):
    model = Net()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    line = skinny.timeline.sdnn(steps=12, sparsity=sparsity, dense=2, sparse=2)
    return model, optimizer, skinny.IHT(model, optimizer, line, pattern=pattern, **options)


def counts_in_groups(weight, axis, size):
    kept = weight.detach().movedim(axis, -1).ne(0)
    return set(kept.reshape(-1, size).sum(1).tolist())


@pytest.mark.parametrize("budget", ["erk", "uniform", "global"])
@pytest.mark.parametrize("restore", ["zero", "last"])
def test_a_training_ends_with_whole_groups_and_its_budget(budget, restore):
    model, optimizer, iht = attach("1x4", 0.8, budget=budget, restore=restore)
    train(iht, model, optimizer, range(12))
    left = iht.finish()
    assert counts_in_groups(model.deep.weight, 1, 4) == {0, 4}
    assert counts_in_groups(model.up.weight, 0, 4) == {0, 4}
    total = sum(weight.numel() for weight in iht.weights.values())
    assert abs(sum(left.values()) - 0.2 * total) <= 2 * len(left) + 1
    assert all(count % 4 == 0 for name, count in left.items() if name[:2] in ("de", "up"))
    assert "unstructured: first.weight, whose" in str(iht)
    assert "unstructured: last.weight, whose" in str(iht)  # 125 inputs
    assert "pattern 1x4" in str(iht)


def test_n_of_m_is_the_budget_and_more_stays_on_the_way():
    model, optimizer, iht = attach("1:4", 0.75, budget="uniform")
    train(iht, model, optimizer, range(12))
    of_deep = [update.kept["deep.weight"] / 216 for update in iht.history]
    assert of_deep == sorted(of_deep, reverse=True)
    assert of_deep[0] > of_deep[-1] == 1
    iht.finish()
    assert counts_in_groups(model.deep.weight, 1, 4) == {1}
    assert counts_in_groups(model.up.weight, 0, 4) == {1}
    assert model.first.weight.count_nonzero() == 54


@pytest.mark.parametrize("pattern", ["1x4", "2:4"])
def test_a_resumed_training_is_the_same(pattern):
    whole = attach(pattern, 0.5)
    train(whole[2], *whole[:2], range(12))
    begun = attach(pattern, 0.5)
    train(begun[2], *begun[:2], range(7))
    again = attach(pattern, 0.5)
    for one, other in zip(again, begun, strict=True):
        one.load_state_dict(other.state_dict())
    train(again[2], *again[:2], range(7, 12))
    assert again[2].finish() == whole[2].finish()
    for found, expected in zip(again[0].parameters(), whole[0].parameters(), strict=True):
        assert torch.equal(found, expected)


def test_a_state_with_another_pattern_is_refused_and_one_without_is_unstructured():
    states = {pattern: attach(pattern, 0.5)[2].state_dict() for pattern in (None, "1x4")}
    for ours, theirs in itertools.permutations(states):
        with pytest.raises(SkinnyError, match=f"made with pattern={theirs!r}, but this IHT has"):
            attach(ours, 0.5)[2].load_state_dict(states[theirs])
    older = {key: value for key, value in states[None].items() if key != "pattern"}
    attach(None, 0.5)[2].load_state_dict(older)
    with pytest.raises(SkinnyError, match="made with pattern=None"):
        attach("1x4", 0.5)[2].load_state_dict(older)


@pytest.mark.parametrize(
    ("pattern", "options", "message"),
    [
        ("2:4", {}, r"2:4 is a sparsity of 0\.5, but the timeline ends at 0\.8"),
        ("2:4", {"budget": {"*": 0.5}}, "the pattern 2:4 is the budget of every layer"),
        ("1x7", {}, "no layer can have the pattern 1x7"),
        ("some", {}, "the pattern is 'some'; allowed"),
    ],
)
def test_impossible_patterns_are_refused_when_attaching(pattern, options, message):
    with pytest.raises(SkinnyError, match=message):
        attach(pattern, 0.8, **options)
