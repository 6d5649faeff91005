import dataclasses
import math

import pytest

from skinny.experiments.comparison import compare, contrasts, finding
from skinny.experiments.report import charts, tables
from skinny.experiments.runs import Run
from skinny.experiments.study import Result, Study, from_runs, label_all, reference
from skinny.training import Config

DENSE = Config(method="dense", sparsity=0.0)
SDNN = Config(method="sdnn", sparsity=0.5, budget="uniform")


def run(config, seed, accuracy):
    result = {
        "test_accuracy": accuracy / 100,
        "test_top5": 1.0,
        "test_images": [100],
        "test_errors": [0],
        "classes": ["a"],
        "parameters": 100,
        "bytes": {"dense": 400, "packed": 200},
        "weights": {"conv1.weight": {"size": 10, "kept": 5}},
        "seconds": 1.0,
    }
    return Run(dataclasses.replace(config, seed=seed), result, [])


def arm(label, config, accuracies):
    return Result(label, config, tuple(run(config, i, a) for i, a in enumerate(accuracies)))


BASE = [90.0, 91.0, 89.0, 90.5, 90.2]


def shifted(by, noise=(0.1, -0.1, 0.05, 0.0, -0.05)):
    return [value + by + eps for value, eps in zip(BASE, noise, strict=True)]


@pytest.mark.parametrize(
    ("shift", "verdict"),
    [(2.0, "better"), (-2.0, "worse"), (0.0, "equivalent"), (0.02, "equivalent")],
)
def test_an_arm_is_judged_against_dense_by_seed(shift, verdict):
    study = Study("t", "", (arm("dense", DENSE, BASE), arm("SDNN-2x", SDNN, shifted(shift))))
    dense, sdnn = compare(study, margin=1.0)
    assert dense.difference is None
    assert dense.verdict == ""
    assert sdnn.difference.mean == pytest.approx(shift, abs=1e-9)
    assert sdnn.verdict == verdict


def test_plain_dense_training_is_the_reference_of_a_restarted_one_and_of_restarted_skinny_ones():
    restarted = dataclasses.replace(DENSE, restart_lr=True)
    skinny = dataclasses.replace(SDNN, restart_lr=True)
    assert label_all([DENSE, restarted]) == ["dense", "dense, restarted"]
    for plain in (DENSE, dataclasses.replace(DENSE, dense=3)):  # spans mean nothing to it
        arms = [arm(str(i), c, BASE) for i, c in enumerate((restarted, plain, skinny))]
        study = Study("t", "", tuple(arms))
        assert [reference(one, study) for one in arms] == [arms[1], None, arms[1]]


def test_arms_are_set_against_each_other_by_seed():
    study = Study(
        "t",
        "",
        (
            arm("dense", DENSE, BASE),
            arm("SDNN-2x", SDNN, shifted(1.0)),
            arm("one-shot", SDNN, shifted(-1.0, (0.0, 0.1, -0.1, 0.05, -0.05))),
            arm("twin", SDNN, shifted(1.0, (-0.1, 0.1, 0.0, 0.05, -0.05))),
            Result("untrained", SDNN, ()),
        ),
        contrasts=(("SDNN-2x", "one-shot"), ("SDNN-2x", "twin"), ("SDNN-2x", "untrained")),
    )
    better, same = contrasts(study)
    assert (better.first, better.second) == ("SDNN-2x", "one-shot")
    assert better.difference.mean == pytest.approx(2.0)
    assert better.p < 0.05
    assert better.p == pytest.approx(2 * better.difference.p)  # corrected: there are two
    assert same.difference.mean == pytest.approx(0.0, abs=1e-9)
    assert same.p > 0.5


def test_a_study_may_name_the_arm_that_all_are_compared_with():
    other = dataclasses.replace(SDNN, lr=2 * SDNN.lr)
    arms = (arm("dense", DENSE, BASE), arm("SDNN-2x", other, shifted(1.0)))
    assert reference(arms[1], Study("t", "", arms)) is None  # other settings
    named = Study("t", "", arms, against="dense")
    assert reference(arms[1], named) is arms[0]
    assert reference(arms[0], named) is None
    assert compare(named, 1.0)[1].verdict == "better"


def test_noise_is_undecided_or_no_worse():
    noise = (1.4, -1.3, 0.9, -0.2, -0.5)
    arms = (arm("dense", DENSE, BASE), arm("SDNN-2x", SDNN, shifted(0.0, noise)))
    assert compare(Study("t", "", arms), margin=0.5)[1].verdict == "undecided"
    arms = (arm("dense", DENSE, BASE), arm("SDNN-2x", SDNN, shifted(1.0, noise)))
    assert compare(Study("t", "", arms), margin=1.0)[1].verdict == "no worse"


