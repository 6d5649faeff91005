"""Sparsity per layer by greedy search, in the spirit of Collins & Kohli (2014).

Starting from a trained dense network, the layer that can lose weights at the least cost loses some,
again and again, until the whole network is at its budget. Costs are measured on held-out training
images, never on test images.
"""

import json
import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from skinny import data
from skinny.errors import SkinnyError
from skinny.experiments.settings import hold_out_size
from skinny.files import atomic_write
from skinny.iht.budget import keep_count
from skinny.iht.layers import prunable
from skinny.iht.threshold import magnitude_mask
from skinny.training import Config, evaluate, load_run
from skinny.training.config import canonical
from skinny.training.json_text import parse, read_bytes
from skinny.training.session import choose_device

_SHARE = 0.5  # of a layer's weights that one removal may take
_FLOOR = 0.2  # of what uniform sparsity would leave a layer, and which it keeps whatever happens


def search(
    model: nn.Module, batches: data.Batches, classes: int, sparsity: float
) -> dict[str, int]:
    """{layer: weights to keep}, which sum to k = round((1 - sparsity) N). The model is unchanged.

    Half of one layer's remaining weights are removed at a time, always in the layer where a removed
    weight costs least cross-entropy. No layer falls below a fifth of its uniform share: nothing is
    retrained between removals, and costs mislead once the network has fallen to chance.
    """
    weights = prunable(model)
    whole = {name: weight.detach().clone() for name, weight in weights.items()}
    counts = {name: weight.numel() for name, weight in weights.items()}
    budget = max(len(counts), keep_count(sum(counts.values()), sparsity))
    floor = {
        name: min(n, max(1, int(_FLOOR * keep_count(n, sparsity)))) for name, n in counts.items()
    }
    try:
        while (excess := sum(counts.values()) - budget) > 0:
            before = evaluate(model, batches, classes).loss
            costs: dict[str, tuple[float, int]] = {}
            for name, count in counts.items():
                removed = min(math.ceil(_SHARE * count), count - floor[name], excess)
                if removed > 0:
                    _truncate(weights[name], whole[name], count - removed)
                    after = evaluate(model, batches, classes).loss
                    costs[name] = ((after - before) / removed, removed)
                    _truncate(weights[name], whole[name], count)
            chosen = min(costs, key=lambda name: costs[name][0])
            counts[chosen] -= costs[chosen][1]
            _truncate(weights[chosen], whole[chosen], counts[chosen])
    finally:
        with torch.no_grad():
            for name, weight in weights.items():
                weight.copy_(whole[name])
    return counts


def held_out(config: Config) -> Config:
    """The dense run that the search for `config` starts from: the same, judged by a hold-out."""
    return canonical(replace(config, method="dense", layers=(), val_size=hold_out_size(config)))


def rules(
    run: Path,
    sparsity: float,
    *,
    device: str,
    data_dir: str | None,
    model: str | None = None,
    data_set: str | None = None,
) -> tuple[str, ...]:
    """What the search finds for the finished run in `run`, as `Config.layers`; found once. model,
    data_set: as for `load_run`."""
    if (found := found_rules(run, sparsity)) is not None:
        return found
    trained = load_run(run, data_dir=data_dir, model=model, data=data_set)
    if trained.config.val_size is None:
        raise SkinnyError(f"{run} was judged by test images: a search may not look at those")
    target = choose_device(device)
    batches = data.test_batches(
        trained.dataset, batch_size=256, device=target, whiten=trained.config.whiten
    )
    counts = search(trained.model.to(target), batches, len(trained.dataset.classes), sparsity)
    with atomic_write(_file(run, sparsity), "w") as out:
        json.dump(counts, out, indent=1)
    return as_rules(counts)


def found_rules(run: Path, sparsity: float) -> tuple[str, ...] | None:
    """What an earlier search found; None where there was none."""
    file = _file(run, sparsity)
    return as_rules(_read(file)) if file.exists() else None


def found_in(run: Path) -> dict[str, dict[str, int]]:
    """{sparsity: {layer: weights to keep}} of all searches that started from a run."""
    return {
        file.stem.removeprefix("greedy-"): _read(file) for file in sorted(run.glob("greedy-*.json"))
    }


def as_counts(value: Any) -> dict[str, int]:
    """{layer: weights to keep} from what JSON holds; else one of Python's errors."""
    return {str(name): int(count) for name, count in value.items()}


def as_rules(counts: Mapping[str, int]) -> tuple[str, ...]:
    """As `Config.layers` has them."""
    return tuple(f"{name}={count}" for name, count in counts.items())


def _read(file: Path) -> dict[str, int]:
    try:
        return as_counts(parse(read_bytes(file)))
    except (OSError, ValueError, AttributeError, TypeError) as error:
        raise SkinnyError(f"{file} is damaged ({error}); remove it to search again") from None


def _file(run: Path, sparsity: float) -> Path:
    return run / f"greedy-{sparsity:g}.json"


@torch.no_grad()
def _truncate(weight: nn.Parameter, whole: Tensor, count: int) -> None:
    weight.copy_(torch.where(magnitude_mask(whole, count), whole, 0))
