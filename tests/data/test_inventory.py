import dataclasses

import pytest

from skinny.data import catalog, inventory
from skinny.data.fetch import md5_of
from skinny.data.inventory import list_data, verify


@pytest.mark.parametrize("archive", [False, True])
def test_checksums_are_those_of_what_load_would_read(tmp_path, write, monkeypatch, archive):
    write.cifar(tmp_path, archive=archive)
    entry = catalog.CIFAR10
    form = entry.forms[0]
    if archive:
        form = dataclasses.replace(form, archive_md5=md5_of(tmp_path / form.archive))
    else:
        folder = tmp_path / form.folder
        form = dataclasses.replace(form, md5={n: md5_of(folder / n) for n in form.md5})
    entry = dataclasses.replace(entry, forms=(form, *entry.forms[1:]))
    monkeypatch.setitem(inventory.OFFICIAL, "cifar10", entry)
    checks = verify(data_dir=tmp_path)
    assert [check.verdict for check in checks] == ["ok"] * (1 if archive else 6)


@pytest.mark.parametrize("compress", [True, False])
def test_idx_files_are_compared_in_the_form_they_have(tmp_path, write, compress):
    write.mnist(tmp_path, compress=compress)
    published = {check.published for check in verify(("mnist",), tmp_path)}
    gz = {download.md5 for download in catalog.MNIST.downloads}
    assert published == (gz if compress else set(catalog.MNIST.plain_md5.values()))


@pytest.mark.parametrize("name", ["imagenet", "imagenette"])
def test_photographs_are_listed_where_they_are(tmp_path, write, name):
    write.image_folder(tmp_path / name)
    (listing,) = [item for item in list_data(tmp_path) if item.name == name]
    assert listing.folder == str(tmp_path / name)
    assert listing.complete
