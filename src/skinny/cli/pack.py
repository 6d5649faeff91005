"""`skinny pack`: a finished run, or a file of weights, as one small file."""

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import tyro

from skinny import packing
from skinny.cli import size
from skinny.cli.command_line import Out, OutWord, output_file, parse
from skinny.errors import SkinnyError
from skinny.printable import printable


@dataclass(frozen=True)
class Pack:
    """Pack a trained network into one file: weights, graph, preprocessing and labels.

    Example: skinny pack runs/demo-1a2b3c4d --values fp16
    """

    source: tyro.conf.Positional[Path]
    """A run folder; an .onnx file; or weights alone: a .safetensors file (dense, or
    `sparse-bitmask` as compressed-tensors wrote it) or a .pt file that holds a state_dict."""
    target: OutWord = None
    """The file to write; else model.skinny in the run folder, or the source with .skinny."""
    out: Out = None
    """The same, as a flag."""
    values: Literal["exact", "fp16", "bf16", "int8"] = "exact"
    """exact: every value as it is. fp16, bf16, int8: rounded weights; the largest error is
    reported."""
    signed_zeros: bool = False
    """Bring -0.0 back as -0.0 instead of 0.0; weights pruned by multiplying with a mask are often
    -0.0, and take more room then."""
    weights_only: bool = False
    """Leave the graph out: for networks with operations that a packed graph does not have."""
    model: str | None = None
    """The run's own model, package.module:function, if it is not one of Skinny's: its code is
    imported from the current directory or Python's path, and only if you name it here."""
    data_dir: Path | None = None
    """Where the run's data lies; else $SKINNY_DATA and the user's cache are searched."""
    json: bool = False
    """Print the sizes as JSON."""


def main(argv: list[str]) -> int:
    return run(parse(Pack, argv, "skinny pack"))


def run(arguments: Pack) -> int:
    source = arguments.source
    if source.is_dir():
        out = output_file(arguments.target, arguments.out, source / "model.skinny")
        pack_run(
            source,
            out,
            values=arguments.values,
            signed_zeros=arguments.signed_zeros,
            weights_only=arguments.weights_only,
            data_dir=arguments.data_dir,
            model=arguments.model,
        )
    else:
        out = output_file(arguments.target, arguments.out, source.with_suffix(".skinny"))
        pack_file(source, out, values=arguments.values, signed_zeros=arguments.signed_zeros)
    report = packing.size(out, compare=False)
    size.show(out, report, as_json=arguments.json)
    return 0


# The imports below are where they are because they load torch, and `--help` must not.


def pack_run(
    folder: Path,
    out: Path,
    *,
    values: packing.Values = "exact",
    signed_zeros: bool = False,
    weights_only: bool = False,
    data_dir: Path | None = None,
    model: str | None = None,
) -> None:
    """Pack the network of a finished run, with all that predicting with it needs."""
    from skinny.training import load_run
    from skinny.training.packed import pack_trained

    where = None if data_dir is None else str(data_dir)
    trained = load_run(folder, data_dir=where, model=model)
    pack_trained(
        trained.model,
        out,
        config=trained.config,
        dataset=trained.dataset,
        weights=trained.result["weights"],
        note=lambda text: print(f"skinny: {printable(text)}", file=sys.stderr),
        values=values,
        signed_zeros=signed_zeros,
        weights_only=weights_only,
    )


def pack_file(
    source: Path, out: Path, *, values: packing.Values = "exact", signed_zeros: bool = False
) -> None:
    """Pack an ONNX file, or a file of weights without a graph."""
    if source.suffix == ".onnx":
        from skinny.export.onnx import read_onnx

        tensors, graph, format_ = read_onnx(source)
        packing.write(
            out, tensors, graph=graph, format=format_, values=values, signed_zeros=signed_zeros
        )
    elif source.suffix == ".safetensors":
        packing.write(
            out, packing.read_safetensors(source), values=values, signed_zeros=signed_zeros
        )
    elif source.suffix in (".pt", ".pth", ".bin"):
        from skinny.export import pack

        pack(_load_state(source), out, values=values, signed_zeros=signed_zeros)
    else:
        raise SkinnyError(
            f"cannot pack {source}: it is neither a run folder nor a file of type .onnx, "
            ".safetensors or .pt"
            if source.exists()
            else f"there is no {source}"
        )


def _load_state(source: Path) -> dict[str, Any]:
    import torch

    try:
        state = torch.load(source, map_location="cpu", weights_only=True)
    except Exception as problem:  # torch raises whatever its parts do on damaged files
        first = next(iter(str(problem).splitlines()), type(problem).__name__)
        raise SkinnyError(f"cannot read {source} as a state_dict: {first}") from None
    if not isinstance(state, dict):
        raise SkinnyError(f"{source} holds a {type(state).__name__}, not a state_dict")
    return state
