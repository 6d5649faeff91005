import numpy as np
import pytest
import torch

import skinny.data
from skinny.data import DataError, FolderSet, ImageSet, load


def test_digits_need_nothing():
    dataset = load("digits")
    assert dataset.classes == tuple("0123456789")
    assert dataset.channels == 1
    assert dataset.image_size == (8, 8)
    assert len(dataset.train) == 1437
    assert len(dataset.test) == 360


@pytest.mark.parametrize("compress", [True, False])
@pytest.mark.parametrize(("name", "folder"), [("mnist", "mnist"), ("fashion-mnist", "fashion")])
def test_idx_data_sets(tmp_path, write, name, folder, compress):
    images, labels, test_images, test_labels = write.mnist(tmp_path / folder, compress=compress)
    dataset = load(name, data_dir=tmp_path, download=False)
    np.testing.assert_array_equal(dataset.train.images[:, 0].numpy(), images)
    np.testing.assert_array_equal(dataset.train.labels.numpy(), labels)
    np.testing.assert_array_equal(dataset.test.images[:, 0].numpy(), test_images)
    np.testing.assert_array_equal(dataset.test.labels.numpy(), test_labels)
    assert dataset.image_size == (28, 28)


@pytest.mark.parametrize("classes", [10, 100])
@pytest.mark.parametrize("version", ["binary", "python"])
@pytest.mark.parametrize("archive", [False, True])
def test_cifar_data_sets(tmp_path, write, classes, version, archive):
    pixels, labels = write.cifar(tmp_path, classes, version, archive)
    dataset = load(f"cifar{classes}", data_dir=tmp_path, download=False)
    np.testing.assert_array_equal(dataset.train.images.flatten(1).numpy(), pixels)
    np.testing.assert_array_equal(dataset.train.labels.numpy(), labels)
    assert len(dataset.classes) == classes
    assert len(dataset.test) == classes
    assert dataset.channels == 3
    expected = pixels.reshape(-1, 3, 1024).mean((0, 2)) / 255
    np.testing.assert_allclose(dataset.mean, expected)


def test_subsets_saved_by_hand_load_too(tmp_path, write):
    pixels, _ = write.cifar(tmp_path, version="python", per_file=3, encode=write.python3_pickle)
    dataset = load("cifar10", data_dir=tmp_path, download=False)
    np.testing.assert_array_equal(dataset.train.images.flatten(1).numpy(), pixels)


def test_loaded_images_can_be_written_to(tmp_path, write):
    write.mnist(tmp_path)
    load("mnist", data_dir=tmp_path).train.images.add_(1)


def test_the_environment_names_a_folder(tmp_path, write, monkeypatch):
    write.mnist(tmp_path)
    monkeypatch.setenv("SKINNY_DATA", str(tmp_path))
    assert len(load("mnist", download=False).train) == 30


def test_a_damaged_file_is_named(tmp_path, write):
    write.cifar(tmp_path)
    path = tmp_path / "cifar-10-batches-bin" / "data_batch_4.bin"
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(DataError, match=r"data_batch_4.bin: truncated"):
        load("cifar10", data_dir=tmp_path)


def test_an_incomplete_set_that_cannot_be_downloaded_says_both(tmp_path, write):
    write.mnist(tmp_path / "mnist")
    (tmp_path / "mnist" / "t10k-labels-idx1-ubyte.gz").unlink()
    before = sorted(path.name for path in (tmp_path / "mnist").iterdir())
    with pytest.raises(DataError, match=r"incomplete \(t10k-labels.* missing\), and .*remove it"):
        load("mnist", data_dir=tmp_path)
    assert sorted(path.name for path in (tmp_path / "mnist").iterdir()) == before


def test_npz_and_folder_by_path(tmp_path, write):
    images = np.zeros((20, 6, 7, 3), np.uint8)
    np.savez(tmp_path / "a.npz", images=images, labels=np.arange(20) % 2)
    dataset = load(f"npz:{tmp_path / 'a.npz'}")
    assert isinstance(dataset.train, ImageSet)
    assert dataset.image_size == (6, 7)
    write.image_folder(tmp_path / "b")
    dataset = load(f"folder:{tmp_path / 'b'}", crop=8)
    assert isinstance(dataset.train, FolderSet)
    assert dataset.image_size == (8, 8)


