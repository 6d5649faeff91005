"""Codes weights with nncodec and zipnn, in an environment of its own (requirements-codecs.txt).

    .venv-codecs/bin/python benchmarks/peers/codecs_worker.py WEIGHTS.npz FOLDER

A line of JSON for each way: its name, its bytes, and the file in FOLDER with what it decodes to.
"""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import MagicMock

import numpy as np

STEPS = (-38, -32, -26, -20, -14)  # nncodec's quantisation parameters; -38 is its default
State = dict[str, np.ndarray]


def main(weights: Path, folder: Path) -> None:
    with np.load(weights) as file:
        state = dict(file)
    for name, size, decoded in [zipped(state), *nncoded(state, folder)]:
        path = folder / f"{name}.npz"
        np.savez(path, **decoded)
        print(json.dumps({"values": name, "bytes": size, "decoded": str(path)}), flush=True)


def nncoded(state: State, folder: Path) -> Iterator[tuple[str, int, State]]:
    """Even steps, chosen by rate and distortion (its trellis), and context-adaptive coding."""
    sys.modules["nncodec.framework"] = MagicMock()  # its sample trainings, which want torchvision
    from nncodec import nnc

    file = folder / "weights.nnc"
    for step in STEPS:
        nnc.compress({n: v.copy() for n, v in state.items()}, bitstream_path=str(file), qp=step)
        yield f"nncodec, qp {step}", file.stat().st_size, nnc.decompress(str(file))


def zipped(state: State) -> tuple[str, int, State]:
    """Without loss: exponents by Huffman's code."""
    from zipnn import ZipNN

    size, decoded = 0, {}
    for name, array in state.items():
        coded = ZipNN(input_format="byte", bytearray_dtype="float32").compress(array.tobytes())
        back = ZipNN(input_format="byte", bytearray_dtype="float32").decompress(coded)
        decoded[name] = np.frombuffer(bytes(back), np.float32).reshape(array.shape)
        assert np.array_equal(decoded[name], array)
        size += len(coded)
    return "zipnn", size, decoded


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
