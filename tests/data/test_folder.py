import shutil

import numpy as np
import pytest
import torch
from PIL import Image

from skinny.data.errors import DataError
from skinny.data.folder import IMAGENET_MEAN, find_photographs, load_folder, load_photographs


def test_classes_are_the_sorted_folders_and_files_are_sorted(tmp_path, write):
    write.image_folder(tmp_path, classes=("dog", "ant", "cat"), train=2, test=1)
    dataset = load_folder(tmp_path, name="folder:x")
    assert dataset.classes == ("ant", "cat", "dog")
    assert dataset.train.labels.tolist() == [0, 0, 1, 1, 2, 2]
    names = [str(dataset.train.path(i).relative_to(tmp_path)) for i in range(6)]
    assert names == sorted(names)
    assert names[0] == "train/ant/000.png"
    assert dataset.test.path(2) == tmp_path / "test" / "dog" / "000.png"
    assert dataset.name == "folder:x"


@pytest.mark.parametrize("name", ["test", "val", "validation"])
def test_the_test_folder_has_three_names(tmp_path, write, name):
    write.image_folder(tmp_path)
    (tmp_path / "test").rename(tmp_path / name)
    assert len(load_folder(tmp_path, name="f").test) == 6


@pytest.mark.parametrize(
    ("size", "options", "expected"),
    [
        ((32, 32), {}, (32, 32)),
        ((40, 32), {}, (32, 32)),
        ((300, 260), {}, (256, 227)),
        ((256, 400), {}, (256, 227)),
        ((255, 400), {}, (255, 255)),
        ((32, 32), {"crop": 28}, (32, 28)),
        ((300, 300), {"crop": 224}, (256, 224)),
        ((300, 300), {"crop": 299}, (299, 299)),
        ((32, 32), {"resize": 40}, (40, 40)),
        ((32, 32), {"resize": 256}, (256, 227)),
        ((300, 300), {"resize": 64, "crop": 48}, (64, 48)),
    ],
)
def test_sizes_follow_the_images_unless_they_are_given(tmp_path, write, size, options, expected):
    write.image_folder(tmp_path, train=2, test=1, size=size)
    dataset = load_folder(tmp_path, name="f", **options)
    assert (dataset.train.resize, dataset.train.crop) == expected
    assert (dataset.test.resize, dataset.test.crop) == expected
    assert dataset.image_size == (expected[1], expected[1])
    assert dataset.channels == 3


@pytest.mark.parametrize("options", [{"resize": 20, "crop": 21}, {"crop": 0}, {"resize": -1}])
def test_impossible_sizes_are_errors(tmp_path, write, options):
    write.image_folder(tmp_path, train=1, test=1)
    with pytest.raises(DataError, match="1 <= crop <= resize is needed"):
        load_folder(tmp_path, name="f", **options)


def test_mean_and_deviation_come_from_the_training_images(tmp_path, write):
    write.image_folder(tmp_path, train=20, test=1, size=(10, 10))
    dataset = load_folder(tmp_path, name="f")
    images = [np.asarray(Image.open(dataset.train.path(i))) for i in range(40)]
    np.testing.assert_allclose(dataset.mean, np.mean(images, (0, 1, 2)) / 255)
    np.testing.assert_allclose(dataset.std, np.std(images, (0, 1, 2)) / 255)


def test_other_files_and_hidden_ones_are_passed_over(tmp_path, write):
    write.image_folder(tmp_path, train=1, test=1, suffix=".JPEG")
    (tmp_path / "train" / "cat" / "notes.txt").write_text("")
    (tmp_path / "train" / "cat" / "._000.jpg").write_text("")
    (tmp_path / "train" / ".DS_Store").write_text("")
    (tmp_path / "train" / ".thumbnails").mkdir()
    assert len(load_folder(tmp_path, name="f").train) == 2


def test_a_class_that_is_not_tested_is_a_warning(tmp_path, write):
    write.image_folder(tmp_path)
    shutil.rmtree(tmp_path / "test" / "cat")
    with pytest.warns(UserWarning, match=r"no images of 1 of 2 classes \('cat'"):
        dataset = load_folder(tmp_path, name="f")
    assert dataset.test.labels.tolist() == [1, 1, 1]


def break_train_empty(root):
    shutil.rmtree(root / "train")
    (root / "train").mkdir()


def break_flat(root):
    break_train_empty(root)
    Image.new("RGB", (4, 4)).save(root / "train" / "a.png")


def break_unknown_class(root):
    (root / "test" / "cat").rename(root / "test" / "cow")


def break_empty_class(root):
    (root / "train" / "cow").mkdir()


def break_all_images(root):
    for path in (root / "train").rglob("*.png"):
        path.write_bytes(b"no image")


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (shutil.rmtree, "no such folder"),
        (
            lambda root: shutil.rmtree(root / "train"),
            "needs a folder 'train' and one called 'test'",
        ),
        (lambda root: shutil.rmtree(root / "test"), "needs a folder 'train' and one called 'test'"),
        (break_train_empty, "train: is empty; it needs a folder of images for each class"),
        (break_flat, "train: has images but no class folders"),
        (break_unknown_class, "test: class folder 'cow' is not in .*train"),
        (break_empty_class, "cow: has no .jpg, .jpeg, .png files"),
        (break_all_images, "train: none of its images can be read"),
    ],
)
def test_a_wrong_folder_says_what_is_wrong(tmp_path, write, damage, message):
    root = write.image_folder(tmp_path / "data")
    damage(root)
    with pytest.raises(DataError, match=message):
        load_folder(root, name="f")


@pytest.mark.parametrize(
    ("name", "place"),
    [
        *(("imagenet", place) for place in ("", "imagenet", "ILSVRC2012", "ILSVRC/Data/CLS-LOC")),
        *(("imagenette", place) for place in ("imagenette", "imagenette2", "imagenette2-160")),
    ],
)
def test_photographs_are_found_in_their_usual_places(tmp_path, write, name, place):
    root = tmp_path / place
    write.image_folder(root, classes=("n01440764", "n01443537"), suffix=".JPEG")
    (root / "test").rename(root / "val")
    assert find_photographs(name, [tmp_path / "nowhere", tmp_path]) == root
    dataset = load_photographs(name, root)
    assert dataset.name == name
    assert dataset.classes == ("n01440764", "n01443537")
    assert (dataset.train.resize, dataset.train.crop) == (256, 227)
    assert dataset.mean == IMAGENET_MEAN


def test_imagenets_val_comes_before_its_unlabelled_test(tmp_path, write):
    write.image_folder(tmp_path)
    (tmp_path / "test").rename(tmp_path / "val")
    (tmp_path / "test").mkdir()
    assert load_photographs("imagenet", tmp_path).test.path(0).parts[-3] == "val"


def test_names_that_are_not_utf8_are_kept(tmp_path, write):
    write.image_folder(tmp_path, train=1, test=1)
    odd = tmp_path / "train" / "cat" / "caf\udce9.png"
    try:
        (tmp_path / "train" / "cat" / "000.png").rename(odd)
    except (OSError, UnicodeEncodeError):
        pytest.skip("this file system wants UTF-8")
    dataset = load_folder(tmp_path, name="f")
    assert dataset.train.path(0) == odd


def test_a_subset_takes_files_and_labels_together(tmp_path, write):
    write.image_folder(tmp_path)
    train = load_folder(tmp_path, name="f").train
    taken = train.take(torch.tensor([1, 7]))
    assert [taken.path(0), taken.path(1)] == [train.path(1), train.path(7)]
    assert taken.labels.tolist() == [0, 1]
