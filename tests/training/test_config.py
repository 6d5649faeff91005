import dataclasses
import re

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from skinny.cli import demo
from skinny.errors import SkinnyError
from skinny.experiments.grid import grid
from skinny.iht import timeline
from skinny.training import Config, recipe
from skinny.training import config as configs
from skinny.training.recipes import describe, names
from skinny.training.schedule import factor_by_step


def test_a_config_survives_json():
    layers = ("conv1=0.5", "fc*=10")
    config = Config(name="x", layers=layers, budget="uniform", lr_drops=(0.3,), train_size=100)
    assert configs.from_json(configs.to_json(config)) == config


METHODS = ["sdnn", "acdc", "dsd", "gradual", "iterative", "oneshot", "dense"]
SAME_DENSE_RUN = {
    "trained by itself": dataclasses.replace(recipe("demo"), method="dense"),
    "--baseline of a sparse run": configs.dense_baseline(recipe("demo")),
    "from a sweep": grid(recipe("demo"), {"method": ["dense"], "sparsity": [0.5]})[0],
    "from the demo": demo._config(recipe("demo"), 0.0, seed=0),
    "sdnn that removes nothing": dataclasses.replace(recipe("demo"), sparsity=0.0),
    "evaluated less often": dataclasses.replace(recipe("demo"), method="dense", eval_every=7),
}


@pytest.mark.parametrize("config", SAME_DENSE_RUN.values(), ids=SAME_DENSE_RUN)
def test_one_training_has_one_name(config):
    assert config.run_name == SAME_DENSE_RUN["trained by itself"].run_name


def test_the_identity_is_what_differs_from_the_defaults_and_matters():
    assert configs.identity(Config()) == "{}"
    config = Config(name="x", lr=1.0, seed=3, eval_every=9, lr_drops=(0.1,))
    assert configs.identity(config) == '{"lr": 1, "seed": 3}'
    assert configs.identity(dataclasses.replace(config, lr=1)) == configs.identity(config)
    assert config.run_name == f"x-{config.hash}"
    assert re.fullmatch("[0-9a-f]{8}", config.hash)


def test_a_new_field_renames_no_run():
    """As later versions will have them: appended, with the default that was done before."""
    fields = [(f.name, f.type, f) for f in dataclasses.fields(Config)]
    later = dataclasses.make_dataclass(
        "Config", [*fields, ("mixup", float, dataclasses.field(default=0.0))], frozen=True
    )
    for name in names():
        values = dataclasses.asdict(recipe(name))
        assert _identity_in(later, values) == configs.identity(recipe(name))
    assert "mixup" in _identity_in(later, values | {"mixup": 0.1})


def _identity_in(kind, values):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(configs, "Config", kind)
        return configs.identity(kind(**values))


@pytest.mark.parametrize("field", [f.name for f in dataclasses.fields(Config)])
def test_whatever_changes_the_outcome_changes_the_identity(field):
    base = Config(schedule="step", dense=4, sparse=6)
    value = getattr(base, field)
    others = {
        "method": "acdc", "optimizer": "adamw", "schedule": "cosine", "precision": "bf16",
        "augment": "flip", "unit": "step", "init": "he", "budget": "global", "score": "random",
        "restore": "last",
    }  # fmt: skip
    if field in others:
        changed = others[field]
    elif isinstance(value, bool):
        changed = not value
    elif isinstance(value, tuple):
        changed = (0.25,) if field == "lr_drops" else ("conv1=0.5",)
    else:
        changed = "other" if isinstance(value, str) else (value or 0) + 1
    same = configs.identity(dataclasses.replace(base, **{field: changed})) == configs.identity(base)
    assert same == (field in ("name", "eval_every"))


@given(
    method=st.sampled_from(METHODS),
    dense=st.sampled_from([None, 1, 2, 5]),
    sparse=st.sampled_from([None, 2, 3]),
    r0=st.sampled_from([None, 0.1, timeline.default_r0(0.8)]),
    sparsity=st.sampled_from([0.0, 0.8]),
    budget=st.sampled_from(["uniform", "erk"]),
    schedule=st.sampled_from(["cosine", "step"]),
    restart_lr=st.booleans(),
    restore_warmup=st.sampled_from([0.0, 0.5, 4.0]),
)
def test_the_canonical_config_trains_the_same(**fields):
    config = Config(**fields)
    assume(config.sparsity > 0 or config.method in ("sdnn", "dense"))
    assume(config.sparsity >= (config.r0 or 0) or config.method != "sdnn")
    plain = configs.canonical(config)
    line = configs.timeline(config, 1)
    assert configs.timeline(plain, 1).spans == line.spans
    rates = [factor_by_step(one, line, 3) for one in (config, plain)]
    assert all(rates[0](step) == rates[1](step) for step in range(3 * config.epochs))
    assert configs.canonical(plain) == plain
    assert configs.identity(plain) == configs.identity(config)
    if plain.method != "dense":
        assert plain.budget == config.budget


