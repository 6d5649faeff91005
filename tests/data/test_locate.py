import sys
from pathlib import Path

import pytest

from skinny.data.catalog import CIFAR10, CIFAR100, FASHION_MNIST, MNIST, OFFICIAL
from skinny.data.errors import DataError
from skinny.data.locate import cache_folder, find, require, search_path


def test_the_search_order_is_given_then_environment_then_cache(monkeypatch, tmp_path):
    assert search_path() == [cache_folder()]
    monkeypatch.setenv("SKINNY_DATA", str(tmp_path / "env"))
    assert search_path(tmp_path / "given") == [
        tmp_path / "given",
        tmp_path / "env",
        cache_folder(),
    ]
    assert search_path(tmp_path / "env") == [tmp_path / "env", cache_folder()]


@pytest.mark.skipif(sys.platform != "linux", reason="the cache has another place elsewhere")
def test_the_cache_is_where_linux_keeps_caches(cache):
    assert cache_folder() == cache


def test_a_tilde_is_the_home_folder():
    assert search_path("~/data")[0] == Path.home() / "data"


@pytest.mark.parametrize("compress", [True, False])
@pytest.mark.parametrize("folder", ["", "mnist", "MNIST/raw", "MNIST"])
def test_mnist_is_found_in_its_usual_folders(tmp_path, write, folder, compress):
    write.mnist(tmp_path / folder, compress=compress)
    found = require(MNIST, [tmp_path])
    assert found.folder == tmp_path / folder
    assert found.form == ("idx.gz" if compress else "idx")
    assert tuple(found.files) == MNIST.files


def test_files_may_be_compressed_or_not_one_by_one_and_dotted(tmp_path, write):
    write.mnist(tmp_path)
    for path in list(tmp_path.glob("train-*")):
        path.unlink()
    write.mnist(tmp_path / "plain", compress=False)
    for path in (tmp_path / "plain").glob("train-*"):
        path.rename(tmp_path / path.name.replace("-idx", ".idx"))
    assert require(MNIST, [tmp_path]).form == "idx and idx.gz"


@pytest.mark.parametrize("folder", ["fashion-mnist", "FashionMNIST/raw", "fashion"])
def test_fashion_mnist_is_found_in_its_usual_folders(tmp_path, write, folder):
    write.mnist(tmp_path / folder)
    assert require(FASHION_MNIST, [tmp_path]).folder == tmp_path / folder


def test_mnist_and_fashion_are_not_taken_for_each_other(tmp_path, write):
    write.mnist(tmp_path / "mnist")
    write.mnist(tmp_path / "fashion")
    assert find(FASHION_MNIST, [tmp_path / "mnist"]) is None
    assert find(MNIST, [tmp_path / "fashion"]) is None
    assert find(FASHION_MNIST, [tmp_path / "fashion"]).complete


@pytest.mark.parametrize("entry", [CIFAR10, CIFAR100], ids=lambda entry: entry.name)
@pytest.mark.parametrize("version", ["binary", "python"])
@pytest.mark.parametrize("archive", [False, True])
@pytest.mark.parametrize("folder", ["", "cifar{}", "cifar-{}"])
def test_cifar_is_found_in_every_form(tmp_path, write, entry, version, archive, folder):
    classes = len(entry.classes)
    root = tmp_path / folder.format(classes)
    write.cifar(root, classes, version, archive)
    found = require(entry, [tmp_path])
    assert found.form == version + " archive" * archive
    assert found.folder == (root if archive else root / write.layout[classes, version][0])


def test_the_folder_given_may_be_the_innermost_one(tmp_path, write):
    write.cifar(tmp_path)
    assert require(CIFAR10, [tmp_path / "cifar-10-batches-bin"]).form == "binary"


def test_imagenet_folders_are_not_taken_for_cifar100(tmp_path):
    (tmp_path / "train").write_bytes(b"")
    (tmp_path / "test").write_bytes(b"")
    assert find(CIFAR100, [tmp_path]) is None


def test_extracted_files_come_before_archives_and_binary_before_python(tmp_path, write):
    order = [("python", True), ("binary", True), ("python", False), ("binary", False)]
    for version, archive in order:
        write.cifar(tmp_path, version=version, archive=archive)
        assert require(CIFAR10, [tmp_path]).form == version + " archive" * archive


def test_the_first_folder_with_all_files_wins(tmp_path, write):
    write.mnist(tmp_path / "partial")
    (tmp_path / "partial" / "t10k-labels-idx1-ubyte.gz").unlink()
    write.mnist(tmp_path / "whole")
    folders = [tmp_path / "absent", tmp_path / "partial", tmp_path / "whole"]
    assert require(MNIST, folders).folder == tmp_path / "whole"


def test_what_is_missing_is_named(tmp_path, write):
    write.mnist(tmp_path)
    (tmp_path / "t10k-labels-idx1-ubyte.gz").unlink()
    with pytest.raises(DataError, match=r"incomplete: t10k-labels-idx1-ubyte\[.gz\] missing"):
        require(MNIST, [tmp_path])
    write.cifar(tmp_path)
    (tmp_path / "cifar-10-batches-bin" / "data_batch_3.bin").unlink()
    with pytest.raises(DataError, match=r"cifar-10-batches-bin is incomplete: data_batch_3.bin"):
        require(CIFAR10, [tmp_path])


@pytest.mark.parametrize("entry", OFFICIAL.values(), ids=lambda entry: entry.name)
def test_nothing_at_all_says_where_it_was_looked_for_and_what_to_do(tmp_path, entry):
    with pytest.raises(DataError) as caught:
        require(entry, [tmp_path / "a", tmp_path / "b"])
    message = str(caught.value)
    assert f"not found in {tmp_path / 'a'}, {tmp_path / 'b'}" in message
    assert f"skinny data fetch {entry.name}" in message
    assert entry.downloads[0].file in message


@pytest.mark.parametrize("entry", OFFICIAL.values(), ids=lambda entry: entry.name)
def test_the_catalogue_has_the_classes_and_whole_checksums(entry):
    assert len(set(entry.classes)) == (100 if entry is CIFAR100 else 10)
    checksums = [download.md5 for download in entry.downloads]
    if entry in (MNIST, FASHION_MNIST):
        checksums += entry.md5.values()
        assert set(entry.plain_md5) == set(entry.files)
    else:
        for form in entry.forms:
            checksums += [form.archive_md5, *form.md5.values()]
            assert set(form.md5) == {*form.train, *form.test}
    assert all(len(bytes.fromhex(md5)) == 16 for md5 in checksums)
