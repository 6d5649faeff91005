"""The one exception a user is meant to read.

Anything a user can cause (a bad argument, a damaged file, a full disk) ends as a `SkinnyError` or a
subclass, whose text is one clear sentence. The command line prints that sentence and nothing else.
"""


class SkinnyError(Exception):
    """What went wrong, what was given, and what to do about it, in one sentence."""