def test_several_arms_are_corrected_for():
    others = [dataclasses.replace(SDNN, sparsity=0.5 + i / 100) for i in range(4)]
    arms = [arm("dense", DENSE, BASE)] + [
        arm(f"a{i}", config, shifted(0.09, (0.1, 0.0, 0.05, -0.05, 0.0)))
        for i, config in enumerate(others)
    ]
    alone = compare(Study("t", "", tuple(arms[:2])), 1.0)[1]
    among = compare(Study("t", "", tuple(arms)), 1.0)[1]
    assert alone.p == alone.difference.p < 0.05
    assert among.p == pytest.approx(4 * alone.p)
    assert among.verdict != "better"


def test_one_seed_says_nothing():
    study = Study("t", "", (arm("dense", DENSE, [90.0]), arm("SDNN-2x", SDNN, [80.0])))
    rows = compare(study, 1.0)
    assert math.isnan(rows[1].p)
    assert rows[1].verdict == "one seed"
    assert "too few seeds" in finding(study, rows, 1.0)


def test_dense_training_of_another_length_is_named():
    short = arm("dense, short", dataclasses.replace(DENSE, epochs=1), BASE)
    skinny = arm("SDNN-2x", SDNN, shifted(1.0, (0.1, 0.0, 0.05, -0.05, 0.0)))
    study = Study("t", "", (short, skinny), against="dense, short")
    said = finding(study, compare(study, 0.5), 0.5)
    assert said == 'More accurate than "dense, short": SDNN-2x.'
    longer = arm("dense, longer", DENSE, shifted(2.0, (0.1, 0.0, 0.05, -0.05, 0.0)))
    both = Study("t", "", (short, longer, skinny), against="dense, short")
    said = finding(both, compare(both, 0.5), 0.5)
    assert said == 'More accurate than "dense, short": “dense, longer”, SDNN-2x.'
    alike = Study("t", "", (arm("dense", DENSE, BASE), skinny), against="dense")
    assert finding(alike, compare(alike, 0.5), 0.5) == "More accurate than dense training: SDNN-2x."


def test_an_arm_without_runs_has_no_error():
    study = Study("t", "", (arm("dense", DENSE, BASE), arm("SDNN-2x", SDNN, [])))
    assert compare(study, 1.0)[1].error is None


def test_the_finding_names_who_is_better_and_who_is_worse():
    worse = dataclasses.replace(SDNN, sparsity=0.9)
    study = Study(
        "t",
        "",
        (
            arm("dense", DENSE, BASE),
            arm("SDNN-2x", SDNN, shifted(2.0)),
            arm("SDNN-10x", worse, shifted(-3.0)),
        ),
    )
    text = finding(study, compare(study, 1.0), 1.0)
    assert text == "More accurate than dense training: SDNN-2x; less accurate: SDNN-10x."


def test_without_dense_training_the_finding_is_the_fewest_errors():
    more = dataclasses.replace(SDNN, sparsity=0.9)
    alone = Study("t", "", (arm("SDNN-2x", SDNN, [90.0, 91.0]),))
    assert finding(alone, compare(alone, 1.0), 1.0) == "SDNN-2x, 9.50 % (n = 2)."
    two = Study("t", "", (arm("SDNN-2x", SDNN, [90.0]), arm("SDNN-10x", more, [80.0])))
    text = finding(two, compare(two, 1.0), 1.0)
    assert text == "The fewest errors: SDNN-2x, 10.00 % (n = 1)."
    pair = (arm("SDNN-2x", SDNN, [90.0, 92.0]), arm("SDNN-10x", more, [89.0, 90.0]))
    set_off = Study("t", "", pair, contrasts=(("SDNN-10x", "SDNN-2x"),))
    text = finding(set_off, compare(set_off, 1.0), 1.0)
    assert text.startswith("SDNN-10x minus SDNN-2x: -1.50 points of accuracy (p = 0.2")
    none = Study("t", "", (arm("SDNN-2x", SDNN, []),))
    assert finding(none, compare(none, 1.0), 1.0) == "No run is finished yet."


def test_tables_and_figures_speak_of_dense_training_where_there_is_some():
    more = dataclasses.replace(SDNN, sparsity=0.9)
    pruned = (arm("SDNN-2x", SDNN, BASE), arm("SDNN-10x", more, shifted(-3.0)))
    for arms, told in ((pruned, False), ((arm("dense", DENSE, BASE), *pruned), True)):
        study = Study("t", "", arms)
        rows = compare(study, 1.0)
        table = tables.summary(study, rows, 1.0, "t")
        drawn = charts.accuracy_by_arm(study, rows, "t")
        assert ("against dense" in table.head) == ("Δ" in table.caption) == told
        assert ("dense training" in drawn.caption) == told


