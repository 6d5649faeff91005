"""Finding the compiled kernels, and saying once when they are missing."""

import functools
import os
import warnings
from types import ModuleType

from skinny.errors import SkinnyError


@functools.cache
def extension() -> ModuleType | None:
    """`skinny._native`, or None after one warning if it was not built.

    `SKINNY_NATIVE=0` does without it on purpose, and in silence: the NumPy reference of every
    kernel runs instead.
    """
    if os.environ.get("SKINNY_NATIVE") == "0":
        return None
    try:
        from skinny import _native
    except ImportError as error:
        warnings.warn(
            f"skinny runs without its compiled kernels and will be slow ({error}); "
            "reinstall it where a C++ compiler is available",
            RuntimeWarning,
            stacklevel=2,
        )
        return None
    try:
        _native.isa()
    except ValueError as error:
        raise SkinnyError(str(error)) from None
    return _native


def threads() -> int:
    """How many threads native code uses: `SKINNY_THREADS`, or the cores this process may use."""
    wish = os.environ.get("SKINNY_THREADS", "")
    if wish.isdigit() and int(wish) > 0:
        return int(wish)
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
