"""What a network is given: batches of images, checked before any kernel sees them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skinny.errors import SkinnyError


class InputError(SkinnyError):
    """An array that is no batch of images for this network."""


@dataclass(frozen=True)
class Images:
    """The images a network takes: their shape, and what the file does to bytes before the first
    layer (see `skinny.packing`)."""

    shape: tuple[int, ...]  # without the batch
    preprocessing: Mapping[str, Any] | None

    def check(self, x: ArrayLike) -> NDArray[Any]:
        """x as a contiguous array of uint8 or float32, [batch, *shape]; an `InputError` otherwise.

        uint8 needs the file's preprocessing; if its layout is channels last, x is transposed.
        """
        x = np.asarray(x)
        bytes_given = x.dtype == np.uint8
        if bytes_given and self.preprocessing is None:
            raise InputError(
                "the images are uint8, but the file says nothing of preprocessing; give the "
                "network floats, prepared as in training"
            )
        if not bytes_given and x.dtype.kind != "f":
            raise InputError(f"the images are {x.dtype}; a network takes uint8 or floats")
        if bytes_given and self._channels_last and x.ndim == len(self.shape) + 1:
            x = np.moveaxis(x, -1, 1)
        if x.ndim != len(self.shape) + 1 or x.shape[1:] != self.shape:
            wanted = ", ".join(map(str, ("batch", *self.shape)))
            hint = "; for one image use x[None]" if x.shape == self.shape else ""
            raise InputError(f"the input is {list(x.shape)}, the network takes [{wanted}]{hint}")
        if len(x) == 0:
            raise InputError("the batch is empty; a network takes one image or more")
        return np.ascontiguousarray(x, dtype=np.uint8 if bytes_given else np.float32)

    @property
    def _channels_last(self) -> bool:
        return self.preprocessing is not None and self.preprocessing["layout"] == "NHWC"

    def scaling(self) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Preprocessing as x * scale + shift, for each channel."""
        assert self.preprocessing is not None
        std = np.asarray(self.preprocessing["std"], np.float64)
        scale = np.broadcast_to(self.preprocessing["scale"] / std, self.shape[:1])
        shift = np.broadcast_to(-np.asarray(self.preprocessing["mean"]) / std, self.shape[:1])
        return np.array(scale, np.float32), np.array(shift, np.float32)

    def floats(self, x: NDArray[Any]) -> NDArray[np.float32]:
        """The first layer's input for a checked batch."""
        if x.dtype != np.uint8:
            return x
        scale, shift = (own.reshape(-1, *[1] * (x.ndim - 2)) for own in self.scaling())
        result: NDArray[np.float32] = x * scale + shift
        return result
