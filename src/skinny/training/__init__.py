"""Training runs: configs and recipes, the loop, checkpoints, evaluation, figures.

result = train(config, RunFolder("runs/mine"))
"""

from skinny.training.config import Config
from skinny.training.evaluation import Evaluation, evaluate
from skinny.training.folder import RunFolder
from skinny.training.loading import TrainedRun, load_run
from skinny.training.loop import DivergedError, train
from skinny.training.observer import Observer, Progress, RunInfo, Several, Silent
from skinny.training.recipes import recipe

__all__ = [
    "Config",
    "DivergedError",
    "Evaluation",
    "Observer",
    "Progress",
    "RunFolder",
    "RunInfo",
    "Several",
    "Silent",
    "TrainedRun",
    "evaluate",
    "load_run",
    "recipe",
    "train",
]
