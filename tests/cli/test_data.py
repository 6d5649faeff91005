import gzip
import json
import struct
import subprocess
import sys

import pytest

from skinny.cli.command_line import parse
from skinny.cli.data import Data, run
from skinny.data import DataError


@pytest.fixture(autouse=True)
def no_cache(tmp_path_factory, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
    monkeypatch.delenv("SKINNY_DATA", raising=False)


@pytest.fixture
def folder(tmp_path):
    """A data folder with a small MNIST in it."""
    (tmp_path / "mnist").mkdir()
    for name, sizes in (("images-idx3", (2, 28, 28)), ("labels-idx1", (2,))):
        header = bytes([0, 0, 8, len(sizes)]) + struct.pack(f">{len(sizes)}I", *sizes)
        contents = gzip.compress(header + bytes(sizes[0] * (784 if len(sizes) == 3 else 1)))
        for split in ("train", "t10k"):
            (tmp_path / "mnist" / f"{split}-{name}-ubyte.gz").write_bytes(contents)
    return tmp_path


def do(*words):
    return run(parse(Data, [str(word) for word in words], "skinny data"))


def test_without_a_word_it_lists_what_is_there(folder, capsys):
    assert do("--data-dir", folder) == 0
    lines = capsys.readouterr().out.splitlines()
    rows = {line.split()[0]: line for line in lines if line.split()}
    assert "complete" in rows["digits"]
    assert f"{folder / 'mnist'}" in rows["mnist"]
    assert "idx.gz" in rows["mnist"]
    assert "not found" in rows["cifar100"]
    assert rows["searched:"].startswith(f"searched: {folder}, ")


def test_an_incomplete_data_set_says_what_is_missing(folder, capsys):
    (folder / "mnist" / "t10k-labels-idx1-ubyte.gz").unlink()
    do("list", "--data-dir", folder)
    assert "incomplete: t10k-labels-idx1-ubyte[.gz] missing" in capsys.readouterr().out


def test_the_list_as_json(folder, capsys):
    assert do("list", "--json", "--data-dir", folder) == 0
    listing = {item["name"]: item for item in json.loads(capsys.readouterr().out)}
    official = ["mnist", "fashion-mnist", "cifar10", "cifar100"]
    assert list(listing) == ["digits", *official, "imagenet", "imagenette"]
    assert listing["mnist"] == {
        "name": "mnist",
        "folder": str(folder / "mnist"),
        "form": "idx.gz",
        "complete": True,
        "missing": [],
    }
    assert listing["imagenet"]["folder"] is None


def test_verifying_files_that_are_not_the_published_ones_fails(folder, capsys):
    assert do("verify", "--json", "--data-dir", folder) == 1
    checks = json.loads(capsys.readouterr().out)
    assert [check["verdict"] for check in checks] == ["different"] * 4
    assert checks[0]["published"] == "f68b3c2dcbeaaa9fbdd348bbdeb94873"
    assert do("verify", "mnist", "--data-dir", folder) == 1
    assert "is not the published f68b3c2dcbeaaa9fbdd348bbdeb94873" in capsys.readouterr().out


def test_verifying_nothing_is_fine_but_a_name_must_be_there(tmp_path):
    assert do("verify", "--data-dir", tmp_path) == 0
    with pytest.raises(DataError, match="cifar10 was not found in"):
        do("verify", "cifar10", "--data-dir", tmp_path)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["fetch"], "say what to fetch"),
        (["fetch", "imagenet"], "'imagenet' has no official files"),
        (["verify", "digits"], "'digits' has no official files; those that have are mnist"),
        (
            ["fetch", "cifar10", "--mirror", "http://127.0.0.1:9/"],
            "cannot download http://127.0.0.1",
        ),
    ],
)
def test_what_cannot_be_done_is_one_sentence(tmp_path, words, message):
    with pytest.raises(DataError, match=message) as caught:
        do(*words, "--data-dir", tmp_path)
    assert "\n" not in str(caught.value)


def test_the_command_is_described_without_loading_torch():
    code = "import skinny.cli.data, sys; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
