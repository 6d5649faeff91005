"""Tensors of torch as arrays of NumPy, bit for bit, and back."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from skinny.errors import SkinnyError
from skinny.packing.writer import Array, Bits, Tied

# torch's unsigned types are partly implemented, but convert
_DTYPES = {
    torch.bool: "BOOL",
    torch.uint8: "U8",
    torch.int8: "I8",
    torch.uint16: "U16",
    torch.int16: "I16",
    torch.float16: "F16",
    torch.bfloat16: "BF16",
    torch.uint32: "U32",
    torch.int32: "I32",
    torch.float32: "F32",
    torch.uint64: "U64",
    torch.int64: "I64",
    torch.float64: "F64",
}


def to_array(tensor: Tensor, name: str = "a tensor") -> NDArray[Any] | Bits:
    """A tensor's elements, row by row, whatever its memory format or device."""
    if tensor.layout != torch.strided or tensor.dtype not in _DTYPES:
        raise SkinnyError(
            f"cannot pack {name} of {tensor.dtype} and layout {tensor.layout}; "
            f"dense tensors of {', '.join(str(dtype) for dtype in _DTYPES)} can be packed"
        )
    plain = tensor.detach().cpu().contiguous()
    if tensor.dtype == torch.bfloat16:
        return Bits(plain.view(torch.int16).numpy().view(np.uint16), "BF16")
    return plain.numpy()


def to_tensor(array: NDArray[Any], dtype: str) -> Tensor:
    """A tensor of its own memory with an array's elements; BF16 from its bits."""
    own = array if array.flags.writeable else array.copy()
    if dtype == "BF16":
        return torch.from_numpy(own.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(own)


def to_arrays(state: Mapping[str, Any]) -> Iterator[tuple[str, Array]]:
    """A state_dict's tensors, one at a time; one that shares all its memory comes as `Tied`."""
    # holds the tensors, so that no two can have the same place one after the other
    first: dict[tuple[Any, ...], tuple[str, Tensor]] = {}
    for name, tensor in state.items():
        if not isinstance(tensor, Tensor):
            raise SkinnyError(
                f"cannot pack {name!r}, which is a {type(tensor).__name__} and not a tensor"
            )
        place = (
            tensor.device,
            tensor.untyped_storage().data_ptr() if tensor.layout == torch.strided else id(tensor),
            tensor.dtype,
            tensor.layout == torch.strided and tensor.storage_offset(),
            tensor.shape,
            tensor.layout == torch.strided and tensor.stride(),
        )
        if tensor.numel() and place in first:
            yield name, Tied(first[place][0])
            continue
        first[place] = (name, tensor)
        yield name, to_array(tensor, repr(name))