def test_arms_that_broke_down_are_told_and_not_drawn():
    """Their errors would set a scale on which the others' differences cannot be seen."""
    pyplot = pytest.importorskip("matplotlib.pyplot")

    def kept(label, sparsity, accuracy):
        made = arm(label, dataclasses.replace(SDNN, sparsity=sparsity), [accuracy] * 2)
        for one in made.runs:
            one.result["weights"]["conv1.weight"]["kept"] = round(10 * (1 - sparsity))
        return made

    arms = [arm("dense", DENSE, [98.6, 98.7])]
    arms += [kept("SDNN-2x", 0.5, 98.5), kept("SDNN-5x", 0.8, 98.0), kept("SDNN-10x", 0.9, 21.0)]
    study = Study("t", "", tuple(arms))
    drawn = charts.accuracy_against_sparsity(study, compare(study, 1.0), "t")
    assert drawn.caption.endswith("Broke down, and not drawn: SDNN-10x, 21.00 %.")
    figure, axes = pyplot.subplots()
    drawn.paint(axes)
    assert axes.get_ylim()[0] > 90
    pyplot.close(figure)


def test_runs_become_arms_by_what_they_share():
    configs = [DENSE, SDNN, dataclasses.replace(SDNN, data="mnist")]
    runs = [run(config, seed, 90.0) for config in configs for seed in (1, 0)]
    digits, mnist = from_runs(runs)
    assert [a.label for a in digits.arms] == ["dense", "SDNN-2x"]
    assert [r.seed for r in digits.arms[0].runs] == [0, 1]
    assert [a.label for a in mnist.arms] == ["SDNN-2x"]


def test_dense_runs_that_differ_in_what_dense_ignores_are_one_arm():
    runs = [run(dataclasses.replace(DENSE, sparsity=s), i, 90.0) for i, s in enumerate((0.5, 0.9))]
    (study,) = from_runs(runs)
    assert [len(a.runs) for a in study.arms] == [2]


def test_a_setting_that_is_left_open_is_called_its_default():
    labels = label_all([dataclasses.replace(SDNN, r0=None), dataclasses.replace(SDNN, r0=0.4)])
    assert [label.rpartition(", ")[2] for label in labels] == ["default r0", "r0 0.4"]


def test_arms_of_one_name_are_told_apart_by_what_differs():
    labels = label_all([SDNN, dataclasses.replace(SDNN, lr=0.1), DENSE])
    assert labels == ["SDNN-2x, lr 0.05", "SDNN-2x, lr 0.1", "dense"]


def test_what_most_arms_have_goes_without_saying():
    others = [
        dataclasses.replace(SDNN, **change) for change in ({"restart_lr": True}, {"dense": 6})
    ]
    first, second, third = label_all([SDNN, *others])
    assert (second, third) == (f"{first}, restart_lr", f"{first}, dense 6")


@pytest.mark.parametrize(
    ("changes", "label"),
    [
        ({"score": "random"}, "SDNN-10x, random masks"),
        ({"r0": 0.9}, "SDNN-10x, direct"),
        ({"reinit": True}, "SDNN-10x, re-initialised"),
        ({"budget": "erk"}, "SDNN-10x, erk budget"),
        ({"pattern": "1x4"}, "SDNN-10x, pattern 1x4"),
        ({"method": "oneshot"}, "one-shot pruning 0.9"),
    ],
)
def test_labels_say_what_is_special(changes, label):
    assert label_all([dataclasses.replace(SDNN, **{"sparsity": 0.9, **changes})]) == [label]


def test_the_reference_is_dense_training_of_the_same_network_and_settings():
    wide = dataclasses.replace(DENSE, width=2.0)
    arms = (
        arm("dense", DENSE, BASE),
        arm("wide", wide, BASE),
        arm("SDNN-2x", SDNN, BASE),
        arm("SDNN-10x", dataclasses.replace(SDNN, sparsity=0.9), BASE),
        arm("SDNN_2-2x", dataclasses.replace(SDNN, width=2.0), BASE),
        arm("other rate", dataclasses.replace(SDNN, lr=1.0), BASE),
    )
    study = Study("t", "", arms)
    found = {a.label: reference(a, study) for a in arms}
    assert {label: r and r.label for label, r in found.items()} == {
        "dense": None,
        "wide": "dense",
        "SDNN-2x": "dense",
        "SDNN-10x": "dense",
        "SDNN_2-2x": "wide",
        "other rate": None,
    }
