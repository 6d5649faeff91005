"""What goes wrong with data, as one sentence that names the file."""

from skinny.errors import SkinnyError


class DataError(SkinnyError):
    """A data set is missing, damaged, or not what it says it is."""


class CorruptImageWarning(UserWarning):
    """An image of a folder could not be decoded and another one took its place."""
