import dataclasses

import pytest

from skinny.errors import SkinnyError
from skinny.experiments.grid import grid, parse_axis
from skinny.training import Config


def test_a_grid_is_every_combination_for_every_seed_the_last_axis_fastest():
    made = grid(Config(), {"sparsity": [0.5, 0.9], "lr": [0.1, 0.01]}, seeds=[0, 1])
    assert [(c.sparsity, c.lr, c.seed) for c in made] == [
        (s, lr, seed) for s in (0.5, 0.9) for lr in (0.1, 0.01) for seed in (0, 1)
    ]


def test_without_axes_and_seeds_a_grid_is_the_base():
    assert grid(Config(), {}) == [Config()]


def test_dense_at_several_sparsities_is_one_run():
    made = grid(Config(), {"method": ["dense", "sdnn"], "sparsity": [0.5, 0.9]})
    assert [(c.method, c.sparsity) for c in made] == [
        ("dense", 0.0),
        ("sdnn", 0.5),
        ("sdnn", 0.9),
    ]


def test_another_method_has_its_own_spans_unless_they_are_an_axis():
    base = Config(dense=2, sparse=10, r0=0.3)
    own = grid(base, {"method": ["sdnn", "dsd"]})
    assert [(c.dense, c.sparse, c.r0) for c in own] == [(2, 10, 0.3), (None, None, None)]
    given = grid(base, {"method": ["sdnn", "dsd"], "dense": [4]})
    assert [(c.dense, c.sparse) for c in given] == [(4, 10), (4, None)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("sparsity=0.5,0.9", ("sparsity", [0.5, 0.9])),
        ("method=sdnn,dense", ("method", ["sdnn", "dense"])),
        ("train_size=none,100", ("train_size", [None, 100])),
        ("r0=none,0.25", ("r0", [None, 0.25])),
        ("restart_lr=true,false", ("restart_lr", [True, False])),
        ("batch_norm=none,true", ("batch_norm", [None, True])),
        ("init=he,none", ("init", ["he", None])),
        ("quantize=int8,codebook4,none", ("quantize", ["int8", "codebook4", None])),
        ("layers=conv1=0.5+fc*=10,none", ("layers", [("conv1=0.5", "fc*=10"), ()])),
        ("lr_drops=0.5+0.75", ("lr_drops", [(0.5, 0.75)])),
        ("data=npz:a.npz", ("data", ["npz:a.npz"])),
        ("epochs=3", ("epochs", [3])),
    ],
)
def test_values_are_read_by_the_type_of_their_field(text, expected):
    assert parse_axis(text) == expected


def test_every_field_can_be_an_axis():
    config = Config(train_size=10, width=1.0, r0=0.5, layers=("a=1",))
    for field in dataclasses.fields(Config):
        value = getattr(config, field.name)
        if isinstance(value, tuple):
            text = "+".join(map(str, value)) or "none"
        else:
            text = str(value).lower() if value is None or isinstance(value, bool) else str(value)
        assert parse_axis(f"{field.name}={text}") == (field.name, [value])


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("sparsity", "is not FIELD=VALUE"),
        ("sparsity=", "is not FIELD=VALUE"),
        ("sprasity=0.5", "there is no field 'sprasity'; there are name, data"),
        ("sparsity=half", "sparsity is 'half'; it must be a number"),
        ("epochs=1.5", "epochs is '1.5'; it must be a whole number"),
        ("method=magic", "method is 'magic'; allowed: sdnn"),
        ("init=magic", "init is 'magic'; allowed: he, caffe"),
        ("quantize=int9", "quantize is 'int9'; allowed: int8, int8-after, codebook"),
        ("whiten=yes", "whiten is 'yes'; allowed: true, false"),
    ],
)
def test_a_wrong_axis_is_one_sentence(text, complaint):
    with pytest.raises(SkinnyError, match=complaint):
        parse_axis(text)


def test_an_impossible_combination_is_found_before_anything_is_trained():
    with pytest.raises(SkinnyError, match="too short for one cycle"):
        grid(Config(dense=2, sparse=2), {"epochs": [40, 3]})
    with pytest.raises(SkinnyError, match="there is no field 'colour'"):
        grid(Config(), {"colour": ["red"]})
