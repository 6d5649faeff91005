"""A trained model back from its run folder."""

import os
import warnings
from dataclasses import dataclass
from typing import Any

from torch import nn

from skinny import data
from skinny.errors import SkinnyError
from skinny.training import checkpoint
from skinny.training.config import Config
from skinny.training.folder import RunFolder
from skinny.training.session import build_model, load_data


@dataclass(frozen=True)
class TrainedRun:
    """A finished run: its model holds the trained weights and is in evaluation mode, on the CPU."""

    config: Config
    model: nn.Module
    dataset: data.Dataset
    result: dict[str, Any]


def load_run(path: str | os.PathLike[str], *, data_dir: str | None = None) -> TrainedRun:
    """The model of the finished run in the folder `path`, and the data it was trained on."""
    folder = RunFolder(path)
    config = folder.config()
    result = folder.result()
    if result is None:
        raise SkinnyError(f"{folder.path} is not finished; run its training again to go on")
    dataset = load_data(config, data_dir)
    model = build_model(config, dataset)

    def restore(state: dict[str, Any]) -> int:
        model.load_state_dict(state["session"]["model"])
        return int(state["position"]["epoch"])

    epoch = checkpoint.load(
        folder.checkpoints, lambda text: warnings.warn(text, stacklevel=4), restore
    )
    if epoch != config.epochs:
        raise SkinnyError(f"{folder.path} has lost the checkpoint of its last epoch")
    return TrainedRun(config, model.eval(), dataset, result)
