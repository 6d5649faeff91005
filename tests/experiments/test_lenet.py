from dataclasses import replace

import pytest

from skinny.experiments import catalog
from skinny.experiments.reproduce import first_configs
from skinny.experiments.store import Store
from skinny.experiments.study import from_experiment
from skinny.training.config import Config, timeline

PAPER = catalog.experiment("lenet", "mnist", "paper")


def panel(title):
    return next(panel for panel in PAPER.panels if panel.title == title)


@pytest.mark.parametrize(
    ("title", "labels"),
    [
        ("LeNet-300-100", [f"SDNN-{x}x" for x in (2, 12, 20, 56, 68, 100)]),
        (
            "LeNet-5",
            [
                *(f"SDNN-{x}x" for x in (2, 12, 20, 100, 108, 280)),
                "SDNN-12x, one schedule",
                *("SDNN-280x, not warmed up", "SDNN-280x, one schedule"),
            ],
        ),
    ],
)
def test_claims_have_ten_seeds_two_kinds_of_dense_training_and_published_rows(title, labels):
    claims = panel(title)
    assert [arm.label for arm in claims.arms] == ["dense", "dense, restarted", *labels]
    assert len(claims.seeded(PAPER.seeds)) == 10
    assert any("Dynamic Network Surgery" in row.model for row in claims.cited)
    assert "Guo, Yao, Chen" in claims.source


def test_the_rest_has_three_seeds():
    few = [panel.title for panel in PAPER.panels if len(panel.seeded(PAPER.seeds)) < 10]
    assert few == [
        *("LeNet-300-100, budgets", "LeNet-5, budgets"),
        *("LeNet-5, smallest in 42 epochs", "LeNet-5, defaults"),
    ]
    assert {tuple(panel(title).seeded(PAPER.seeds)) for title in few} == {(0, 1, 2)}


def test_longer_trainings_have_one_schedule_and_dense_training_of_their_length():
    longer = panel("LeNet-300-100, 90 epochs")
    skinny = ["SDNN-56x", "SDNN-68x", "SDNN-100x", "SDNN-56x, codebook4"]
    others = ["gradual pruning, 56x", "AC/DC, 56x"]
    assert [arm.label for arm in longer.arms] == ["dense", *skinny, *others]
    assert longer.contrasts == tuple(("SDNN-56x", other) for other in others)
    assert {(arm.config.epochs, arm.config.restart_lr) for arm in longer.arms} == {(90, False)}
    assert len(longer.seeded(PAPER.seeds)) == 10


def test_defaults_are_those_of_a_config_that_chooses_the_sparsity_alone():
    arms = [arm for arm in panel("LeNet-300-100, defaults").arms if arm.label.endswith("defaults")]
    assert [arm.label for arm in arms] == ["SDNN-12x, defaults", "SDNN-56x, defaults"]
    for arm in arms:
        for field in ("budget", "r0", "restart_lr", "dense", "sparse", "restore"):
            assert getattr(arm.config, field) == getattr(Config(), field), field


def test_every_ratio_is_tried_with_every_budget():
    arms = panel("LeNet-5, budgets").arms[1:]
    assert {arm.config.budget for arm in arms} == {"global", "erk", "uniform"}
    assert {round(1 / (1 - arm.config.sparsity)) for arm in arms} == {
        *(2, 5, 12, 20, 40, 60, 100, 200, 300),
    }
    assert len(arms) == 27


def test_restarted_dense_training_prunes_nothing_and_is_not_the_plain_one():
    plain, restarted, *_ = (arm.seeded(0) for arm in panel("LeNet-300-100").arms)
    assert plain.hash != restarted.hash
    assert not timeline(restarted, 1).target


def test_the_rate_rises_after_restorations_where_networks_broke_down():
    arms = {arm.label: arm.config for arm in panel("LeNet-5").arms}
    once = [label for label, config in arms.items() if not config.restart_lr]
    assert once == ["dense", "SDNN-12x, one schedule", "SDNN-280x, one schedule"]
    warmed = [label for label, config in arms.items() if config.restore_warmup]
    assert warmed == ["SDNN-280x"]
    plain = arms["SDNN-280x, not warmed up"]
    assert plain == replace(arms["SDNN-280x"], restore_warmup=0.0)


def test_other_methods_have_their_own_spans():
    arms = [*panel("LeNet-300-100, methods at 56x").arms, *panel("LeNet-300-100, 90 epochs").arms]
    assert {"dense", "sdnn", "gradual", "acdc"} < {arm.config.method for arm in arms}
    for arm in arms:
        if arm.config.method not in ("dense", "sdnn"):
            assert (arm.config.dense, arm.config.sparse, arm.config.r0) == (None, None, None)


def test_panels_share_their_runs():
    seeds = (0,)
    configs = first_configs([(PAPER, seeds)])
    arms = sum(len(panel.arms) for panel in PAPER.panels)
    assert len(configs) == len({config.hash for config in configs}) < arms


def test_few_seeds_are_not_reported_as_missing(tmp_path):
    for made, study in zip(
        PAPER.panels, from_experiment(PAPER, PAPER.seeds, Store(tmp_path)), strict=True
    ):
        assert {arm.missing for arm in study.arms} == {made.few or 10}


def test_codebooks_are_trained_in_the_last_span_of_the_same_networks():
    for title in ("LeNet-300-100, codebooks", "LeNet-5, codebooks"):
        small = panel(title)
        arms = {arm.label: arm.config for arm in small.arms}
        for label, plain in small.contrasts:
            assert arms[label].quantize in ("codebook4", "codebook3")
            assert replace(arms[label], quantize=None) == arms[plain]


def test_the_rate_of_the_smallest_rises_throughout_each_dense_span():
    for epochs, labels in (
        (42, ["SDNN-280x, codebook4"]),
        (63, ["SDNN-280x", "SDNN-320x, codebook4"]),
    ):
        arms = panel(f"LeNet-5, smallest in {epochs} epochs").arms
        assert [arm.label for arm in arms] == labels
        for arm in arms:
            lengths = {span.length for span in timeline(arm.config, 1).spans if not span.sparsity}
            assert lengths == {arm.config.restore_warmup}
