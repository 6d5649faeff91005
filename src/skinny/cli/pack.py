"""`skinny pack`: a finished run, or a file of weights, as one small file."""

import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import tyro

from skinny import packing
from skinny.cli import size as sizes
from skinny.cli.command_line import Out, OutWord, UsageError, output_file, parse
from skinny.errors import SkinnyError
from skinny.files import beside
from skinny.printable import printable

if TYPE_CHECKING:
    import torch


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
    values: packing.Values = "exact"
    """exact: every value as it is. Others round the weights, and the largest error is reported:
    fp16, bf16; int2 to int8, in even steps for each output channel; codebook2 to codebook8, to the
    nearest of 4 to 256 numbers chosen for each layer."""
    size: str | None = None
    """The most that the file may take, as 25kB or 1.2MB: each layer's values are stored in as few
    bits as that asks for."""
    compute: Literal["fp32", "int8"] = "fp32"
    """int8: layers multiply integers of 8 bits, which is faster; their ranges come from training
    images of the run, and a table tells what each layer loses."""
    signed_zeros: bool = False
    """Bring -0.0 back as -0.0 instead of 0.0; weights pruned by multiplying with a mask are often
    -0.0, and take more room then."""
    weights_only: bool = False
    """Leave the graph out: for networks with operations that a packed graph does not have."""
    model: str | None = None
    """The run's own model, package.module:function, if it is not one of Skinny's: its code is
    imported from the current directory or Python's path, and only if you name it here."""
    data: str | None = None
    """The same for the run's data, if they are a package.module:function."""
    data_dir: Path | None = None
    """Where the run's data lies; else $SKINNY_DATA and the user's cache are searched."""
    json: bool = False
    """Print the sizes as JSON."""


def main(argv: list[str]) -> int:
    return run(parse(Pack, argv, "skinny pack"))


def run(arguments: Pack) -> int:
    source = arguments.source
    if arguments.size is not None and (arguments.values != "exact" or arguments.signed_zeros):
        raise UsageError("--size chooses how values are stored: give it without --values")
    if arguments.compute != "fp32" and (arguments.weights_only or arguments.size is not None):
        raise UsageError("--compute int8 needs the graph, and goes without --size")
    if arguments.compute != "fp32" and not source.is_dir():
        raise UsageError("--compute int8 needs a run folder, whose images it calibrates with")
    if source.is_dir():
        out = output_file(arguments.target, arguments.out, source / "model.skinny")
        pack_run(
            source,
            out,
            values=arguments.values,
            size=most_bytes(arguments.size),
            signed_zeros=arguments.signed_zeros,
            weights_only=arguments.weights_only,
            data_dir=arguments.data_dir,
            model=arguments.model,
            data=arguments.data,
            compute=arguments.compute,
        )
    else:
        out = output_file(arguments.target, arguments.out, source.with_suffix(".skinny"))
        stored: dict[str, Any] = {"values": arguments.values}
        stored["signed_zeros"] = arguments.signed_zeros
        pack_file(source, out, most_bytes(arguments.size), **stored)
    report = packing.size(out, compare=False)
    sizes.show(out, report, as_json=arguments.json)
    return 0


def most_bytes(text: str | None) -> int | None:
    """The number of bytes that "25kB" and the like name."""
    if text is None:
        return None
    found = re.fullmatch(r"(\d+(?:\.\d+)?) *([kM]?)B?", text, re.ASCII)
    count = round(float(found[1]) * {"": 1, "k": 1000, "M": 1_000_000}[found[2]]) if found else 0
    if count < 1:
        raise UsageError(f"the size is {text!r}; give bytes, as 25kB, 1.2MB or 8600")
    return count


# The imports below are where they are because they load torch, and `--help` must not.


def pack_run(
    folder: Path,
    out: Path,
    *,
    values: packing.Values = "exact",
    size: int | None = None,
    signed_zeros: bool = False,
    weights_only: bool = False,
    data_dir: Path | None = None,
    model: str | None = None,
    data: str | None = None,
    compute: Literal["fp32", "int8"] = "fp32",
) -> None:
    """Pack the network of a finished run, with all that predicting with it needs. Rounded weights
    are tested before the file is there."""
    from skinny.training import load_run
    from skinny.training.packed import accuracies, pack_trained

    def note(text: str) -> None:
        print("skinny:", "\n".join(map(printable, text.splitlines())), file=sys.stderr)

    where = None if data_dir is None else str(data_dir)
    trained = load_run(folder, data_dir=where, model=model, data=data)
    with beside(out) as made:
        pack_trained(
            trained.model,
            made,
            config=trained.config,
            dataset=trained.dataset,
            weights=trained.result["weights"],
            note=note,
            values=values,
            size=size,
            signed_zeros=signed_zeros,
            weights_only=weights_only,
            compute=compute,
        )
        if compute == "int8" or values != "exact" or size is not None:
            run = _runs(made) if compute == "int8" else None
            before, after = accuracies(trained, made, run)
            images = sum(before.images)
            how = "with the weights of the file" if run is None else "computed in int8"
            note(
                f"accuracy {before.accuracy:.2%} as trained, {after.accuracy:.2%} {how} "
                f"({sum(before.errors)} and {sum(after.errors)} of {images:,} images wrong)"
            )


def _runs(path: Path) -> "Callable[[torch.Tensor], torch.Tensor] | None":
    """What a packed file computes of prepared images; None if it has no graph to run."""
    import torch

    from skinny.runtime import load

    with packing.open(path) as file:
        if file.graph is None:
            return None
        prepared = {"preprocessed": True} if file.preprocessing is not None else {}
    net = load(path)
    return lambda images: torch.from_numpy(net(images.numpy(), **prepared))


def pack_file(
    source: Path, out: Path, size: int | None = None, *, values: packing.Values, signed_zeros: bool
) -> None:
    """Pack an ONNX file, or a file of weights without a graph."""
    if source.suffix in (".onnx", ".pt", ".pth", ".bin"):
        from skinny.export import pack

        model = source if source.suffix == ".onnx" else _load_state(source)
        pack(model, out, values=values, signed_zeros=signed_zeros, size=size)
    elif source.suffix == ".safetensors" and size is None:
        tensors = packing.read_safetensors(source)
        packing.write(out, tensors, values=values, signed_zeros=signed_zeros)
    elif source.suffix == ".safetensors" and size is not None:
        packing.write_within(size, out, packing.read_safetensors(source))
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
