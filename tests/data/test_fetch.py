import contextlib
import dataclasses
import hashlib
import http.server
import threading

import pytest

from skinny.data.catalog import MNIST, Download
from skinny.data.errors import DataError
from skinny.data.fetch import fetch, md5_of, watching


class _Handler(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *arguments):
        self.server.requested.append(self.path)


@contextlib.contextmanager
def serving(folder):
    """A web server of a folder; yields its address and the list of what was asked for."""

    def handler(*arguments):
        return _Handler(*arguments, directory=folder)

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        server.requested = []
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/", server.requested
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture
def served(tmp_path, write):
    """A folder with a small MNIST, and the catalogue entry that has its checksums."""
    folder = tmp_path / "served"
    write.mnist(folder)
    downloads = tuple(
        Download(d.file, hashlib.md5((folder / d.file).read_bytes()).hexdigest(), ())
        for d in MNIST.downloads
    )
    return folder, dataclasses.replace(MNIST, downloads=downloads)


def with_mirrors(entry, *mirrors):
    return dataclasses.replace(
        entry, downloads=tuple(dataclasses.replace(d, mirrors=mirrors) for d in entry.downloads)
    )


def test_files_are_downloaded_once_and_then_kept(served, tmp_path):
    folder, entry = served
    with serving(folder) as (address, requested):
        paths = fetch(with_mirrors(entry, address), tmp_path / "new" / "data")
        assert fetch(with_mirrors(entry, address), tmp_path / "new" / "data") == paths
    assert len(requested) == 4
    assert [path.parent for path in paths] == [tmp_path / "new" / "data" / "mnist"] * 4
    assert all(path.read_bytes() == (folder / path.name).read_bytes() for path in paths)
    assert len(list(paths[0].parent.iterdir())) == 4


def test_a_watcher_is_told_of_every_file_from_no_bytes_to_all(served, tmp_path, capfd):
    folder, entry = served
    (folder / entry.downloads[0].file).write_bytes(large := bytes(300_000))
    first = dataclasses.replace(entry.downloads[0], md5=hashlib.md5(large).hexdigest())
    entry = dataclasses.replace(entry, downloads=(first, *entry.downloads[1:]))
    told = []
    with serving(folder) as (address, _), watching(lambda *news: told.append(news)):
        paths = fetch(with_mirrors(entry, address), tmp_path)
    for path in paths:
        size = path.stat().st_size
        of_one = [(done, total) for _, file, done, total in told if file == path]
        assert of_one[0] == (0, 0)
        assert of_one[-1] == (size, size)
        assert of_one.count((size, size)) == 1
        assert of_one == sorted(of_one)
    assert len([news for news in told if news[1] == paths[0]]) == 6  # 0, four chunks, the rest
    assert {news[0] for news in told} == {address + path.name for path in paths}
    assert capfd.readouterr() == ("", "")  # who watches does not want pooch's log as well


def test_the_second_address_is_used_when_the_first_fails(served, tmp_path):
    folder, entry = served
    with serving(folder) as (address, _):
        fetch(with_mirrors(entry, address + "nowhere/", address), tmp_path)
    assert (tmp_path / "mnist" / "t10k-labels-idx1-ubyte.gz").exists()


def test_a_mirror_of_ones_own_takes_the_place_of_the_official_address(served, tmp_path):
    folder, entry = served
    with serving(folder.parent) as (address, requested):
        fetch(with_mirrors(entry, "http://never.invalid/"), tmp_path, mirror=f"{address}served")
    assert requested[0] == "/served/train-images-idx3-ubyte.gz"


def test_a_wrong_checksum_leaves_no_file(served, tmp_path):
    folder, entry = served
    (folder / "t10k-images-idx3-ubyte.gz").write_bytes(b"<html>log in to this network</html>")
    with (
        serving(folder) as (address, _),
        pytest.raises(DataError, match="does not have the published checksum"),
    ):
        fetch(with_mirrors(entry, address), tmp_path)
    assert sorted(path.name for path in (tmp_path / "mnist").iterdir()) == [
        "train-images-idx3-ubyte.gz",
        "train-labels-idx1-ubyte.gz",
    ]


def test_a_failure_names_address_file_checksum_and_where_to_put_it(served, tmp_path):
    folder, entry = served
    (folder / "train-images-idx3-ubyte.gz").unlink()
    with serving(folder) as (address, _), pytest.raises(DataError) as caught:
        fetch(with_mirrors(entry, address), tmp_path)
    assert str(caught.value) == (
        f"cannot download {address}train-images-idx3-ubyte.gz (HTTP status 404);"
        f" get train-images-idx3-ubyte.gz (MD5 {entry.downloads[0].md5}) by other means and put it"
        f" at {tmp_path / 'mnist' / 'train-images-idx3-ubyte.gz'}"
    )


def test_no_connection_is_one_sentence(served, tmp_path):
    folder, entry = served
    with serving(folder) as (address, _):
        pass  # nobody listens there any more
    with pytest.raises(DataError, match=r"cannot download .* \(no connection\); get") as caught:
        fetch(with_mirrors(entry, address), tmp_path)
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "mnist").exists()


def test_a_file_of_the_users_own_is_never_overwritten(served, tmp_path):
    folder, entry = served
    own = tmp_path / "mnist" / "train-labels-idx1-ubyte.gz"
    own.parent.mkdir()
    own.write_bytes(b"a subset made by hand")
    with serving(folder) as (address, _), pytest.raises(DataError, match="remove it to download"):
        fetch(with_mirrors(entry, address), tmp_path)
    assert own.read_bytes() == b"a subset made by hand"


def test_a_folder_that_cannot_be_made_is_an_error(served, tmp_path):
    folder, entry = served
    (tmp_path / "file").write_text("")
    with serving(folder) as (address, _), pytest.raises(DataError, match="cannot download"):
        fetch(with_mirrors(entry, address), tmp_path / "file")


def test_md5_is_that_of_the_contents(tmp_path):
    (tmp_path / "f").write_bytes(b"abc")
    assert md5_of(tmp_path / "f") == "900150983cd24fb0d6963f7d28e17f72"