@pytest.mark.parametrize(
    ("sparsity", "r0"), [(0.3, 0.3), (0.5, 0.5), (0.9, timeline.default_r0(0.9))]
)
def test_r0_at_its_default_is_the_same_run_as_none(sparsity, r0):
    given_r0 = Config(sparsity=sparsity, r0=r0)
    assert configs.identity(given_r0) == configs.identity(Config(sparsity=sparsity))
    other = dataclasses.replace(given_r0, r0=0.1)
    assert configs.identity(other) != configs.identity(given_r0)


# as runs were saved before there was one pair of spans
OLD = '{"method": "%s", "epochs": 30, "s1": 3, "s2": 12, "dense": %s, "sparse": null}'


@pytest.mark.parametrize(
    ("text", "config"),
    [
        (OLD % ("sdnn", "null"), Config(epochs=30, dense=3, sparse=12)),
        (OLD % ("oneshot", "null"), Config(method="oneshot", epochs=30)),
        (OLD % ("oneshot", "20"), Config(method="oneshot", epochs=30, dense=20)),
        (OLD % ("dense", "null"), Config(method="dense", epochs=30)),
    ],
)
def test_configs_of_earlier_runs_are_read_with_their_spans(text, config):
    assert configs.from_json(text) == config


def test_nesting_without_end_is_one_sentence():
    with pytest.raises(SkinnyError, match="not a config: it is nested too deeply"):
        configs.from_json("[" * 10**6)


@pytest.mark.parametrize("name", names())
def test_every_recipe_is_a_valid_config_of_its_own_name(name):
    assert configs.check(recipe(name)).name == name
    assert describe(name).endswith(".")


@pytest.mark.parametrize(
    ("name", "dense", "sparse", "batch", "lr", "decay"),
    [
        ("cifar10-paper", 15, 150, 128, 0.1, 1e-4),
        ("cifar100-paper", 15, 150, 128, 0.1, 1e-4),
        ("mnist-paper", 15, 150, 128, 0.1, 1e-4),
        ("imagenet-paper", 15, 40, 256, 0.01, 5e-4),
    ],
)
def test_the_papers_recipes_have_the_papers_settings(name, dense, sparse, batch, lr, decay):
    config = recipe(name)
    assert (config.dense, config.sparse, config.batch_size) == (dense, sparse, batch)
    assert (config.lr, config.weight_decay, config.momentum) == (lr, decay, 0.9)
    assert (config.bias_lr, config.decay_biases) == (2.0, False)
    line = configs.timeline(config, 1)
    assert [span.length for span in line.spans] == [dense, sparse] * 2


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        (
            {"method": "sdnn", "dense": 4, "sparse": 6, "r0": 0.2},
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
            {"unit": "step", "dense": 1, "sparse": 1},
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
        ({"epochs": 9, "dense": 5, "sparse": 5}, "too short for one cycle"),
        ({"epochs": 10**9}, "epochs is 1000000000; it must be at most 1000000"),
        ({"epochs": 2.5}, "epochs is 2.5; allowed: a whole number"),
        ({"epochs": True}, "epochs is True; allowed: a whole number"),
        ({"dropout": {}}, "dropout is {}; allowed: a number or none"),
        ({"init": "zero"}, "init is 'zero'; allowed: he, caffe or none"),
        ({"layers": "conv1=0.5"}, "layers is 'conv1=0.5'; allowed: a list, of each item a text"),
        ({"whiten": 1}, "whiten is 1; allowed: true or false"),
        ({"seed": 2**40}, "seed is 1099511627776"),
        ({"lr": -1.0}, "lr is -1.0"),
        ({"lr": float("nan")}, "lr is nan"),
        ({"momentum": 1.0}, r"momentum is 1.0; it must lie in \[0, 1\)"),
        ({"method": "magic"}, "method is 'magic'; allowed: sdnn, acdc"),
        ({"name": "../up"}, "name is '../up'"),
        ({"warmup": 200.0, "epochs": 180}, "warmup is 200.0 epochs"),
        ({"restore_warmup": -1.0}, "restore_warmup is -1.0; it must be a number that is not"),
        ({"lr_drops": (1.5,)}, "each must lie between 0 and 1"),
        ({"layers": ("conv1",)}, "'conv1' is not PATTERN=SPARSITY"),
        ({"layers": ("conv1=x",)}, "'conv1=x' is not PATTERN=SPARSITY"),
        ({"layers": ("conv1=0.5",), "budget": "erk"}, "not from 'erk'"),
        ({"pattern": "4x4"}, "the pattern is '4x4'; allowed: 1xM"),
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
