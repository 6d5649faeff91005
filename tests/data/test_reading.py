import gzip
import io
import os
import tarfile

import pytest

from skinny.data.errors import DataError
from skinny.data.reading import read_bytes, read_members


def test_a_file_that_unfolds_to_too_much_is_left(tmp_path):
    path = tmp_path / "bomb.gz"
    path.write_bytes(gzip.compress(bytes(5_000_000)))
    assert path.stat().st_size < 10_000
    with pytest.raises(DataError, match=r"bomb.gz: unfolds to more than 4,000,000 bytes"):
        read_bytes(path, limit=4_000_000)
    assert len(read_bytes(path, limit=5_000_000)) == 5_000_000


def test_an_archive_that_unfolds_to_too_much_is_left(tmp_path, write):
    path = tmp_path / "bomb.tar.gz"
    write.tar_gz(path, {"padding": bytes(5_000_000), "wanted": b"x"})
    with pytest.raises(DataError, match=r"bomb.tar.gz: unfolds to more than 4,000,000 bytes"):
        read_members(path, ["wanted"], limit=4_000_000)
    assert read_members(path, ["wanted"]) == {"wanted": b"x"}


def test_only_regular_files_with_exactly_the_name_count(tmp_path, write):
    path = tmp_path / "a.tar.gz"
    secret = tmp_path / "secret"
    secret.write_text("secret")
    write.tar_gz(
        path,
        {
            "../f": b"climbs",
            "/f": b"absolute",
            "x/../f": b"winds",
            "./f": b"right",
            "g/f": b"other",
        },
        links=[("f", str(secret))],
    )
    assert read_members(path, ["f"]) == {"f": b"right"}
    assert sorted(os.listdir(tmp_path)) == ["a.tar.gz", "secret"]


def test_a_link_is_not_a_file(tmp_path, write):
    write.tar_gz(tmp_path / "a.tar.gz", {"other": b""}, links=[("f", "other")])
    with pytest.raises(DataError, match=r"a.tar.gz: the archive does not contain f"):
        read_members(tmp_path / "a.tar.gz", ["f"])


def test_every_truncation_of_an_archive_is_an_error(tmp_path, write):
    whole, cut = tmp_path / "whole.tar.gz", tmp_path / "cut.tar.gz"
    write.tar_gz(whole, {"a/f": os.urandom(700), "a/g": os.urandom(700)})
    contents = whole.read_bytes()
    needed = len(contents) - 60  # what follows the last member is only padding
    for length in range(0, needed, 11):
        cut.write_bytes(contents[:length])
        with pytest.raises(DataError, match=r"cut.tar.gz: "):
            read_members(cut, ["a/f", "a/g"])


def test_a_member_that_promises_more_than_there_is_is_an_error(tmp_path):
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        member = tarfile.TarInfo("f")
        member.size = 10**12
        tar.addfile(member)  # the header alone
    path = tmp_path / "liar.tar.gz"
    path.write_bytes(gzip.compress(buffer.getvalue()))
    with pytest.raises(DataError, match=r"liar.tar.gz: "):
        read_members(path, ["f"])


@pytest.mark.parametrize(
    "contents",
    [b"", b"PK\x03\x04", gzip.compress(b"no tar" * 200)],
    ids=["empty", "zip", "gzip of something else"],
)
def test_what_is_no_archive_says_so(tmp_path, contents):
    (tmp_path / "a.tar.gz").write_bytes(contents)
    with pytest.raises(DataError, match=r"a.tar.gz: "):
        read_members(tmp_path / "a.tar.gz", ["f"])


def test_a_folder_in_place_of_a_file_is_an_error(tmp_path):
    with pytest.raises(DataError, match="cannot be read"):
        read_bytes(tmp_path)
