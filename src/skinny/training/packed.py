"""A trained network as one packed file, with all that predicting with it needs."""

import copy
import itertools
import os
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import nn

from skinny import data
from skinny.export import UnsupportedOperationError, check, pack, unpack
from skinny.export.model import Compute
from skinny.export.stored import LabelsError
from skinny.iht.input_range import find
from skinny.packing import Values
from skinny.training.config import Config
from skinny.training.evaluation import Evaluation, evaluate
from skinny.training.loading import TrainedRun

CALIBRATION = 512  # images that the ranges of layers in int8 come from


def note_unpackable(model: nn.Module, dataset: data.Dataset, note: Callable[[str], None]) -> None:
    """Say, before anything is trained, if the packed file of this model could not be run."""
    try:
        check(model, _example(model, dataset))
    except UnsupportedOperationError as error:
        note(
            f"the network will be packed without a graph, and cannot be run from its file: {error}"
        )


def _example(model: nn.Module, dataset: data.Dataset) -> torch.Tensor:
    device = next(model.parameters()).device
    return torch.zeros(1, dataset.channels, *dataset.image_size, device=device)


def trained_values(config: Config) -> Values:
    """How values are stored without any loss, and small."""
    if config.quantize is None or config.quantize == "int8" or config.quantize == "int8-after":
        return "exact"
    return config.quantize


def pack_trained(
    model: nn.Module,
    path: str | os.PathLike[str],
    *,
    config: Config,
    dataset: data.Dataset,
    weights: Mapping[str, Any],
    note: Callable[[str], None],
    values: Values = "exact",
    size: int | None = None,
    signed_zeros: bool = False,
    weights_only: bool = False,
    compute: Compute = "fp32",
) -> None:
    """Write `path`; what the file will not be able to do is said through `note`.

    weights: size and kept weights per layer, for the file's record of where it came from. compute:
    "int8" takes the ranges that the network was trained with, if it was; else it calibrates on
    the first CALIBRATION training images, in the order of the run's seed.
    """
    preprocessing: dict[str, Any] | None = {
        "mean": list(dataset.mean),
        "std": list(dataset.std),
        "resize": getattr(dataset.train, "resize", None),
        "crop": getattr(dataset.train, "crop", None),
    }
    if dataset.prepared:
        preprocessing = None
        note(
            "the data set prepares its images, which a packed file does not: give it prepared ones"
        )
    elif config.whiten:
        preprocessing = None
        note("the run whitens its images, which a packed file does not do: give it whitened ones")
    described: dict[str, Any] = {
        "labels": dataset.classes,
        "preprocessing": preprocessing,
        "values": values,
        "size": size,
        "signed_zeros": signed_zeros,
        "config_hash": config.hash,
        "sparsity": {"method": config.method, "weights": dict(weights)},
    }
    if not weights_only:
        try:
            if compute == "int8":
                described["calibration"] = find(model) or calibration_batches(config, dataset)
            example = _example(model, dataset)
            try:
                report = pack(model, path, example=example, compute=compute, **described)
            except LabelsError as error:  # a network of more classes, fine-tuned
                note(f"packed without labels: {error}")
                described["labels"] = None
                report = pack(model, path, example=example, compute=compute, **described)
            if report is not None:
                note(f"layers in int8:\n{report}")
            return
        except UnsupportedOperationError as error:
            note(f"packed without a graph, so it cannot be run from the file: {error}")
        described.pop("calibration", None)
    pack(model, path, weights_only=True, **described)


class _Function(nn.Module):
    def __init__(self, run: Callable[[torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self._run = run

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self._run(images)


def calibration_batches(config: Config, dataset: data.Dataset) -> list[torch.Tensor]:
    """The training images that ranges come from, prepared, in batches."""
    batches = data.training_batches(
        dataset, batch_size=64, seed=config.seed, whiten=config.whiten, device=torch.device("cpu")
    )
    found = itertools.islice(batches.epoch(0), CALIBRATION // 64)
    return [images for images, _ in found]


def accuracies(
    trained: TrainedRun,
    path: str | os.PathLike[str],
    run: Callable[[torch.Tensor], torch.Tensor] | None = None,
) -> tuple[Evaluation, Evaluation]:
    """How good the network of a run is on the images it is judged by, as it was trained and with
    the weights of a packed file; or as `run` computes the file, for prepared images."""
    classes = len(trained.dataset.classes)
    batches = data.test_batches(
        trained.dataset, batch_size=256, device=torch.device("cpu"), whiten=trained.config.whiten
    )
    before = evaluate(trained.model, batches, classes)
    if run is not None:
        return before, evaluate(_Function(run), batches, classes)
    model = copy.deepcopy(trained.model)
    model.load_state_dict(unpack(path))
    return before, evaluate(model, batches, classes)
