"""What can be wrong with a packed file, one name each.

All are `SkinnyError`s. A reader raises the most specific one; `FormatError` catches them all.
"""

from skinny.errors import SkinnyError


class FormatError(SkinnyError):
    """A file is not what it claims to be, or not what we can read."""


class NotPackedError(FormatError):
    """A file is not a packed model: not safetensors at all, or safetensors without our manifest."""


class VersionError(FormatError):
    """A file is of a newer format than this reader knows."""


class HeaderError(FormatError):
    """The safetensors header breaks its rules: length, JSON, names, dtypes, shapes or offsets."""


class ManifestError(FormatError):
    """The manifest is not what docs/format.md says, or does not fit the stored parts."""


class ChecksumError(FormatError):
    """The contents differ from those that were written."""


class MaskError(FormatError):
    """A mask does not fit its tensor or its values: wrong length, number of ones, or padding."""


class StreamError(FormatError):
    """An entropy-coded mask ends early, goes on too long, or has impossible tables."""


class ScaleError(FormatError):
    """The scales of quantised values are negative or not finite."""


class GraphError(FormatError):
    """A graph has cycles, missing inputs, unknown operations, or impossible attributes."""
