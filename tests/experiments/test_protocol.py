from skinny.experiments import catalog
from skinny.experiments.reproduce import first_configs

PAPER = catalog.experiment("protocol", "mnist", "paper")


def test_each_arm_adds_one_change_to_the_arm_before_it():
    for panel in PAPER.panels:
        short, long, restarted, pruned = (arm.seeded(0) for arm in panel.arms)
        assert long.epochs == 3 * short.epochs
        assert (long.restart_lr, restarted.restart_lr, pruned.restart_lr) == (False, True, True)
        assert [c.method for c in (short, long, restarted)] == ["dense"] * 3
        assert (pruned.method, pruned.sparsity) == ("sdnn", 0.5)
        assert {c.epochs for c in (long, restarted, pruned)} == {long.epochs}
        assert (restarted.dense, restarted.sparse) == (pruned.dense, pruned.sparse)


def test_the_last_contrast_is_the_sum_of_the_others():
    for panel in PAPER.panels:
        *steps, whole = panel.contrasts
        assert [first for first, _ in steps] == [arm.label for arm in panel.arms[1:]]
        assert whole == (steps[-1][0], steps[0][1])


def test_all_but_the_short_dense_runs_of_the_lenets_are_those_of_the_lenet_experiment():
    lenet = catalog.experiment("lenet", "mnist", "paper")
    ours = {c.hash for c in first_configs([(PAPER, (0,))]) if c.model.startswith("lenet")}
    theirs = {config.hash for config in first_configs([(lenet, (0,))])}
    assert len(ours - theirs) == 2


def test_nins_share_their_long_dense_runs_with_the_small_experiments():
    ours = {c.hash for c in first_configs([(PAPER, (0,))]) if c.model.startswith("nin")}
    small = [(catalog.experiment("table3", "mnist", "small"), (0,))]
    small += [(catalog.experiment("table1", "cifar10", "small"), (0,))]
    assert len(ours & {config.hash for config in first_configs(small)}) == 2
