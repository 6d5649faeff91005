"""First-layer filters as pictures: at the start, trained dense, trained skinny."""

import base64
import io
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image

from skinny import models
from skinny.errors import SkinnyError
from skinny.experiments.runs import Run
from skinny.experiments.study import Result, Study, reference
from skinny.training import checkpoint
from skinny.training.session import make_model

_SHOWN = 48  # filters
_ACROSS = 12
_PIXELS = 4  # of the picture for one weight


@dataclass(frozen=True)
class Picture:
    label: str
    caption: str
    uri: str
    alive: int  # filters with a weight that is not zero
    filters: int


def gallery(study: Study) -> list[Picture]:
    """The same seed at the start, after dense training and after pruning, where all have weights.

    One seed gives dense and skinny training the same start, so that the filters are comparable one
    by one. Empty where the checkpoints are gone or the first layer has no picture.
    """
    pruned = [arm for arm in study.arms if arm.runs and arm.config.method == "sdnn"]
    for arm in sorted(pruned, key=lambda arm: -arm.config.sparsity):
        dense = reference(arm, study)
        seeds = {run.seed: run for run in arm.runs}
        for run in dense.runs if dense else ():
            if run.seed in seeds:
                made = _pictures(dense, run, arm, seeds[run.seed])
                if made:
                    return made
    return []


def _pictures(dense: Result | None, before: Run, arm: Result, after: Run) -> list[Picture]:
    assert dense is not None
    first, second = _first_layer(before), _first_layer(after)
    if first is None or second is None or first.shape != second.shape:
        return []
    made = []
    start = _initial(after, first.shape[1])
    if start is not None and start.shape == first.shape:
        made.append(_picture("at the start", f"seed {after.seed}", start))
    made.append(_picture(dense.label, f"after {before.config.epochs} epochs", first))
    made.append(_picture(arm.label, f"after {after.config.epochs} epochs", second))
    return made


def _first_layer(run: Run) -> NDArray[np.float32] | None:
    """[filters, 1 or 3 channels, height, width] of the first convolution, if it has that shape."""
    if run.folder is None:
        return None
    try:
        return checkpoint.load(
            run.folder.checkpoints,
            lambda text: None,
            lambda state: _picturable(state["session"]["model"]),
        )
    except SkinnyError:
        return None


def _initial(run: Run, channels: int) -> NDArray[np.float32] | None:
    if run.config.model not in models.names():  # a run folder decides no code that runs here
        return None
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(run.config.seed)
        try:
            model = make_model(run.config, len(run.result["classes"]), channels)
        except SkinnyError:  # a model that must know the size of its images
            return None
    return _picturable(model.state_dict())


def _picturable(state: dict[str, Any]) -> NDArray[np.float32] | None:
    for tensor in state.values():
        if isinstance(tensor, torch.Tensor) and tensor.ndim >= 2:
            if tensor.ndim == 4 and tensor.shape[1] in (1, 3) and tensor.shape[2] > 1:
                return tensor.detach().float().cpu().numpy()
            return None
    return None


def _picture(label: str, caption: str, weights: NDArray[np.float32]) -> Picture:
    alive = int((np.abs(weights).reshape(len(weights), -1).max(axis=1) > 0).sum())
    uri = "data:image/png;base64," + base64.b64encode(png(weights[:_SHOWN])).decode()
    return Picture(label, caption, uri, alive, len(weights))


def png(weights: NDArray[np.float32]) -> bytes:
    """Filters [n, 1 or 3, h, w] in a grid. Zero is mid-grey, the largest of each black or white."""
    n, channels, height, width = weights.shape
    across = min(n, _ACROSS)
    rows = -(-n // across)
    canvas = np.zeros((rows * (height + 1) + 1, across * (width + 1) + 1, 4), dtype=np.uint8)
    for i, one in enumerate(weights):
        scale = max(float(np.abs(one).max()), 1e-12)
        shown = np.round(127.5 + 127.5 * one / scale).astype(np.uint8).transpose(1, 2, 0)
        y, x = (i // across) * (height + 1) + 1, (i % across) * (width + 1) + 1
        canvas[y : y + height, x : x + width, :3] = shown if channels == 3 else shown.repeat(3, 2)
        canvas[y : y + height, x : x + width, 3] = 255
    large = canvas.repeat(_PIXELS, axis=0).repeat(_PIXELS, axis=1)
    out = io.BytesIO()
    Image.fromarray(large, "RGBA").save(out, "PNG", optimize=True)
    return out.getvalue()
