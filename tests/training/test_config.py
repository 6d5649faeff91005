import dataclasses

import pytest

from skinny.errors import SkinnyError
from skinny.iht import timeline
from skinny.training import Config, recipe
from skinny.training import config as configs
from skinny.training.recipes import describe, names


def test_a_config_survives_json():
    config = Config(name="x", layers=("conv1=0.5", "fc*=10"), lr_drops=(0.3,), train_size=100)
    assert configs.from_json(configs.to_json(config)) == config


def test_the_hash_tells_configs_apart_and_is_stable():
    assert Config().hash == Config().hash
    assert Config(seed=1).hash != Config(seed=2).hash
    assert Config(name="x").run_name == f"x-{Config(name='x').hash}"


@pytest.mark.parametrize("name", names())
def test_every_recipe_is_a_valid_config_of_its_own_name(name):
    assert configs.check(recipe(name)).name == name
    assert describe(name).endswith(".")


@pytest.mark.parametrize(
    ("name", "s1", "s2", "batch", "lr", "decay"),
    [
        ("cifar10-paper", 15, 150, 128, 0.1, 1e-4),
        ("cifar100-paper", 15, 150, 128, 0.1, 1e-4),
        ("mnist-paper", 15, 150, 128, 0.1, 1e-4),
        ("imagenet-paper", 15, 40, 256, 0.01, 5e-4),
    ],
)
def test_the_papers_recipes_have_the_papers_settings(name, s1, s2, batch, lr, decay):
    config = recipe(name)
    assert (config.s1, config.s2, config.batch_size) == (s1, s2, batch)
    assert (config.lr, config.weight_decay, config.momentum) == (lr, decay, 0.9)
    assert (config.bias_lr, config.decay_biases) == (2.0, False)
    line = configs.timeline(config, 1)
    assert [span.length for span in line.spans] == [s1, s2, s1, s2]


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        (
            {"method": "sdnn", "s1": 4, "s2": 6, "r0": 0.2},
            timeline.sdnn(epochs=40, sparsity=0.9, dense=4, sparse=6, r0=0.2),
        ),
        (
            {"method": "acdc", "dense": 5, "sparse": 3},
            timeline.acdc(epochs=40, sparsity=0.9, warmup=5, phase=3),
        ),
        ({"method": "dsd", "dense": 9}, timeline.dsd(epochs=40, sparsity=0.9, dense=9)),
        ({"method": "gradual"}, timeline.gradual(epochs=40, sparsity=0.9)),
        ({"method": "oneshot", "dense": 30}, timeline.oneshot(epochs=40, sparsity=0.9, dense=30)),
        (
            {"method": "iterative", "dense": 10, "sparse": 6},
            timeline.iterative(epochs=40, sparsity=0.9, dense=10, sparse=6),
        ),
        ({"method": "dense", "dense": 3}, timeline.dense(epochs=40)),
        (
            {"unit": "step", "s1": 1, "s2": 1},
            timeline.sdnn(steps=400, sparsity=0.9, dense=1, sparse=1),
        ),
    ],
)
def test_every_method_gets_its_timeline(changes, expected):
    assert configs.timeline(Config(**changes), steps_per_epoch=10) == expected


def test_layer_rules_are_sparsities_or_counts():
    config = Config(layers=("conv1=0.5", "fc*=100", "a=b=0"))
    assert configs.layer_rules(config) == {"conv1": 0.5, "fc*": 100, "a=b": 0}


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"sparsity": 1.0}, r"sparsity is 1.0"),
        ({"epochs": 0}, "epochs is 0"),
        ({"epochs": 19}, "too short for one cycle"),
        ({"seed": 2**40}, "seed is 1099511627776"),
        ({"lr": -1.0}, "lr is -1.0"),
        ({"lr": float("nan")}, "lr is nan"),
        ({"momentum": 1.0}, r"momentum is 1.0; it must lie in \[0, 1\)"),
        ({"method": "magic"}, "method is 'magic'; allowed: sdnn, acdc"),
        ({"name": "../up"}, "name is '../up'"),
        ({"warmup": 200.0, "epochs": 180}, "warmup is 200.0 epochs"),
        ({"lr_drops": (1.5,)}, "each must lie between 0 and 1"),
        ({"layers": ("conv1",)}, "'conv1' is not PATTERN=SPARSITY"),
        ({"layers": ("conv1=x",)}, "'conv1=x' is not PATTERN=SPARSITY"),
        ({"layers": ("conv1=0.5",), "budget": "erk"}, "not from 'erk'"),
        ({"nesterov": True, "optimizer": "adamw"}, "nesterov needs"),
        ({"label_smoothing": 1.0}, "label_smoothing is 1.0"),
        ({"val_size": 0}, "val_size is 0"),
        ({"reinit": True, "unit": "step"}, "happen between epochs"),
    ],
)
def test_mistakes_are_seen_before_anything_is_loaded(changes, complaint):
    with pytest.raises(SkinnyError, match=complaint):
        configs.check(Config(**({"epochs": 180} | changes)))


@pytest.mark.parametrize(
    "text", ["", "[]", "{", '{"epochs": "many"}', '{"nosuch": 1}', "null", '{"lr": null}']
)
def test_a_damaged_config_file_is_one_sentence(text):
    with pytest.raises(SkinnyError):
        configs.from_json(text)


def test_every_field_says_what_it_is_for():
    import inspect

    source = inspect.getsource(Config)
    for field in dataclasses.fields(Config):
        after = source.split(f"    {field.name}: ", 1)[1].splitlines()
        assert after[1].strip().startswith('"""'), field.name
