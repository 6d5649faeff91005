import pytest

from skinny import models
from skinny.experiments.arms import baselines, equal_size_width, scaled, times
from skinny.experiments.settings import SHAPES, setting
from skinny.iht.layers import prunable


def parameters(data, config, width):
    shape = SHAPES[data]
    options = {} if config.batch_norm is None else {"batch_norm": config.batch_norm}
    model = models.build(
        config.model, classes=shape.classes, channels=shape.channels, width=width, **options
    )
    weights = sum(weight.numel() for weight in prunable(model).values())
    return weights, sum(p.numel() for p in model.parameters())


@pytest.mark.parametrize(
    ("sparsity", "label"), [(0.5, "SDNN-2x"), (0.9, "SDNN-10x"), (0.95, "SDNN-20x")]
)
def test_the_papers_names(sparsity, label):
    assert times(sparsity) == label


@pytest.mark.parametrize("data", ["cifar10", "cifar100", "mnist"])
@pytest.mark.parametrize("scale", ["paper", "small"])
@pytest.mark.parametrize("sparsity", [0.5, 0.9, 0.95])
def test_the_small_dense_network_is_as_large_as_the_pruned_one(data, scale, sparsity):
    base = setting(data, scale)
    weights, total = parameters(data, base, base.width or 1.0)
    wanted = total - sparsity * weights
    got = parameters(data, base, equal_size_width(base, sparsity))[1]
    assert got == pytest.approx(wanted, rel=0.01 if scale == "paper" else 0.1)


def test_nin_of_other_sizes():
    base = setting("cifar10", "paper")
    assert parameters("cifar10", base, scaled(base, 2))[1] == 3_832_458
    assert parameters("cifar10", base, scaled(base, 0.5**0.5))[1] == pytest.approx(
        489_000, rel=0.01
    )


def test_baselines_share_the_budget_of_the_arm_they_are_compared_with():
    base = setting("cifar10", "small")
    arms = baselines(base, 0.9)
    assert [arm.config.method for arm in arms] == [
        "oneshot", "iterative", "gradual", "acdc", "dsd", "oneshot", "dense", "sdnn"
    ]  # fmt: skip
    for arm in arms:
        for name in ("epochs", "train_size", "augment", "lr", "weight_decay", "batch_size"):
            assert getattr(arm.config, name) == getattr(base, name)
