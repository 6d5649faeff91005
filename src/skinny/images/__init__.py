"""From an image to what a network sees: one implementation, for training and for packed models.

    file -> pixels -> resize, crop -> uint8 of the network's size -> (x * scale - mean) / std

NumPy alone; Pillow is imported when a file is read or an image is resized.
"""

from skinny.images.files import FORMATS, ImageError, read_image, shorter_side
from skinny.images.geometry import fit_batch, resize_and_crop
from skinny.images.normalize import scale_and_shift

__all__ = [
    "FORMATS",
    "ImageError",
    "fit_batch",
    "read_image",
    "resize_and_crop",
    "scale_and_shift",
    "shorter_side",
]