@pytest.mark.parametrize("name", ["imagenet", "imagenette"])
def test_photographs_by_name(tmp_path, write, name):
    write.image_folder(tmp_path / name)
    assert load(name, data_dir=tmp_path).image_size == (227, 227)
    assert load(name, data_dir=tmp_path, resize=144, crop=128).image_size == (128, 128)


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("cifar11", {}, "no data set 'cifar11'; known are digits, mnist, .*folder:PATH, npz:PATH"),
        ("folder:", {}, "'folder:' names no path; write folder:PATH"),
        ("npz:", {}, "'npz:' names no path; write npz:PATH"),
        ("npz", {}, "no data set 'npz'"),
        ("digits", {"crop": 7}, "resize and crop are for imagenet, .* not for digits"),
        ("digits", {"train_size": 2000}, "subset of 2000 images.* at most the 1437"),
        ("digits", {"train_size": 9}, "subset of 9 images.* each of the 10 classes"),
        ("imagenette", {}, "imagenette was not found in .*imagenette/train and imagenette/val"),
        ("imagenet", {}, "imagenet was not found in .*imagenet/train and imagenet/val"),
        ("mnist", {"download": False}, "mnist was not found in .*skinny data fetch mnist"),
        ("mnist", {"data_dir": "x" * 5000}, "cannot be read .*too long"),
        ("imagenet", {"data_dir": "x" * 5000}, "cannot be read .*too long"),
        ("folder:" + "x" * 5000, {}, "cannot be read .*too long"),
        ("npz:" + "x" * 5000, {}, "cannot be read .*too long"),
        ("folder:/no/such/place", {}, "/no/such/place: no such folder"),
    ],
)
def test_what_cannot_be_loaded_says_why(name, options, message):
    with pytest.raises(DataError, match=message):
        load(name, **options)


@pytest.mark.parametrize(("size", "counts"), [(50, [5] * 10), (53, [6] * 3 + [5] * 7)])
def test_a_subset_is_balanced_and_has_its_own_mean(size, counts):
    whole, part = load("digits"), load("digits", train_size=size, seed=3)
    assert part.train.labels.bincount().tolist() == counts
    assert part.mean != whole.mean
    assert part.mean[0] == pytest.approx(part.train.images.float().mean().item() / 255)
    assert torch.equal(part.test.images, whole.test.images)
    again = load("digits", train_size=size, seed=3)
    assert torch.equal(part.train.images, again.train.images)


def test_a_subset_of_a_folder_is_balanced(tmp_path, write):
    write.image_folder(tmp_path)
    dataset = load(f"folder:{tmp_path}", train_size=5)
    assert dataset.train.labels.tolist() == [0, 0, 0, 1, 1]


@pytest.mark.parametrize("kind", ["memory", "folder"])
def test_one_loop_serves_both_kinds_of_data(tmp_path, write, kind):
    name = "digits" if kind == "memory" else f"folder:{write.image_folder(tmp_path)}"
    dataset = load(name)
    train = skinny.data.training_batches(dataset, batch_size=4, seed=0, augment="flip", workers=0)
    test = skinny.data.test_batches(dataset, batch_size=4, workers=0)
    assert train.images == len(dataset.train)
    for batches in (train, test):
        images, labels = next(batches.epoch(0))
        assert images.shape == (4, dataset.channels, *dataset.image_size)
        assert images.dtype == torch.float32
        assert labels.dtype == torch.int64
    shown = torch.cat([labels for _, labels in test.epoch(7)])
    assert torch.equal(shown, dataset.test.labels)


def test_training_images_are_normalised_to_zero_and_one():
    batches = skinny.data.training_batches(load("digits"), batch_size=2000, seed=0)
    images, _ = next(batches.epoch(0))
    assert images.mean().abs() < 1e-5
    assert (images.std() - 1).abs() < 1e-3


def test_test_images_are_whitened_by_what_was_learned_from_training_images():
    dataset = load("digits")
    fitted = skinny.data.fit_preprocessing(dataset, whiten=True)
    images, _ = next(skinny.data.test_batches(dataset, batch_size=10, whiten=True).epoch(0))
    torch.testing.assert_close(images, fitted(dataset.test.images[:10]))


def test_a_folder_cannot_be_whitened(tmp_path, write):
    dataset = load(f"folder:{write.image_folder(tmp_path)}")
    with pytest.raises(DataError, match="whitening needs the images in memory"):
        skinny.data.training_batches(dataset, batch_size=2, seed=0, whiten=True)
