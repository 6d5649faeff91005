import shlex

import pytest
import tyro

from skinny.cli.train import Train
from skinny.experiments import catalog
from skinny.experiments.command import train_command
from skinny.experiments.reproduce import first_configs
from skinny.training import recipe


@pytest.mark.parametrize("name", catalog.names())
@pytest.mark.parametrize("scale", ["paper", "small"])
def test_the_command_of_a_run_trains_that_very_run(name, scale):
    for config in first_configs([(catalog.experiment(name, "cifar10", scale), [0])])[:8]:
        skinny, train, start, *flags = shlex.split(train_command(config))
        assert (skinny, train) == ("skinny", "train")
        parsed = tyro.cli(
            Train,
            args=flags,
            default=Train(recipe(start)),
            config=(tyro.conf.FlagCreatePairsOff,),
        )
        assert parsed.config == config
