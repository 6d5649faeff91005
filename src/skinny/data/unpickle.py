"""The pickles of CIFAR's python version, read without letting them call anything.

Such a file is a dictionary of lists, byte strings and one uint8 array. Python's own unpickler
would run whatever a hostile file names. This one knows three names, all of them NumPy's, and stands
in for each an inert object of ours that only notes what it was given; the array is then built from
those notes by `numpy.frombuffer`.
"""

import io
import pickle
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from skinny.data.errors import DataError


def unpickle_batch(contents: bytes, name: Path | str) -> dict[str, Any]:
    """The dictionary in a CIFAR batch: keys as str, arrays as uint8 NumPy arrays.

    `name` is for the error message.
    """
    try:
        batch = _Unpickler(io.BytesIO(contents), encoding="bytes").load()
        if type(batch) is not dict:
            raise pickle.UnpicklingError(f"holds a {type(batch).__name__}, not a dict")
        return {_text(key): _value(value) for key, value in batch.items()}
    except Exception as error:  # a hostile pickle can make the unpickler raise anything
        raise DataError(f"{name}: not a CIFAR batch ({error or type(error).__name__})") from error


def _text(key: object) -> str:
    return key.decode("latin-1") if isinstance(key, bytes) else str(key)


def _value(value: object) -> object:
    return value.array if isinstance(value, _Array) else value


class _Inert:
    """Stands for a name in the pickle. Its state cannot be set, so a pickle cannot alter it."""

    __slots__ = ()

    def __setstate__(self, state: object) -> None:
        raise pickle.UnpicklingError("tries to alter a name it uses")


class _NdarrayName(_Inert):
    """`numpy.ndarray`: only ever the first argument of `_reconstruct`."""

    __slots__ = ()


class _DtypeName(_Inert):
    """`numpy.dtype`: called as dtype('u1', 0, 1)."""

    __slots__ = ()

    def __call__(self, *arguments: object) -> "_Dtype":
        if not arguments or arguments[0] not in (b"u1", "u1"):
            raise pickle.UnpicklingError("holds an array of something else than unsigned bytes")
        return _Dtype()


class _ReconstructName(_Inert):
    """`numpy.core.multiarray._reconstruct`: makes the empty array that BUILD then fills."""

    __slots__ = ()

    def __call__(self, *arguments: object) -> "_Array":
        return _Array()


class _Dtype:
    """The dtype of unsigned bytes. NumPy sets a state on it (byte order, alignment): no matter."""

    __slots__ = ()

    def __setstate__(self, state: object) -> None:
        pass


class _Array:
    """An array that is filled once, from (version, shape, dtype, is Fortran, bytes)."""

    __slots__ = ("array",)
    array: NDArray[np.uint8]

    def __setstate__(self, state: object) -> None:
        match state:
            case (int(), tuple(shape), _Dtype(), fortran, bytes(contents)):
                flat = np.frombuffer(contents, np.uint8)
                self.array = flat.reshape(shape, order="F" if fortran else "C")
            case _:
                raise pickle.UnpicklingError("holds an array in a form that CIFAR files do not use")


_NAMES: dict[tuple[str, str], _Inert] = {
    ("numpy", "ndarray"): _NdarrayName(),
    ("numpy", "dtype"): _DtypeName(),
    ("numpy.core.multiarray", "_reconstruct"): _ReconstructName(),
    # what NumPy 2 writes for the same thing
    ("numpy._core.multiarray", "_reconstruct"): _ReconstructName(),
}


# The pure Python unpickler, on purpose: the C one keeps its memo in an array, and one opcode that
# names memo slot 2^32 makes it touch 64 GB.
class _Unpickler(pickle._Unpickler):
    def find_class(self, module_name: str, global_name: str, /) -> Any:
        try:
            return _NAMES[module_name, global_name]
        except KeyError:
            raise pickle.UnpicklingError(
                f"asks for {module_name}.{global_name}, which no CIFAR file needs"
            ) from None

    def persistent_load(self, pid: object) -> NoReturn:
        raise pickle.UnpicklingError("refers to objects outside the file")
