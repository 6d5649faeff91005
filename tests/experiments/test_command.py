import json
import shlex

import pytest

from skinny.cli.main import main
from skinny.experiments import catalog
from skinny.experiments.command import train_command
from skinny.experiments.reproduce import first_configs
from skinny.training import config as configs


@pytest.mark.parametrize("name", catalog.names())
@pytest.mark.parametrize("scale", ["paper", "small"])
def test_the_command_of_a_run_trains_that_very_run(name, scale, capsys):
    for config in first_configs([(catalog.experiment(name, "cifar10", scale), [0])])[:8]:
        skinny, *argv = shlex.split(train_command(config))
        assert skinny == "skinny"
        assert main([*argv, "--plan"]) == 0
        printed, _ = json.JSONDecoder().raw_decode(capsys.readouterr().out)
        trained = configs.from_json(json.dumps(printed))
        assert (trained.run_name, trained.eval_every) == (config.run_name, config.eval_every)
