"""Adaptive code: native code and reference agree to the byte, and survive any stream."""

import numpy as np
import pytest

from skinny import native, packing
from skinny.packing import adaptive, codec
from skinny.packing.errors import FormatError, StreamError

rng = np.random.default_rng(3)


def tensor(rows, columns, density, most=256):
    ones = rng.random((rows, columns)) < density
    mask = np.packbits(ones.reshape(-1), bitorder="little")
    return mask, rng.integers(0, most, int(ones.sum()), dtype=np.uint8)


SHAPES = [(1, 1, 1.0), (1, 1, 0.0), (3, 5, 0.5), (7, 300, 0.01), (300, 7, 0.9), (40, 60, 1.0),
          (50, 200, 0.0), (1, 9000, 0.02)]  # fmt: skip


@pytest.mark.parametrize(("rows", "columns", "density"), SHAPES)
def test_what_is_coded_comes_back_and_native_code_makes_the_bytes_of_the_reference(
    rows, columns, density
):
    for most in (1, 4, 256):
        mask, symbols = tensor(rows, columns, density, most)
        stream = adaptive.encode(mask, symbols, rows, columns)
        plain = adaptive.encode_reference(mask, symbols, rows, columns)
        assert stream.tobytes() == plain.ljust(adaptive.shortest(rows * columns), b"\0")
        for decode in (adaptive.decode, by_reference):
            found = decode(stream, rows, columns, symbols.size)
            np.testing.assert_array_equal(found[0], mask)
            np.testing.assert_array_equal(found[1], symbols)


def by_reference(stream, rows, columns, kept):
    mask, symbols = np.zeros(-(-rows * columns // 8), np.uint8), np.zeros(kept, np.uint8)
    assert adaptive.decode_reference(stream, rows, columns, mask, symbols)
    return mask, symbols


def test_carries_run_through_bytes_of_ones():
    """Many unlikely bits make the low end of the range long rows of 255."""
    for seed in range(30):
        own = np.random.default_rng(seed)
        ones = own.random(4000) < own.choice([0.001, 0.999])
        mask = np.packbits(ones, bitorder="little")
        symbols = np.full(int(ones.sum()), 255, np.uint8)
        stream = adaptive.encode(mask, symbols, 40, 100)
        np.testing.assert_array_equal(adaptive.decode(stream, 40, 100, symbols.size)[0], mask)


def test_any_stream_is_decoded_or_refused_and_both_decoders_agree():
    mask, symbols = tensor(20, 50, 0.1)
    stream = adaptive.encode(mask, symbols, 20, 50)
    refused = 0
    for _ in range(200):
        own = stream.copy()
        own[rng.integers(0, own.size)] ^= rng.integers(1, 256, dtype=np.uint8)
        own = own[: rng.integers(0, own.size + 1)] if rng.random() < 0.3 else own
        kept = symbols.size + int(rng.integers(-2, 3))
        plain = np.zeros(mask.size, np.uint8), np.zeros(kept, np.uint8)
        holds = adaptive.decode_reference(own, 20, 50, *plain)
        try:
            found = adaptive.decode(own, 20, 50, kept)
            assert holds
            np.testing.assert_array_equal(found[0], plain[0])
            np.testing.assert_array_equal(found[1], plain[1])
        except StreamError:
            assert not holds
            refused += 1
    assert refused > 100
    with pytest.raises(StreamError):
        adaptive.decode(np.append(stream, np.uint8([0, 0, 0, 0, 1])), 20, 50, symbols.size)


def test_rows_columns_and_clusters_cost_less_than_their_entropy():
    ones = np.zeros((300, 784), bool)
    inside = rng.random(784) < 0.4  # columns that are not empty
    ones[:, inside] = rng.random((300, inside.sum())) < 0.04
    mask = np.packbits(ones.reshape(-1), bitorder="little")
    size = adaptive.encode(mask, np.zeros(int(ones.sum()), np.uint8), 300, 784).size
    density = ones.mean()
    entropy = -ones.size / 8 * (density * np.log2(density) + (1 - density) * np.log2(1 - density))
    assert size < 0.92 * entropy


@pytest.mark.parametrize("kind", ["exact", "int4", "codebook3"])
def test_small_sparse_tensors_of_a_file_take_it_and_files_of_format_4_say_so(tmp_path, kind):
    weight = rng.standard_normal((50, 80)).astype(np.float32) * (rng.random((50, 80)) < 0.05)
    path = tmp_path / "m.skinny"
    packing.write(path, {"weight": weight, "bias": weight[0]}, values=kind)
    with packing.open(path) as file:
        entry = file.entry("weight")
        assert entry.form == "adaptive"
        assert entry.kept == np.count_nonzero(weight)
        np.testing.assert_allclose(file.read("weight"), weight, atol=entry.error)
        assert file._header.metadata["skinny"] == "4"


def test_a_large_or_signed_or_grouped_tensor_does_without(tmp_path):
    large = rng.standard_normal((300, 900)).astype(np.float32) * (rng.random((300, 900)) < 0.1)
    assert codec.encode("x", large, "F32")[0].form == "entropy"
    signed = np.where(rng.random((50, 80)) < 0.05, 1.0, -0.0).astype(np.float32)
    assert codec.encode("x", signed, "F32", signed_zeros=True)[0].form != "adaptive"


@pytest.mark.parametrize("change", [{"kept": 5}, {"shape": [50, 81]}, {"shape": [4000]},
                                    {"dtype": "I32"}, {"groups": [1, 4]}])  # fmt: skip
def test_a_manifest_that_does_not_fit_is_refused(change):
    from skinny.packing.manifest import _check_small, _entry

    weight = rng.standard_normal((50, 80)).astype(np.float32) * (rng.random((50, 80)) < 0.05)
    entry, parts = codec.encode("x", weight, "F32")
    record = {"dtype": "F32", "shape": [50, 80], "form": "adaptive", "kept": entry.kept,
              "small": [part.size for part in parts.values()]}  # fmt: skip
    assert _entry("x", record, 4) == entry
    with pytest.raises(FormatError):
        _entry("x", record, 3)
    with pytest.raises(FormatError):
        changed = _entry("x", record | change, 4)
        _check_small("x", changed, record["small"])
        codec.decode(changed, parts)


def test_without_the_extension_the_bytes_are_the_same(monkeypatch):
    if native.extension() is None:
        pytest.skip("there is none")
    mask, symbols = tensor(10, 30, 0.2)
    stream = adaptive.encode(mask, symbols, 10, 30)
    monkeypatch.setattr(adaptive, "extension", lambda: None)
    assert adaptive.encode(mask, symbols, 10, 30).tobytes() == stream.tobytes()
    np.testing.assert_array_equal(adaptive.decode(stream, 10, 30, symbols.size)[0], mask)
