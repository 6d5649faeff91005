import os
import stat

import pytest

from skinny.files import atomic_write


def test_the_new_file_replaces_the_old_one(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("old")
    with atomic_write(path, "w") as file:
        file.write("new")
        assert path.read_text() == "old"
    assert path.read_text() == "new"


def test_a_failed_write_keeps_the_old_file_and_leaves_no_litter(tmp_path):
    path = tmp_path / "a.bin"
    path.write_bytes(b"old")
    with pytest.raises(ZeroDivisionError), atomic_write(path) as file:
        file.write(b"half")
        raise ZeroDivisionError
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["a.bin"]


@pytest.mark.parametrize("mask", [0o000, 0o022, 0o077])
def test_writing_respects_the_umask_and_never_touches_it(tmp_path, mask, monkeypatch):
    before = os.umask(mask)
    try:
        with monkeypatch.context() as patched:
            patched.setattr(os, "umask", lambda mask: pytest.fail("the umask was changed"))
            with atomic_write(tmp_path / "file") as file:
                file.write(b"x")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "file").stat().st_mode) == 0o666 & ~mask


def test_a_name_that_is_taken_is_not_written_over(tmp_path, monkeypatch):
    tokens = iter(["one", "two"])
    monkeypatch.setattr("secrets.token_hex", lambda size: next(tokens))
    (tmp_path / ".a.one.tmp").write_bytes(b"another's")
    with atomic_write(tmp_path / "a") as file:
        file.write(b"ours")
    assert (tmp_path / ".a.one.tmp").read_bytes() == b"another's"
    assert (tmp_path / "a").read_bytes() == b"ours"


def test_the_file_has_ordinary_permissions(tmp_path):
    with atomic_write(tmp_path / "atomic") as file:
        file.write(b"x")
    (tmp_path / "plain").write_bytes(b"x")
    modes = {stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("atomic", "plain")}
    assert len(modes) == 1
