"""`skinny unpack`: a packed file back to plain weights, or on to ONNX."""

from dataclasses import dataclass
from pathlib import Path

import tyro

from skinny import packing
from skinny.cli.command_line import Out, OutWord, output_file, parse
from skinny.errors import SkinnyError
from skinny.printable import printable


@dataclass(frozen=True)
class Unpack:
    """Unpack a file to plain weights, as they were packed, or to an ONNX model.

    Example: skinny unpack runs/demo-1a2b3c4d/model.skinny model.safetensors
    """

    file: tyro.conf.Positional[Path]
    """The packed file."""
    target: OutWord = None
    """The file to write: .safetensors (the default), .pt (a state_dict) or .onnx."""
    out: Out = None
    """The same, as a flag."""


def main(argv: list[str]) -> int:
    return run(parse(Unpack, argv, "skinny unpack"))


def run(arguments: Unpack) -> int:
    file = arguments.file
    out = output_file(arguments.target, arguments.out, file.with_suffix(".safetensors"))
    match out.suffix:
        case ".safetensors":
            packing.to_safetensors(file, out)
        case ".pt" | ".pth":
            _to_pt(file, out)
        case ".onnx":
            from skinny.export.onnx import to_onnx

            to_onnx(file, out)
        case _:
            raise SkinnyError(
                f"cannot write {out}: the name must end in .safetensors, .pt or .onnx"
            )
    print(f"{printable(out)}: {out.stat().st_size:,} bytes")
    return 0


def _to_pt(file: Path, out: Path) -> None:
    import torch

    from skinny.export import unpack
    from skinny.files import atomic_write

    state = unpack(file)
    try:
        with atomic_write(out) as target:
            torch.save(state, target)
    except OSError as problem:
        raise SkinnyError(f"cannot write {out}: {problem.strerror or problem}") from problem
