import numpy as np
import pytest

from skinny.data import npz
from skinny.data.errors import DataError
from skinny.data.npz import load_npz

X = np.random.default_rng(0).integers(256, size=(12, 5, 6, 3), dtype=np.uint8)
Y = np.arange(12) % 3


def save(tmp_path, **arrays):
    path = tmp_path / "data.npz"
    np.savez(path, **arrays)
    return path


def parts(**changes):
    return {"x_train": X, "y_train": Y, "x_test": X[:4], "y_test": Y[:4]} | changes


def test_both_parts_come_back(tmp_path):
    train, test, classes = load_npz(save(tmp_path, **parts()))
    np.testing.assert_array_equal(train.images.numpy(), X.transpose(0, 3, 1, 2))
    assert train.labels.tolist() == Y.tolist()
    assert len(test) == 4
    assert classes == ("0", "1", "2")


def test_one_part_is_split_into_four_fifths_and_a_stratified_fifth(tmp_path):
    images = np.arange(30, dtype=np.uint8)[:, None, None] * np.ones((1, 2, 2), np.uint8)
    path = save(tmp_path, images=images, labels=np.arange(30) % 3)
    train, test, _ = load_npz(path)
    assert test.labels.bincount().tolist() == [2, 2, 2]
    seen = sorted([*train.images[:, 0, 0, 0].tolist(), *test.images[:, 0, 0, 0].tolist()])
    assert seen == list(range(30))
    assert test.labels.tolist() == (test.images[:, 0, 0, 0] % 3).tolist()
    assert load_npz(path)[1].images.equal(test.images)


@pytest.mark.parametrize(
    ("shape", "layout", "expected"),
    [
        ((12, 5, 6), None, (1, 5, 6)),
        ((12, 5, 6, 1), None, (1, 5, 6)),
        ((12, 5, 6, 3), None, (3, 5, 6)),
        ((12, 3, 5, 6), None, (3, 5, 6)),
        ((12, 1, 5, 6), None, (1, 5, 6)),
        ((12, 3, 5, 3), "NCHW", (3, 5, 3)),
        ((12, 3, 5, 3), "NHWC", (3, 3, 5)),
    ],
)
def test_layouts_become_channels_first(tmp_path, shape, layout, expected):
    x = np.zeros(shape, np.uint8)
    extra = {} if layout is None else {"layout": np.array(layout)}
    train, _, _ = load_npz(save(tmp_path, **parts(x_train=x, x_test=x[:4]), **extra))
    assert tuple(train.images.shape[1:]) == expected
    assert train.images.is_contiguous()


def test_class_names_and_column_labels_are_understood(tmp_path):
    names = np.array(["cat", "dog", "eel"])
    _, _, classes = load_npz(save(tmp_path, **parts(y_train=Y[:, None]), classes=names))
    assert classes == ("cat", "dog", "eel")


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"x_train": X}, "needs the arrays x_train, y_train, x_test, y_test, or images and labels"),
        ({"other": X}, "it has none"),
        (parts(x_train=X / 255), "x_train is float64 and must be uint8"),
        (parts(x_train=X.astype(np.int64)), "x_train is int64 and must be uint8"),
        (parts(y_train=Y / 1.0), "y_train must be integers of shape"),
        (parts(y_train=np.eye(12, dtype=int)), r"y_train must be integers .* \[12, 12\]"),
        (parts(y_train=Y[:-1]), "12 images in x_train and 11 labels in y_train"),
        (parts(y_train=Y - 1), "y_train has the label -1"),
        (parts(y_train=Y * 2), "go up to 4 but no training image has label 1"),
        (parts(y_train=np.where(Y == 2, 10**9, Y)), "no training image has label 2"),
        (parts(y_test=Y[:4] + 2), "test label 4 does not occur in training"),
        (parts(x_test=X[:4, :4]), "3 x 5 x 6 and those of x_test 3 x 4 x 6"),
        (parts(x_train=X[:0], y_train=Y[:0]), "0 images in x_train"),
        (parts(x_train=X[:, :0]), "x_train is empty"),
        (parts(x_train=X[0]), "5 images in x_train and 12 labels"),
        (parts(x_train=X[..., :2]), "has no axis of 1 or 3 channels"),
        (parts(x_train=X[:, :3]), "can be read as NHWC and as NCHW"),
        (parts(layout=np.array("NCHW")), "no axis of 1 or 3 channels in the layout 'NCHW'"),
        (parts(classes=np.array(["a"])), r"'classes' has the shape \[1\] and 3 classes"),
        ({"images": X[:3], "labels": Y[:3]}, "3 images are too few"),
    ],
)
def test_a_wrong_file_says_what_is_wrong(tmp_path, arrays, message):
    with pytest.raises(DataError, match=rf"data.npz: .*{message}"):
        load_npz(save(tmp_path, **arrays))


def test_pickled_objects_are_refused(tmp_path):
    path = save(tmp_path, **parts(y_train=np.array([{}] * 12, dtype=object)))
    with pytest.raises(DataError, match=r"data.npz: .*pickle"):
        load_npz(path)


def test_every_truncation_is_an_error(tmp_path):
    whole = save(tmp_path, **parts()).read_bytes()
    path = tmp_path / "cut.npz"
    for length in [*range(0, len(whole), 37), len(whole) - 1]:
        path.write_bytes(whole[:length])
        with pytest.raises(DataError, match=r"cut.npz: "):
            load_npz(path)


def test_a_file_that_unfolds_to_too_much_is_left(tmp_path, monkeypatch):
    path = tmp_path / "bomb.npz"
    np.savez_compressed(path, images=np.zeros((100, 100, 100), np.uint8), labels=np.arange(100))
    assert path.stat().st_size < 20_000
    monkeypatch.setattr(npz, "LIMIT", 900_000)
    with pytest.raises(DataError, match=r"bomb.npz: unfolds to 1,00\d,\d+ bytes"):
        load_npz(path)


def test_a_header_that_promises_terabytes_is_an_error(tmp_path):
    path = save(tmp_path, **parts())
    contents = path.read_bytes()
    assert contents.count(b"(12, 5, 6, 3), ") == 1
    path.write_bytes(contents.replace(b"(12, 5, 6, 3), ", b"(9999999, 9999)"))
    with pytest.raises(DataError, match=r"data.npz: "):
        load_npz(path)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(DataError, match=r"nothing.npz: no such file"):
        load_npz(tmp_path / "nothing.npz")
