"""Packing and unpacking AlexNet's fc6 at 90 %, against gzip, xz, zstd and scipy's CSR.

Speeds are gigabytes of dense weights per second. gzip and xz get a sixteenth of the tensor, which
is plenty to measure them by; everyone else gets the whole tensor. Also how fast entropy-coded masks
decode, and how near they come to the entropy bound.
"""

import gzip
import lzma
import os
from collections.abc import Callable
from statistics import median
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from benchmarks.common import THREADS, describe_machine, interleave
from skinny.packing import bitmask, codec, entropy
from skinny.packing.container import content
from skinny.packing.sizes import mask_bound

SHAPE = (4096, 9216)
SLICE = 256  # rows, for gzip and xz

Pair = tuple[Callable[[], Any], Callable[[Any], Any]]


def main(rounds: int = 5) -> None:
    os.environ["SKINNY_THREADS"] = str(THREADS)
    print(describe_machine("numpy", "scipy", "zstandard"))
    dense = random_weights(SHAPE, 0.9)
    head = dense[:SLICE]
    print(f"{dense.size:,} float32 weights at 90 % (wanted: bitmask at 1 GB/s or more both ways)")
    print(f"{'':24}{'pack GB/s':>12}{'unpack GB/s':>12}{'times smaller':>15}")
    show(dense, head, contenders(), rounds)
    print("entropy-coded masks (wanted: 200 Mbit/s or more, within 3 % of the bound)")
    for sparsity in (0.9, 0.95, 0.98):
        show_masks(sparsity, rounds)


def random_weights(shape: tuple[int, int], sparsity: float) -> NDArray[np.float32]:
    rng = np.random.default_rng(0)
    weights = rng.standard_normal(shape, np.float32)
    weights[rng.random(shape, np.float32) < sparsity] = 0
    return weights


def contenders() -> dict[str, Pair]:
    def pack(array: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
        mask, ones = bitmask.find(array)
        return mask, bitmask.gather(array, mask, ones)

    def pack_coded(array: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any], int]:
        mask, values = pack(array)
        return entropy.encode(mask, array.size, values.size), values, array.size

    def unpack_coded(packed: tuple[NDArray[Any], NDArray[Any], int]) -> NDArray[Any]:
        coded, values, count = packed
        return bitmask.unpack(entropy.decode(coded, count, values.size), values, count)

    def pack_tensor(array: NDArray[Any]) -> tuple[NDArray[Any], ...]:
        entry, parts = codec.encode("fc6", array, "F32")
        return (*parts.values(), (entry, tuple(parts)))

    def unpack_tensor(packed: tuple[Any, ...]) -> NDArray[Any]:
        *arrays, (entry, roles) = packed
        return codec.densify(codec.decode(entry, dict(zip(roles, arrays, strict=True))))

    count = SHAPE[0] * SHAPE[1]
    known: dict[str, Any] = {
        "skinny, bitmask": (pack, lambda packed: bitmask.unpack(*packed, count)),
        "skinny, mask coded": (pack_coded, unpack_coded),
        "skinny, values too": (pack_tensor, unpack_tensor),
        "scipy CSR": (sparse.csr_matrix, lambda matrix: matrix.toarray()),
        "gzip -6": (lambda a: gzip.compress(content(a), 6), gzip.decompress),
        "xz -6": (lambda a: lzma.compress(content(a)), lzma.decompress),
    }
    try:
        import zstandard
    except ModuleNotFoundError:
        print("zstd is left out: pip install 'skinny-nn[bench]'")
    else:
        packer = zstandard.ZstdCompressor(level=3, threads=THREADS)
        known["zstd -3"] = (
            lambda a: packer.compress(content(a)),
            zstandard.ZstdDecompressor().decompress,
        )
    return known


def show(dense: NDArray[Any], head: NDArray[Any], known: dict[str, Pair], rounds: int) -> None:
    given = {name: head if name in ("gzip -6", "xz -6") else dense for name in known}
    packed = {name: pack(given[name]) for name, (pack, _) in known.items()}
    packing = interleave({name: (lambda n=name: known[n][0](given[n])) for name in known}, rounds)
    unpacking = interleave(
        {name: (lambda n=name: known[n][1](packed[n])) for name in known}, rounds
    )
    for name, array in given.items():
        back = np.frombuffer(known[name][1](packed[name]), np.float32)
        assert np.array_equal(back, array.reshape(-1)), name
        rates = [array.nbytes / median(s[name]) / 1e9 for s in (packing, unpacking)]
        smaller = array.nbytes / stored_bytes(packed[name])
        print(f"{name:24}{rates[0]:12.3f}{rates[1]:12.3f}{smaller:14.2f}x")


def stored_bytes(packed: Any) -> int:
    if isinstance(packed, bytes):
        return len(packed)
    if isinstance(packed, tuple):
        return sum(part.nbytes for part in packed if isinstance(part, np.ndarray))
    return int(packed.data.nbytes + packed.indices.nbytes + packed.indptr.nbytes)


def show_masks(sparsity: float, rounds: int) -> None:
    rng = np.random.default_rng(1)
    count = SHAPE[0] * SHAPE[1]
    bits = rng.random(count, np.float32) >= sparsity
    mask, ones = np.packbits(bits, bitorder="little"), int(bits.sum())
    coded = entropy.encode(mask, count, ones)
    seconds = interleave(
        {
            "encode": lambda: entropy.encode(mask, count, ones),
            "decode": lambda: entropy.decode(coded, count, ones),
        },
        rounds,
    )
    over = coded.size * 8 / mask_bound(count, ones) - 1
    rates = {name: count / median(taken) / 1e6 for name, taken in seconds.items()}
    print(
        f"{f'  at {sparsity:.0%}':24}encode {rates['encode']:6.0f} Mbit/s, "
        f"decode {rates['decode']:6.0f} Mbit/s, {over:.2%} over the bound"
    )


if __name__ == "__main__":
    main()
