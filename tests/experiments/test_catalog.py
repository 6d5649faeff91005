import pytest

from skinny.errors import SkinnyError
from skinny.experiments import catalog, published
from skinny.experiments.reproduce import first_configs
from skinny.experiments.settings import default_seeds, setting
from skinny.training import config as configs
from skinny.training import recipe

SCALES = ["paper", "small", "smoke"]
# `protocol` asks what more epochs give
NOT_THE_PAPERS = ("lenet", "quantised", "protocol", "cifar10")


@pytest.mark.parametrize("name", catalog.names())
@pytest.mark.parametrize("scale", SCALES)
def test_every_experiment_is_made_of_valid_configs_with_equal_budgets(name, scale):
    made = catalog.experiment(name, "cifar10", scale)
    assert made.name == name
    for panel in made.panels:
        labels = [arm.label for arm in panel.arms]
        assert len(set(labels)) == len(labels)
        for arm in panel.arms:
            configs.check(arm.seeded(0))
            assert arm.config.budget == "uniform" or name in NOT_THE_PAPERS
        equal = ("data", "train_size", "augment", "lr", "weight_decay", "batch_size")
        for field in equal if name == "protocol" else ("epochs", *equal):
            assert len({getattr(arm.config, field) for arm in panel.arms}) == 1, field
    assert any(arm.config.method == "dense" for panel in made.panels for arm in panel.arms)


@pytest.mark.parametrize("name", catalog.names())
def test_smoke_needs_no_data_but_digits_and_few_epochs(name):
    for config in first_configs([(catalog.experiment(name, "cifar10", "smoke"), [0])]):
        assert config.data == "digits"
        assert config.epochs <= 5
        assert config.train_size <= 100


@pytest.mark.parametrize("data", ["cifar10", "cifar100", "mnist", "imagenet"])
def test_paper_scale_is_the_papers_recipe(data):
    base, wanted = setting(data, "paper"), recipe(f"{data}-paper")
    for field in (
        "dense",
        "sparse",
        "epochs",
        "lr",
        "momentum",
        "weight_decay",
        "schedule",
        "model",
    ):
        assert getattr(base, field) == getattr(wanted, field)


def test_at_smoke_scale_the_tables_share_their_runs():
    tables = [catalog.experiment(f"table{i}", "cifar10", "smoke") for i in (1, 2)]
    first, second = (first_configs([(table, [0])]) for table in tables)
    assert first == second


def test_the_papers_arms_carry_its_numbers():
    plain, flips = catalog.experiment("table1", "cifar10", "paper").panels
    cited = {row.model: row.error for row in flips.cited}
    assert {arm.label for arm in flips.arms} <= cited.keys()
    assert (cited["NIN"], cited["SDNN-2x"], cited["SDNN-20x"]) == (8.81, 6.91, 10.53)
    without = {row.model: row.error for row in plain.cited}
    assert (without["NIN"], without["SDNN-2x"]) == (10.41, 8.70)
    assert "swapped" in plain.note


@pytest.mark.parametrize(
    ("plain", "flips"),
    [
        (published.CIFAR10_PLAIN, published.CIFAR10_FLIPS),
        (published.CIFAR100_PLAIN, published.CIFAR100_FLIPS),
    ],
)
def test_with_the_headings_put_right_augmentation_lowers_every_published_error(plain, flips):
    before = {(row.model, row.weights): row.error for row in plain}
    after = {(row.model, row.weights): row.error for row in flips}
    both = before.keys() & after.keys()
    assert len(both) >= 6
    assert all(after[key] < before[key] for key in both)


def test_seeds_by_scale():
    assert len(default_seeds("mnist", "small")) == 5
    assert len(default_seeds("cifar10", "small")) == 3


def test_unknown_names_list_the_known_ones():
    with pytest.raises(SkinnyError, match="there are table1, table2"):
        catalog.experiment("table9", "cifar10", "smoke")
    with pytest.raises(SkinnyError, match="no setting for 'svhn'"):
        catalog.experiment("figure1", "svhn", "small")
