import pickle

import numpy as np
import pytest

from skinny.data.cifar import read_archive, read_files
from skinny.data.errors import DataError


@pytest.mark.parametrize("classes", [10, 100])
@pytest.mark.parametrize("version", ["binary", "python"])
def test_pixels_are_planes_and_labels_are_the_fine_ones(tmp_path, write, classes, version):
    pixels, labels = write.cifar(tmp_path, classes, version)
    folder, train, _, _ = write.layout[classes, version]
    paths = tuple(tmp_path / folder / name for name in train)
    images, numbers = read_files(paths, version, classes)
    assert images.dtype == np.uint8
    assert numbers.dtype == np.int64
    np.testing.assert_array_equal(images, pixels.reshape(-1, 3, 32, 32))
    np.testing.assert_array_equal(numbers, labels)


@pytest.mark.parametrize("classes", [10, 100])
@pytest.mark.parametrize("version", ["binary", "python"])
def test_an_archive_reads_like_its_files(tmp_path, write, classes, version):
    pixels, labels = write.cifar(tmp_path, classes, version, archive=True)
    folder, train, test, archive = write.layout[classes, version]
    members = tuple(tuple(f"{folder}/{name}" for name in names) for names in (train, test))
    (images, numbers), (test_images, _) = read_archive(
        tmp_path / archive, members, version, classes
    )
    np.testing.assert_array_equal(images, pixels.reshape(-1, 3, 32, 32))
    np.testing.assert_array_equal(numbers, labels)
    assert len(test_images) == classes
    assert [path.name for path in tmp_path.iterdir()] == [archive]


def record(label, coarse=None):
    return (b"" if coarse is None else bytes([coarse])) + bytes([label]) + bytes(3072)


@pytest.mark.parametrize(
    ("contents", "classes", "message"),
    [
        (record(3)[:-1], 10, "truncated or not a CIFAR-10 batch, 3,072 bytes.*3073-byte records"),
        (record(3) + b"x", 10, "truncated or not a CIFAR-10 batch, 3,074 bytes"),
        (record(3), 100, "truncated or not a CIFAR-100 batch"),
        (record(3) + record(10), 10, "label 10 is not one of 0 to 9"),
        (record(100, coarse=3), 100, "label 100 is not one of 0 to 99"),
        (record(99, coarse=20), 100, "coarse label 20 is not one of 0 to 19"),
        (b"", 10, "holds no images"),
    ],
)
def test_a_wrong_binary_file_says_what_is_wrong(tmp_path, contents, classes, message):
    (tmp_path / "batch.bin").write_bytes(contents)
    with pytest.raises(DataError, match=f"batch.bin: {message}"):
        read_files((tmp_path / "batch.bin",), "binary", classes)


ROWS = np.zeros((2, 3072), np.uint8)


@pytest.mark.parametrize(
    ("batch", "message"),
    [
        ({"data": ROWS}, "it has no 'labels' among its keys data"),
        ({"labels": [1, 2]}, "it has no 'data'"),
        ({"data": ROWS, "fine_labels": [1, 2]}, "it has no 'labels'"),
        ({"data": ROWS, "labels": [1]}, "1 labels for 2 images"),
        ({"data": ROWS, "labels": [1, 10]}, "label 10 is not one of 0 to 9"),
        ({"data": ROWS, "labels": [1, -1]}, "label -1 is not one of 0 to 9"),
        ({"data": ROWS, "labels": [1, 10**30]}, "'labels' is not a list of class numbers"),
        ({"data": ROWS, "labels": [1, "2"]}, "'labels' is not a list of class numbers"),
        ({"data": ROWS, "labels": "12"}, "'labels' is not a list of class numbers"),
        (
            {"data": ROWS[:, :-1], "labels": [1, 2]},
            r"rows of 3072 bytes but an array .*\(2, 3071\)",
        ),
        (
            {"data": ROWS[0], "labels": [1, 2]},
            r"rows of 3072 bytes but an array of shape \(3072,\)",
        ),
        ({"data": [1, 2], "labels": [1, 2]}, "rows of 3072 bytes but a list"),
        ({"data": ROWS[:0], "labels": []}, "holds no images"),
    ],
)
def test_a_wrong_python_file_says_what_is_wrong(tmp_path, batch, message):
    (tmp_path / "batch").write_bytes(pickle.dumps(batch, protocol=4))
    with pytest.raises(DataError, match=f"batch: .*{message}"):
        read_files((tmp_path / "batch",), "python", 10)


def test_an_error_in_an_archive_names_archive_and_member(tmp_path, write):
    write.tar_gz(tmp_path / "a.tar.gz", {"c/train": b"cos\nsystem\n(S'true'\ntR."})
    with pytest.raises(DataError, match=r"a.tar.gz: c/train: .*asks for os.system"):
        read_archive(tmp_path / "a.tar.gz", (("c/train",),), "python", 100)
