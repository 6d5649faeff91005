"""The `skinny train` command of a config."""

import dataclasses
import shlex

from skinny.training import Config, recipe, recipes
from skinny.training import config as configs


def train_command(config: Config) -> str:
    """A command that trains exactly this run, in the same folder.

    What the config's method ignores is left out.
    """
    known = config.name in recipes.names()
    base = recipe(config.name) if known else Config()
    words = ["skinny", "train", *([config.name] if known else [])]
    if config.model != base.model:  # the command then forgets what was meant for the other model
        base = configs.without_model_options(base)
    if config.method != base.method:  # and the other method's spans
        base = dataclasses.replace(configs.without_spans(base), method=config.method)
        words += ["--method", config.method]
    config, base = configs.canonical(config), configs.canonical(base)
    for field in dataclasses.fields(Config):
        value = getattr(config, field.name)
        if value == getattr(base, field.name):
            continue
        flag = f"--{field.name.replace('_', '-')}"
        if isinstance(value, bool) and field.type is bool:
            words.append(flag if value else flag.replace("--", "--no-", 1))
        elif isinstance(value, tuple):
            words += [flag, *map(str, value)]
        else:
            words += [flag, str(value)]
    return shlex.join(words)
