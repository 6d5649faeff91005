"""Precisions of training: which of them a device computes with, and which it only emulates."""

import torch

from skinny.errors import SkinnyError

_DTYPE = {"bf16": torch.bfloat16, "fp16": torch.float16}


def autocast(precision: str, device: torch.device) -> torch.autocast:
    """A context in which layers compute with the precision; with fp32 it changes nothing."""
    dtype = _DTYPE.get(precision)
    return torch.autocast(device.type, dtype=dtype, enabled=dtype is not None)


def check(precision: str, device: torch.device) -> None:
    """SkinnyError where the device cannot compute so."""
    if precision == "bf16" and device.type == "cuda" and not torch.cuda.is_bf16_supported():
        raise SkinnyError("this GPU has no bf16; use --precision fp16 or fp32")
    if precision == "fp16" and device.type == "cpu":
        raise SkinnyError("fp16 is for GPUs; on a CPU use --precision bf16 or fp32")


def is_emulated(precision: str, device: torch.device) -> bool:
    """Whether the device is known to lack instructions for it: what is meant to save time costs it.

    PyTorch rounds to bf16 on every CPU, and multiplies in fp32 where there is nothing else.
    """
    if precision != "bf16" or device.type != "cpu":
        return False
    if not hasattr(torch.cpu, "get_capabilities"):  # an older PyTorch cannot tell
        return False
    known = [has for name, has in torch.cpu.get_capabilities().items() if "bf16" in name]
    return bool(known) and not any(known)
