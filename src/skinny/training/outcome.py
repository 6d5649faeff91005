"""What came out of a run: the record that stays when the training is over."""

import platform
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

import skinny
from skinny.training.evaluation import Evaluation
from skinny.training.folder import RunFolder
from skinny.training.packed import pack_trained, trained_values
from skinny.training.session import Session

_BINS = 60


def conclude(
    session: Session, evaluation: Evaluation, folder: RunFolder, note: Callable[[str], None]
) -> dict[str, Any]:
    """Pack the network, then write result.json: with it the run counts as finished."""
    metrics = folder.metrics()
    masks = session.iht.masks if session.iht.sparse else None
    weights = {
        name: {
            "size": weight.numel(),
            "kept": weight.numel() if masks is None else int(masks[name].sum()),
        }
        for name, weight in session.iht.weights.items()
    }
    if masks is not None and folder.histograms() is None:  # the timeline counts steps
        layers = histograms(session.iht.weights, masks)
        folder.write_histograms({"epoch": session.config.epochs, "layers": layers})
    parameters = list(session.model.parameters())
    pack_trained(
        session.model,
        folder.model_file,
        config=session.config,
        dataset=session.dataset,
        weights=weights,
        note=note,
        values=trained_values(session.config),
    )
    result = {
        "test_accuracy": evaluation.accuracy,
        "test_top5": evaluation.top5,
        "test_loss": evaluation.loss,
        "test_images": list(evaluation.images),
        "test_errors": list(evaluation.errors),
        "train_accuracy": metrics[-1]["train_accuracy"],
        "train_loss": metrics[-1]["train_loss"],
        "classes": list(session.dataset.classes),
        "parameters": sum(p.numel() for p in parameters),
        "nonzero": sum(int(torch.count_nonzero(p.detach())) for p in parameters),
        "weights": weights,
        "bytes": {
            "dense": sum(t.numel() * t.element_size() for t in session.model.state_dict().values()),
            "packed": folder.model_file.stat().st_size,
        },
        "seconds": sum(record["seconds"] for record in metrics),
        "versions": {
            "skinny": skinny.__version__,
            "torch": str(torch.__version__),
            "python": platform.python_version(),
        },
        "device": _device_name(session.device),
        "threads": torch.get_num_threads(),
        "processes": session.ranks.count,
    }
    folder.write_result(result)
    return result


def histograms(weights: Mapping[str, Tensor], masks: Mapping[str, Tensor]) -> dict[str, Any]:
    """Per layer: equal bins over [-limit, limit], how many weights fall in each, how many stay."""
    made = {}
    for name, weight in weights.items():
        values = weight.detach().float().cpu()
        limit = max(float(values.abs().max()), 1e-12)
        counts = torch.histc(values, _BINS, -limit, limit)
        kept = torch.histc(values[masks[name].cpu()], _BINS, -limit, limit)
        made[name] = {
            "limit": limit,
            "all": counts.to(torch.int64).tolist(),
            "kept": kept.to(torch.int64).tolist(),
        }
    return made


def _device_name(device: torch.device) -> str:
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    return f"{device.type} ({platform.machine()})"
