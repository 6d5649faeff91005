"""What a network is given: batches of images, checked before any kernel sees them."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skinny.errors import SkinnyError
from skinny.images import fit_batch, read_image, scale_and_shift

Batch = ArrayLike | Sequence[str | os.PathLike[str]]


class InputError(SkinnyError):
    """An array that is no input for this network."""


NO_FILES = (
    "this network takes no image files, because its file says nothing of preprocessing for uint8 "
    "images; if its input is images, pack it with preprocessing={'mean': [...], 'std': [...]}"
)


def names_files(x: Any) -> bool:
    return isinstance(x, list | tuple) and bool(x) and isinstance(x[0], str | os.PathLike)


@dataclass(frozen=True)
class Images:
    """The images a network takes: their shape, and the preprocessing that the file stores, which is
    applied before the first layer (docs/format.md)."""

    shape: tuple[int, ...]  # without the batch
    preprocessing: Mapping[str, Any] | None

    def check(self, x: Batch, *, preprocessed: bool = False) -> NDArray[Any]:
        """x as a contiguous array of uint8 or float32, [batch, *shape]; an `InputError` otherwise.

        uint8 is what the kernels will normalise; floats are ready for the first layer.
        preprocessed: x is not what the stored preprocessing is applied to, but its result.
        """
        record = None if preprocessed else self.preprocessing
        if record is None and self._ready(x):
            return cast("NDArray[Any]", x)
        if names_files(x):
            x = self._read_files(cast("Sequence[Any]", x))
        try:
            x = np.asarray(x)
        except (ValueError, TypeError, RuntimeError) as problem:  # a ragged list, say
            raise InputError(f"the input cannot be made an array of images: {problem}") from None
        self._check_type(x.dtype, record)
        if record is not None:
            x = self._fit(x, record)
        if x.ndim != len(self.shape) + 1 or x.shape[1:] != self.shape:
            wanted = ", ".join(map(str, ("batch", *self.shape)))
            hint = "; for one image use x[None]" if x.shape == self.shape else ""
            raise InputError(f"the input is {list(x.shape)}, the network takes [{wanted}]{hint}")
        if len(x) == 0:
            raise InputError("the batch is empty; a network takes one image or more")
        if x.dtype == np.uint8:
            return np.ascontiguousarray(x)
        return np.ascontiguousarray(x if record is None else self._normalize(x), np.float32)

    def _ready(self, x: Batch) -> bool:
        """Is x what the kernels read? The usual case of small networks, whose calls take a few
        microseconds."""
        return (
            type(x) is np.ndarray
            and x.dtype == np.float32
            and x.shape[1:] == self.shape
            and x.flags.c_contiguous
            and len(x) > 0
        )

    def _check_type(self, dtype: np.dtype[Any], record: Mapping[str, Any] | None) -> None:
        """`record` is the preprocessing to apply. Floats in place of uint8 are refused: they
        may be in [0, 1], in [0, 255] or normalised, and the result would be wrong silently."""
        if dtype != np.uint8 and dtype.kind != "f":
            raise InputError(f"the images are {dtype}; a network takes uint8 or floats")
        given = "uint8" if dtype == np.uint8 else "float32"
        if record is None and given == "uint8":
            raise InputError(
                "the images are uint8, but preprocessed=True says that they are preprocessed"
                if self.preprocessing is not None
                else "the images are uint8, but the file says nothing of preprocessing; give the "
                "network floats, prepared as in training, or pack it with preprocessing"
            )
        if record is not None and given != record["input"]:
            raise InputError(
                f"the images are {dtype}, but the file's preprocessing takes {record['input']}; "
                "for floats that are preprocessed already say preprocessed=True"
            )

    def _read_files(self, paths: Sequence[Any]) -> NDArray[np.uint8]:
        """Images in files, resized and cropped, in the layout of the preprocessing."""
        record = self.preprocessing
        if record is None or record["input"] != "uint8" or len(self.shape) != 3:
            raise InputError(NO_FILES)
        channels, height, width = self.shape
        how = {"channels": channels, "resize": record["resize"], "crop": record["crop"]}
        batch = np.stack([read_image(path, **how, size=(height, width)) for path in paths])
        return batch if record["layout"] == "NHWC" else batch.transpose(0, 3, 1, 2)

    def _fit(self, x: NDArray[Any], record: Mapping[str, Any]) -> NDArray[Any]:
        """x with channels first; uint8 images of another size than the network's are resized and
        cropped, where the preprocessing says how."""
        if record["layout"] == "NHWC" and 1 < x.ndim == len(self.shape) + 1:
            x = np.moveaxis(x, -1, 1)
        resize, crop = record["resize"], record["crop"]
        if (
            (resize is None and crop is None)
            or x.dtype != np.uint8
            or x.ndim != 4
            or x.shape[1:] == self.shape
            or x.shape[1:2] != self.shape[:1]
            or 0 in x.shape
        ):
            return x
        _, height, width = self.shape
        return fit_batch(x, resize=resize, crop=crop, size=(height, width))

    def scaling(self) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Preprocessing as x * scale + shift, for each channel."""
        assert self.preprocessing is not None
        record = self.preprocessing
        return scale_and_shift(record["mean"], record["std"], record["scale"])

    def floats(self, x: NDArray[Any]) -> NDArray[np.float32]:
        """The first layer's input for a checked batch."""
        return self._normalize(x) if x.dtype == np.uint8 else x

    def _normalize(self, x: NDArray[Any]) -> NDArray[np.float32]:
        scale, shift = (own.reshape(-1, *[1] * (x.ndim - 2)) for own in self.scaling())
        result: NDArray[np.float32] = x * scale + shift
        return result
