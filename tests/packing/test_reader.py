import os

import numpy as np
import pytest
from tests.packing import samples

from skinny import packing
from skinny.errors import SkinnyError
from skinny.packing import ChecksumError, FormatError, NotPackedError, VersionError


@pytest.fixture
def path(tmp_path, nothing_small):
    path = tmp_path / "model.skinny"
    packing.write(path, samples.tensors(), graph=samples.GRAPH, labels=samples.LABELS)
    return path


def test_reading_touches_the_header_and_the_tensors_asked_for(tmp_path, monkeypatch):
    path = tmp_path / "large.skinny"
    layer = np.arange(1, 200_001, dtype=np.float32)  # stored dense
    packing.write(path, ((f"layer{i}", layer) for i in range(4)))
    read = []

    def preadv(descriptor, buffers, offset, preadv=os.preadv):
        read.append(preadv(descriptor, buffers, offset))
        return read[-1]

    monkeypatch.setattr(os, "preadv", preadv)
    with packing.open(path) as file:
        assert sum(read) < 10_000
        file.read("layer2")
        assert layer.nbytes <= sum(read) < layer.nbytes + 10_000


def test_a_file_truncated_while_it_is_open_is_an_error(path):
    with packing.open(path) as file:
        begin = file.stored_parts("fc.weight")["values"].begin
        os.truncate(path, begin + 1)
        with pytest.raises(ChecksumError, match=r"model\.skinny: the file has become shorter"):
            file.read("fc.weight")


def test_a_file_overwritten_while_it_is_open_is_an_error(path):
    with packing.open(path) as file:
        before = file.read("fc.weight")
        kept = before.copy()
        data = bytearray(path.read_bytes())
        data[file.stored_parts("fc.weight")["values"].begin] ^= 1
        path.write_bytes(data)
        with pytest.raises(ChecksumError, match=r"'fc\.weight' are damaged"):
            file.read("fc.weight")
        np.testing.assert_array_equal(before, kept)


def test_a_closed_file_says_so(path):
    with packing.open(path) as file:
        pass
    with pytest.raises(SkinnyError, match=r"model\.skinny is closed"):
        file.read("fc.weight")


def test_a_tensor_is_checked_when_it_is_read_and_others_are_not(path):
    data = bytearray(path.read_bytes())
    with packing.open(path) as file:
        place = file.stored_parts("fc.weight")["values"].begin
    data[place + 5] ^= 1
    path.write_bytes(data)
    with packing.open(path) as file:
        file.read("conv.weight")
        with pytest.raises(ChecksumError, match=r"'fc\.weight' are damaged"):
            file.read("fc.weight")
        with pytest.raises(ChecksumError):
            file.verify()


@pytest.mark.parametrize("role", ["rest", "symbols"])
def test_a_large_tensor_is_checked_while_it_is_decoded(tmp_path, rng, role):
    path = tmp_path / "large.skinny"
    weight = rng.standard_normal(800_000).astype(np.float32)
    weight[::2] = 0
    packing.write(path, {"weight": weight})
    data = bytearray(path.read_bytes())
    with packing.open(path) as file:
        assert file.read("weight").any()
        place = file.stored_parts("weight")[role]
    data[(place.begin + place.end) // 2] ^= 4
    path.write_bytes(data)
    with packing.open(path) as file, pytest.raises(ChecksumError, match="'weight' are damaged"):
        file.read("weight")


def test_a_system_without_threads_reads_as_well(tmp_path, rng, monkeypatch):
    def start(self):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr("threading.Thread.start", start)
    layer = rng.standard_normal(1 << 19).astype(np.float32)
    packing.write(tmp_path / "large.skinny", {"layer": layer})
    with packing.open(tmp_path / "large.skinny") as file:
        assert np.array_equal(file.read("layer"), layer)


def test_every_flipped_bit_is_noticed(path):
    """Whatever byte changes: opening or verifying fails, with a named error."""
    good = path.read_bytes()
    for at in range(0, len(good), 7):
        damaged = bytearray(good)
        damaged[at] ^= 1 << at % 8
        path.write_bytes(damaged)
        with pytest.raises(FormatError), packing.open(path) as file:
            file.verify()


def test_every_truncation_is_noticed(path):
    good = path.read_bytes()
    for length in [*range(0, 64), *range(64, len(good), 101), len(good) - 1]:
        path.write_bytes(good[:length])
        with pytest.raises(FormatError):
            packing.open(path)
    path.write_bytes(good[:100])
    with pytest.raises(NotPackedError, match="ends after 100; it may have been cut off"):
        packing.open(path)


def test_errors_name_the_file(path):
    path.write_bytes(path.read_bytes()[:-1])
    said = r"model\.skinny: the parts end at byte .* bytes; it has been cut off"
    with pytest.raises(FormatError, match=said):
        packing.open(path)


def test_a_newer_format_is_told_from_damage(path):
    path.write_bytes(path.read_bytes().replace(b'"skinny":"1"', b'"skinny":"5"', 1))
    with pytest.raises(VersionError, match=r"format '5', this skinny reads formats 1 to 4"):
        packing.open(path)


@pytest.mark.parametrize("content", [b"", b"\x80\x02", b"PK\x03\x04" + b"x" * 100, b"\xff" * 64])
def test_other_files_are_not_packed_models(path, content):
    path.write_bytes(content)
    with pytest.raises(NotPackedError):
        packing.open(path)


def test_plain_safetensors_are_not_packed_models(path):
    from safetensors.numpy import save_file

    save_file({"w": np.ones(3, np.float32)}, path)
    with pytest.raises(NotPackedError, match="a safetensors file, but not a packed model"):
        packing.open(path)


def test_a_missing_file_a_folder_and_a_missing_tensor_are_told(path, tmp_path):
    with pytest.raises(SkinnyError, match=r"cannot open .*No such file"):
        packing.open(tmp_path / "gone")
    os.mkfifo(tmp_path / "pipe")
    for other in (tmp_path, tmp_path / "pipe"):
        with pytest.raises(SkinnyError, match=r"cannot open .*not a file"):
            packing.open(other)
    with (
        packing.open(path) as file,
        pytest.raises(SkinnyError, match=r"no tensor 'x'; it has conv\.weight.* and 12 more"),
    ):
        file.read("x")
