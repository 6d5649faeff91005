"""Writers of small files in the official formats, and a user's cache that is empty."""

import gzip
import io
import itertools
import pickle
import struct
import tarfile
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from PIL import Image


@pytest.fixture(autouse=True)
def cache(tmp_path_factory, monkeypatch):
    """The per-user cache, somewhere harmless."""
    folder = tmp_path_factory.mktemp("cache")
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder))
    monkeypatch.delenv("SKINNY_DATA", raising=False)
    return folder / "skinny"


def idx_bytes(array, magic=None):
    header = magic or bytes([0, 0, 8, array.ndim])
    return header + struct.pack(f">{array.ndim}I", *array.shape) + array.tobytes()


def mnist(folder, *, train=30, test=20, compress=True, size=28, classes=10, seed=0):
    """Four idx files; returns (train images, train labels, test images, test labels)."""
    random = np.random.default_rng(seed)
    folder.mkdir(parents=True, exist_ok=True)
    arrays = []
    for prefix, n in (("train", train), ("t10k", test)):
        images = random.integers(256, size=(n, size, size), dtype=np.uint8)
        labels = (np.arange(n) % classes).astype(np.uint8)
        for name, array in (("images-idx3", images), ("labels-idx1", labels)):
            path = folder / f"{prefix}-{name}-ubyte"
            contents = idx_bytes(array)
            if compress:
                path.with_name(path.name + ".gz").write_bytes(gzip.compress(contents, mtime=0))
            else:
                path.write_bytes(contents)
        arrays += [images, labels]
    return arrays


def cifar_arrays(n, classes, seed):
    random = np.random.default_rng(seed)
    return (
        random.integers(256, size=(n, 3072), dtype=np.uint8),
        (np.arange(n) % classes).astype(np.uint8),
    )


def cifar_binary(pixels, labels, classes):
    columns = [labels[:, None], pixels]
    if classes == 100:
        columns.insert(0, labels[:, None] // 5)
    return np.concatenate(columns, axis=1).tobytes()


def python2_pickle(pixels, labels, classes):
    """A batch as Python 2 wrote it: protocol 2, byte strings, `numpy.core.multiarray`, a memo."""
    memo = itertools.count(1)

    def put():  # BINPUT, LONG_BINPUT
        slot = next(memo)
        return b"q" + bytes([slot]) if slot < 256 else b"r" + struct.pack("<I", slot)

    def string(value):  # Python 2's str: SHORT_BINSTRING, BINSTRING
        value = value.encode() if isinstance(value, str) else value
        short = len(value) < 256
        return (b"U" + bytes([len(value)]) if short else b"T" + struct.pack("<i", len(value))) + (
            value + put()
        )

    def integer(value):  # BININT1, BININT2, BININT
        if 0 <= value < 65536:
            return b"K" + bytes([value]) if value < 256 else b"M" + struct.pack("<H", value)
        return b"J" + struct.pack("<i", value)

    shape = integer(pixels.shape[0]) + integer(pixels.shape[1]) + b"\x86"
    dtype = b"cnumpy\ndtype\n" + string("u1") + integer(0) + integer(1) + b"\x87R"
    dtype_state = b"(" + integer(3) + string("|") + b"NNN" + integer(-1) + integer(-1)
    dtype_state += integer(0) + b"tb"
    array = b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\n"
    array += integer(0) + b"\x85" + string("b") + b"\x87R"
    array += b"(" + integer(1) + shape + dtype + dtype_state + b"\x89" + string(pixels.tobytes())
    array += b"tb"
    numbers = b"](" + b"".join(integer(int(label)) for label in labels) + b"e"
    names = b"](" + b"".join(string(f"{i}.png") for i in range(len(labels))) + b"e"
    key = "fine_labels" if classes == 100 else "labels"
    items = string("data") + array + string(key) + numbers + string("filenames") + names
    return b"\x80\x02}(" + items + b"u."


def python3_pickle(pixels, labels, classes):
    """The same, as somebody would save a subset today."""
    key = b"fine_labels" if classes == 100 else b"labels"
    return pickle.dumps({b"data": pixels, key: labels.tolist()}, protocol=4)


CIFAR_LAYOUT = {
    (10, "binary"): (
        "cifar-10-batches-bin",
        [f"data_batch_{i}.bin" for i in range(1, 6)],
        ["test_batch.bin"],
        "cifar-10-binary.tar.gz",
    ),
    (10, "python"): (
        "cifar-10-batches-py",
        [f"data_batch_{i}" for i in range(1, 6)],
        ["test_batch"],
        "cifar-10-python.tar.gz",
    ),
    (100, "binary"): ("cifar-100-binary", ["train.bin"], ["test.bin"], "cifar-100-binary.tar.gz"),
    (100, "python"): ("cifar-100-python", ["train"], ["test"], "cifar-100-python.tar.gz"),
}


def cifar(root, classes=10, version="binary", archive=False, per_file=None, encode=None):
    """A small CIFAR below `root`; returns pixels [n, 3072] and labels of the training split."""
    folder, train, test, archive_name = CIFAR_LAYOUT[classes, version]
    encode = encode or (cifar_binary if version == "binary" else python2_pickle)
    per_file = per_file or classes
    files, batches = {}, []
    for seed, name in enumerate(train + test):
        pixels, labels = cifar_arrays(per_file, classes, seed)
        files[f"{folder}/{name}"] = encode(pixels, labels, classes)
        batches.append((pixels, labels))
    root.mkdir(parents=True, exist_ok=True)
    if archive:
        tar_gz(root / archive_name, files)
    else:
        for name, contents in files.items():
            (root / name).parent.mkdir(exist_ok=True)
            (root / name).write_bytes(contents)
    train_batches = batches[: len(train)]
    return np.concatenate([p for p, _ in train_batches]), np.concatenate(
        [y for _, y in train_batches]
    )


def tar_gz(path, files, links=()):
    with tarfile.open(path, "w:gz") as tar:
        for name, target in links:
            link = tarfile.TarInfo(name)
            link.type, link.linkname = tarfile.SYMTYPE, target
            tar.addfile(link)
        for name, contents in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(contents)
            tar.addfile(member, io.BytesIO(contents))


def image_folder(root, *, classes=("cat", "dog"), train=6, test=3, size=(12, 10), suffix=".png"):
    """Class folders of images whose pixels are all different; sizes are (width, height)."""
    random = np.random.default_rng(0)
    for split, n in (("train", train), ("test", test)):
        for name in classes:
            folder = root / split / name
            folder.mkdir(parents=True)
            for i in range(n):
                pixels = random.integers(256, size=(size[1], size[0], 3), dtype=np.uint8)
                Image.fromarray(pixels).save(folder / f"{i:03}{suffix}")
    return Path(root)


@pytest.fixture
def write():
    return SimpleNamespace(
        idx_bytes=idx_bytes,
        mnist=mnist,
        cifar_arrays=cifar_arrays,
        cifar_binary=cifar_binary,
        python2_pickle=python2_pickle,
        python3_pickle=python3_pickle,
        cifar=cifar,
        tar_gz=tar_gz,
        image_folder=image_folder,
        layout=CIFAR_LAYOUT,
    )
