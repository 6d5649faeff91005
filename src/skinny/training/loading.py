"""A trained model back from its run folder."""

import os
import warnings
from dataclasses import dataclass
from typing import Any

from torch import nn

from skinny import models
from skinny.data import Dataset, is_users
from skinny.errors import SkinnyError
from skinny.iht import input_range
from skinny.training import checkpoint
from skinny.training.config import Config
from skinny.training.folder import RunFolder
from skinny.training.session import build_model, load_data


@dataclass(frozen=True)
class TrainedRun:
    """A finished run: its model holds the trained weights and is in evaluation mode, on the CPU. If
    it was trained for int8, it rounds the inputs of its layers."""

    config: Config
    model: nn.Module
    dataset: Dataset
    result: dict[str, Any]


def load_run(
    path: str | os.PathLike[str],
    *,
    data_dir: str | None = None,
    model: str | None = None,
    data: str | None = None,
) -> TrainedRun:
    """The model of the finished run in the folder `path`, and the data it was trained on.

    model, data: the run's `package.module:function`, where its model or its data are not ours. The
    folder names them too, but whoever loads the run decides which code is imported and called.
    """
    folder = RunFolder(path)
    config = folder.config()
    _check_trusted(folder, "model", config.model, model, config.model not in models.names())
    _check_trusted(folder, "data", config.data, data, is_users(config.data))
    result = folder.result()
    if result is None:
        raise SkinnyError(f"{folder.path} is not finished; run its training again to go on")
    dataset = load_data(config, data_dir)
    network = build_model(config, dataset)
    ranges: input_range.Ranges = {}

    def restore(state: dict[str, Any]) -> int:
        network.load_state_dict(state["session"]["model"])
        ranges.update(state["session"].get("ranges", {}))
        return int(state["position"]["epoch"])

    epoch = checkpoint.load(
        folder.checkpoints, lambda text: warnings.warn(text, stacklevel=4), restore
    )
    if epoch != config.epochs:
        raise SkinnyError(f"{folder.path} has lost the checkpoint of its last epoch")
    input_range.attach(network, ranges)
    return TrainedRun(config, network.eval(), dataset, result)


def _check_trusted(
    folder: RunFolder, what: str, named: str, given: str | None, is_users: bool
) -> None:
    if given is not None and given != named:
        raise SkinnyError(f"{folder.path} was trained with the {what} {named}, not with {given}")
    if given is None and is_users:
        raise SkinnyError(
            f"{folder.path} names {named} as its {what}, which loading it would import and call; "
            f"if that is code you trust, say so with --{what} {named} (load_run: {what}=)"
        )
