"""Global contrast normalisation and ZCA whitening, the preprocessing NIN used for CIFAR.

NIN took its data from pylearn2's `make_cifar10_gcn_whitened.py` (the recipe of Maxout networks),
whose constants these are:

1. contrast: from each image x (all its channels as one vector of d numbers) its mean is subtracted,
   and it is scaled to the Euclidean norm SCALE = 55. An image without contrast stays zero.
2. ZCA: (x - m) P with m the mean over the training images, P = V diag(1 / sqrt(e + BIAS)) V^T,
   where V diag(e) V^T is their d x d covariance and BIAS = 0.1.

Both are fitted on training images alone. P is a d x d matrix, so this is for small images.
"""

import hashlib
import os
import warnings
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from skinny.data.errors import DataError
from skinny.data.locate import cache_folder
from skinny.files import atomic_write

SCALE = 55.0
BIAS = 0.1
MAX_FEATURES = 8192
"""P has the square of this many numbers: 256 MB. CIFAR has 3,072."""

_MIN_NORM = 1e-8
_CHUNK = 4096


@dataclass(frozen=True)
class Whitening:
    """x -> (contrast(x) - mean) matrix; mean [d], matrix [d, d], both float32."""

    mean: Tensor
    matrix: Tensor

    def to(self, device: torch.device) -> "Whitening":
        return Whitening(self.mean.to(device), self.matrix.to(device))

    def __call__(self, images: Tensor) -> Tensor:
        return (contrast_normalize(images) - self.mean).mm(self.matrix).view(images.shape)


def contrast_normalize(images: Tensor) -> Tensor:
    """Images [n, ...] as rows [n, d] of mean 0 and norm SCALE, float32."""
    rows = images.flatten(1).to(torch.float32)
    rows = rows - rows.mean(dim=1, keepdim=True)
    norms = rows.norm(dim=1, keepdim=True)
    return rows.mul_(torch.where(norms < _MIN_NORM, 1.0, SCALE / norms))


def fit(images: Tensor) -> Whitening:
    """The whitening of training images uint8 [n, c, h, w]: d^3 work, for a matrix of d x d."""
    features = images[0].numel()
    if features > MAX_FEATURES:
        raise DataError(
            f"whitening images of {features:,} numbers needs a matrix of {features:,} squared;"
            f" at most {MAX_FEATURES:,} are possible, so use plain normalisation"
        )
    mean = sum(
        (
            contrast_normalize(chunk).sum(dim=0, dtype=torch.float64)
            for chunk in images.split(_CHUNK)
        ),
        start=torch.zeros(features, dtype=torch.float64, device=images.device),
    ) / len(images)
    covariance = torch.zeros(features, features, dtype=torch.float64, device=images.device)
    for chunk in images.split(_CHUNK):
        rows = contrast_normalize(chunk) - mean.float()
        covariance += rows.T @ rows
    covariance /= len(images)
    covariance.diagonal().add_(BIAS)
    eigenvalues, vectors = torch.linalg.eigh(covariance)
    matrix = (vectors * eigenvalues.rsqrt()) @ vectors.T
    return Whitening(mean.float(), matrix.float())


def fit_cached(images: Tensor, folder: Path | None = None) -> Whitening:
    """`fit`, kept on disk by the contents of the images; a damaged file is made again.

    folder: where; by default `whitening/` in the per-user cache.
    """
    folder = folder or cache_folder() / "whitening"
    path = folder / f"{_key(images)}.safetensors"
    try:
        cached = _load(path, images[0].numel())
    except FileNotFoundError:
        cached = None
    except (SafetensorError, OSError, ValueError) as error:
        warnings.warn(f"{path}: damaged ({error}), so it is computed again", stacklevel=2)
        cached = None
    if cached is not None:
        return cached
    whitening = fit(images.cpu())
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _save(path, whitening)
    except OSError as error:
        warnings.warn(
            f"{path}: the whitening cannot be kept ({error.strerror}), so every run computes it",
            stacklevel=2,
        )
    return whitening


def _save(path: Path, whitening: Whitening) -> None:
    tensors = {"mean": whitening.mean.contiguous(), "matrix": whitening.matrix.contiguous()}
    contents = save(tensors, metadata={"sha256": _digest(whitening)})
    with atomic_write(path) as file:
        file.write(contents)


def _load(path: Path, features: int) -> Whitening:
    if not os.path.exists(path):
        raise FileNotFoundError(path)
    with safe_open(path, framework="pt") as file:
        promised = (file.metadata() or {}).get("sha256")
        if set(file.keys()) != {"mean", "matrix"}:
            raise ValueError("it holds other tensors than a mean and a matrix")
        whitening = Whitening(file.get_tensor("mean"), file.get_tensor("matrix"))
    if whitening.mean.shape != (features,) or whitening.matrix.shape != (features, features):
        raise ValueError("its tensors have other shapes than the images ask for")
    if promised != _digest(whitening):
        raise ValueError("its contents do not have the checksum it carries")
    return whitening


def _key(images: Tensor) -> str:
    """Names the images and the constants, so that a change of either is another file."""
    digest = hashlib.sha256(f"{tuple(images.shape)} {SCALE} {BIAS} 1".encode())
    for chunk in images.split(_CHUNK):
        digest.update(chunk.contiguous().cpu().numpy().data)
    return digest.hexdigest()[:32]


def _digest(whitening: Whitening) -> str:
    digest = hashlib.sha256(whitening.mean.contiguous().numpy().data)
    digest.update(whitening.matrix.contiguous().numpy().data)
    return digest.hexdigest()
