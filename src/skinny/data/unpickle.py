"""The pickles of CIFAR's python version, read without letting them call anything.

Such a file is a dictionary of lists, byte strings and one uint8 array. Python's own unpickler
would run whatever a hostile file names. This one knows three names, all of them NumPy's, and puts
in the place of each an inert object of ours that only notes what it was given; the array is then
built from those notes by `numpy.frombuffer`. Opcodes that such files do not contain are refused.
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
    except pickle.UnpicklingError as error:
        raise DataError(f"{name}: not a CIFAR batch ({error})") from error
    except Exception as error:  # damage can make the unpickler stumble over anything
        raise DataError(
            f"{name}: not a CIFAR batch (damaged or no pickle at all, {type(error).__name__})"
        ) from error


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


# What the official files contain (protocol 2), and what protocol 4 writes for the same things.
_OPCODES = (
    *(pickle.PROTO, pickle.FRAME, pickle.STOP, pickle.MARK),
    *(pickle.GLOBAL, pickle.STACK_GLOBAL, pickle.REDUCE, pickle.BUILD),
    *(pickle.EMPTY_DICT, pickle.SETITEM, pickle.SETITEMS),
    *(pickle.EMPTY_LIST, pickle.APPEND, pickle.APPENDS),
    *(pickle.EMPTY_TUPLE, pickle.TUPLE, pickle.TUPLE1, pickle.TUPLE2, pickle.TUPLE3),
    *(pickle.NONE, pickle.NEWTRUE, pickle.NEWFALSE),
    *(pickle.BININT, pickle.BININT1, pickle.BININT2, pickle.LONG1),
    *(pickle.BINSTRING, pickle.SHORT_BINSTRING, pickle.BINBYTES, pickle.SHORT_BINBYTES),
    *(pickle.BINUNICODE, pickle.SHORT_BINUNICODE),
    *(pickle.BINPUT, pickle.LONG_BINPUT, pickle.MEMOIZE, pickle.BINGET, pickle.LONG_BINGET),
)


class _Dispatch(dict[int, Any]):
    def __missing__(self, opcode: int) -> NoReturn:
        raise pickle.UnpicklingError(f"uses opcode {opcode:#04x}, which no CIFAR file contains")


# The pure Python unpickler, on purpose: its opcodes can be chosen, and its memo is a dictionary.
# The C one keeps an array, and an opcode that names memo slot 2^32 makes it touch 64 GB.
class _Unpickler(pickle._Unpickler):
    dispatch = _Dispatch({op[0]: pickle._Unpickler.dispatch[op[0]] for op in _OPCODES})

    def find_class(self, module_name: str, global_name: str, /) -> Any:
        try:
            return _NAMES[module_name, global_name]
        except KeyError:
            raise pickle.UnpicklingError(
                f"asks for {module_name}.{global_name}, which no CIFAR file needs"
            ) from None
