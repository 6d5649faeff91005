import contextlib
import gzip
import struct

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skinny.data.errors import DataError
from skinny.data.idx import read_idx, read_pair


@pytest.mark.parametrize("name", ["images", "images.gz"])
def test_an_array_comes_back_as_it_was_written(tmp_path, write, name):
    array = np.random.default_rng(0).integers(256, size=(5, 4, 3), dtype=np.uint8)
    contents = write.idx_bytes(array)
    (tmp_path / name).write_bytes(gzip.compress(contents) if name.endswith(".gz") else contents)
    np.testing.assert_array_equal(read_idx(tmp_path / name, 3), array)


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_every_truncation_is_an_error_that_names_the_file(tmp_path, write, suffix):
    contents = write.idx_bytes(np.arange(60, dtype=np.uint8).reshape(5, 4, 3))
    if suffix:
        contents = gzip.compress(contents)
    path = tmp_path / f"cut{suffix}"
    for length in range(len(contents)):
        path.write_bytes(contents[:length])
        with pytest.raises(DataError, match=r"cut.*(truncated|magic)"):
            read_idx(path, 3)


@pytest.mark.parametrize(
    ("contents", "message"),
    [
        (b"\x00\x00\x08\x01" + bytes(12), "wrong magic number 00000801.*begins with 00000803"),
        (b"\x00\x00\x0d\x03" + bytes(12), "wrong magic number 00000d03"),
        (b"\x1f\x8b\x08\x03" + bytes(12), "wrong magic number"),
        (b"\x00\x00\x08\x03" + struct.pack(">3I", 2, 2, 2) + bytes(9), "too long.*= 8 bytes and 9"),
        (b"\x00\x00\x08\x03" + struct.pack(">3I", 2**32 - 1, 2**32 - 1, 2**32 - 1), "truncated"),
        (b"\x00\x00\x08\x03" + struct.pack(">3I", 0, 28, 28), "empty"),
        (b"<html>not found</html>", "wrong magic"),
        (b"", "truncated"),
    ],
)
def test_a_wrong_file_says_what_is_wrong(tmp_path, contents, message):
    path = tmp_path / "wrong-file"
    path.write_bytes(contents)
    with pytest.raises(DataError, match=f"wrong-file: {message}"):
        read_idx(path, 3)


def test_a_header_that_promises_terabytes_costs_nothing_in_a_gz(tmp_path):
    path = tmp_path / "bomb.gz"
    path.write_bytes(
        gzip.compress(b"\x00\x00\x08\x03" + struct.pack(">3I", 2**31, 2**10, 2**10) + bytes(100))
    )
    with pytest.raises(DataError, match=r"bomb.gz: truncated.*and 100 follow"):
        read_idx(path, 3)


def test_a_gz_that_is_no_gz_names_itself(tmp_path):
    (tmp_path / "page.gz").write_bytes(b"<html>")
    with pytest.raises(DataError, match=r"page.gz: truncated or corrupt \(Not a gzipped file"):
        read_idx(tmp_path / "page.gz", 1)


def test_a_flipped_bit_in_a_gz_is_found(tmp_path, write):
    contents = bytearray(gzip.compress(write.idx_bytes(np.arange(200, dtype=np.uint8))))
    contents[len(contents) // 2] ^= 4
    (tmp_path / "flipped.gz").write_bytes(contents)
    with pytest.raises(DataError, match=r"flipped.gz: truncated or corrupt"):
        read_idx(tmp_path / "flipped.gz", 1)


@settings(deadline=None)
@given(contents=st.binary(max_size=64))
def test_any_bytes_give_an_array_or_a_data_error(tmp_path_factory, contents):
    path = tmp_path_factory.getbasetemp() / "any"
    path.write_bytes(contents)
    with contextlib.suppress(DataError):
        assert read_idx(path, 1).tobytes() == contents[8:]


@pytest.mark.parametrize(
    ("images", "labels", "message"),
    [
        ((4, 28, 28), [0, 1, 2], "labels: 3 labels for 4 images"),
        ((3, 28, 28), [0, 1, 10], "labels: label 10 is not one of 0 to 9"),
        ((3, 20, 28), [0, 1, 2], "images: images are 20 x 28 and should be 28 x 28"),
    ],
)
def test_images_and_labels_must_fit_together(tmp_path, write, images, labels, message):
    (tmp_path / "images").write_bytes(write.idx_bytes(np.zeros(images, np.uint8)))
    (tmp_path / "labels").write_bytes(write.idx_bytes(np.array(labels, np.uint8)))
    with pytest.raises(DataError, match=message):
        read_pair(tmp_path / "images", tmp_path / "labels", classes=10, size=28)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(DataError, match="nothing-here: no such file"):
        read_idx(tmp_path / "nothing-here", 3)
