import contextlib
import os
import pickle
import struct

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skinny.data.errors import DataError
from skinny.data.unpickle import unpickle_batch


@pytest.fixture
def batch(write):
    return write.cifar_arrays(3, 10, seed=0)


@pytest.mark.parametrize("writer", ["python2_pickle", "python3_pickle"])
def test_a_batch_has_its_array_and_its_lists(write, batch, writer):
    pixels, labels = batch
    read = unpickle_batch(getattr(write, writer)(pixels, labels, 10), "batch")
    np.testing.assert_array_equal(read["data"], pixels)
    assert read["labels"] == labels.tolist()


def test_the_python2_writer_of_these_tests_makes_a_real_pickle(write, batch):
    pixels, labels = batch
    contents = write.python2_pickle(pixels, labels, 10).replace(b"numpy.core.", b"numpy._core.")
    read = pickle.loads(contents, encoding="bytes")
    np.testing.assert_array_equal(read[b"data"], pixels)
    assert read[b"labels"] == labels.tolist()


def test_fortran_order_is_understood(write, batch):
    pixels = np.asfortranarray(batch[0])
    read = unpickle_batch(pickle.dumps({"data": pixels}, protocol=2 + 2), "batch")
    np.testing.assert_array_equal(read["data"], pixels)


class _Runs:
    def __init__(self, function, *arguments):
        self.call = function, arguments

    def __reduce__(self):
        return self.call


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
@pytest.mark.parametrize("function", [os.system, eval, open, getattr])
def test_a_hostile_pickle_runs_nothing(tmp_path, protocol, function):
    victim = tmp_path / "victim"
    contents = pickle.dumps({"data": _Runs(function, f"touch {victim}")}, protocol)
    with pytest.raises(DataError, match=r"evil: not a CIFAR batch \((asks for|uses opcode)"):
        unpickle_batch(contents, "evil")
    assert not victim.exists()


def test_the_name_of_a_hostile_function_is_told():
    contents = pickle.dumps({"data": _Runs(os.system, "true")}, protocol=2)
    with pytest.raises(DataError, match=r"asks for \w+\.system, which no CIFAR file needs"):
        unpickle_batch(contents, "evil")


@pytest.mark.parametrize(
    ("contents", "message"),
    [
        (b"cnumpy\nload\n.", "asks for numpy.load"),
        (b"cnumpy.core.multiarray\nfromstring\n.", "asks for numpy.core.multiarray.fromstring"),
        (b"\x80\x04\x8c\x05numpy\x8c\x0cndarray.data\x93.", "asks for numpy.ndarray.data"),
        (b"cnumpy\ndtype\n(U\x02O8K\x00K\x01tR.", "something else than unsigned bytes"),
        (b"cnumpy\ndtype\n}b.", "alter a name"),
        (b"cnumpy\nndarray\n}U\x05shapeK\x01sb.", "alter a name"),
        (b"cnumpy\nndarray\n(tR.", "TypeError"),
        (b"cnumpy.core.multiarray\n_reconstruct\n(tR(K\x01tb.", "form that CIFAR files do not use"),
        (b"}U\x04datacnumpy.core.multiarray\n_reconstruct\n(tRs.", "AttributeError"),  # not filled
        (b"Pouter\n.", "uses opcode 0x50"),  # objects outside the file
        (b"\x82\x01.", "uses opcode 0x82"),  # registered extensions
        (b"(cnumpy\ndtype\no.", "uses opcode 0x6f"),  # another way to call
        (b"cnumpy\ndtype\n)\x81.", "uses opcode 0x81"),
        (b"].", "holds a list, not a dict"),
        (b"", "damaged"),
        (b"<html>", "uses opcode 0x3c"),
        (b"\x80\x63.", "ValueError"),
    ],
)
def test_what_no_cifar_file_contains_is_refused(contents, message):
    with pytest.raises(DataError, match=rf"file: not a CIFAR batch \(.*{message}") as caught:
        unpickle_batch(contents, "file")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "contents",
    [
        b"}r" + struct.pack("<I", 2**32 - 1) + b".",  # memo slot 4,294,967,295
        b"\x96" + struct.pack("<Q", 2**62) + b".",  # a byte array of exabytes
        b"\x8e" + struct.pack("<Q", 2**62) + b".",
        b"\x8b" + struct.pack("<i", 2**31 - 1) + b".",
        b"\x80\x04\x95" + struct.pack("<Q", 2**62) + b"}.",
        b"(" * 10_000 + b".",
    ],
)
def test_absurd_sizes_cost_nothing(contents):
    with contextlib.suppress(DataError):
        assert unpickle_batch(contents, "file") == {}


def test_every_truncation_is_an_error(write, batch):
    pixels, labels = batch
    contents = write.python2_pickle(pixels[:1], labels[:1], 10)
    cuts = [*range(300), *range(300, len(contents), 97), len(contents) - 1]
    for length in cuts:
        with pytest.raises(DataError, match="cut: not a CIFAR batch"):
            unpickle_batch(contents[:length], "cut")


@settings(deadline=None)
@given(position=st.integers(0, 250), byte=st.integers(0, 255))
def test_a_changed_byte_gives_a_dictionary_or_a_data_error(position, byte):
    contents = bytearray(pickle.dumps({"data": np.zeros((2, 9), np.uint8), "labels": [1, 2]}, 4))
    contents[position % len(contents)] = byte
    with contextlib.suppress(DataError):
        assert isinstance(unpickle_batch(bytes(contents), "file"), dict)
