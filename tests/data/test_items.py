"""Data sets of the user's own: any `torch.utils.data.Dataset`, from a function that is named."""

import dataclasses
import random
import re

import numpy as np
import pytest
import torch
from PIL import Image
from torch.utils.data import Dataset, IterableDataset, Subset, TensorDataset

from skinny import data
from skinny.data import DataError, ImageSet, ItemSet, Share
from skinny.data.items import make_dataset
from skinny.errors import SkinnyError

N = 20
PIXELS = torch.randint(0, 256, (N, 3, 6, 5), dtype=torch.uint8)
FLOATS = PIXELS / 255  # none of which is read before training
LABELS = torch.arange(N) % 4


class Listed(Dataset):
    """Items from a list; `facts` become attributes."""

    def __init__(self, items, **facts):
        self.items = list(items)
        vars(self).update(facts)

    def __len__(self):
        return len(self.items)

    def __getitem__(self, index):
        return self.items[index]


def listed(images, labels=LABELS, **facts):
    return Listed(zip(images, labels, strict=True), **facts)


def hwc(image):
    return image.permute(1, 2, 0).numpy()


FORMS = {
    "tensors": listed(PIXELS),
    "labels that are numbers": listed(PIXELS, LABELS.tolist()),
    "labels of NumPy": listed(PIXELS, LABELS.numpy()),
    "arrays": listed([hwc(image) for image in PIXELS]),
    "Pillow images": listed([Image.fromarray(hwc(image)) for image in PIXELS]),
    "a subset": Subset(listed([*PIXELS, PIXELS[0]], [*LABELS, 0], targets=[*LABELS, 0]), range(N)),
    "in memory": TensorDataset(PIXELS, LABELS),
}


@pytest.mark.parametrize("form", FORMS)
def test_images_in_any_form_become_the_same_batches(form):
    dataset = make_dataset("mine", FORMS[form], TensorDataset(PIXELS[:4], LABELS[:4]))
    assert isinstance(dataset.train, ImageSet if form == "in memory" else ItemSet)
    assert (dataset.channels, dataset.image_size, dataset.classes) == (3, (6, 5), tuple("0123"))
    expected = dataclasses.replace(dataset, train=ImageSet(PIXELS, LABELS))
    for augment in ("none", "flip-crop"):
        options = {"batch_size": 8, "seed": 3, "augment": augment, "workers": 0}
        batches, others = (data.training_batches(d, **options) for d in (dataset, expected))
        for (x, y), (x_other, y_other) in zip(batches.epoch(1), others.epoch(1), strict=True):
            assert torch.equal(x, x_other)
            assert torch.equal(y, y_other)


def test_floats_are_taken_as_they_come():
    prepared = torch.randn(N, 2, 4, 4, dtype=torch.float64)
    dataset = make_dataset("mine", listed(prepared), None)
    assert dataset.prepared
    assert (len(dataset.train), len(dataset.test), dataset.channels) == (16, 4, 2)
    (x, y), *_ = data.test_batches(dataset, batch_size=8, workers=0).epoch(0)
    assert torch.equal(x, prepared.float()[dataset.test.numbers])
    assert torch.equal(y, LABELS[dataset.test.numbers])


def test_grey_images_have_one_channel_and_classes_their_names():
    names = ["bee", "cat", "dog", "elk"]
    dataset = make_dataset("mine", listed(PIXELS[:, 0], classes=names), None)
    assert (dataset.channels, dataset.classes) == (1, tuple(names))


class Jittered(Listed):
    """A transform that draws from every generator there is."""

    targets = LABELS

    def __getitem__(self, index):
        noise = torch.rand(3) + random.random() + np.random.rand()
        return self.items[index] * noise[:, None, None], LABELS[index]


def test_random_transforms_depend_on_seed_epoch_and_image_alone():
    items = Jittered(PIXELS.float())
    dataset = make_dataset("mine", items, items)

    def images(epoch, share, start=0, workers=0):
        batches = data.training_batches(dataset, batch_size=5, seed=7, share=share, workers=workers)
        return [x for x, _ in batches.epoch(epoch, start)]

    states = torch.get_rng_state(), random.getstate(), np.random.get_state()[1].tolist()
    whole = images(2, Share())
    now = torch.get_rng_state(), random.getstate(), np.random.get_state()[1].tolist()
    assert torch.equal(now[0], states[0])  # training's own random numbers are left alone
    assert now[1:] == states[1:]
    halves = zip(images(2, Share(0, 2)), images(2, Share(1, 2)), strict=True)
    assert all(map(torch.equal, whole, map(torch.cat, halves)))
    assert all(map(torch.equal, whole[2:], images(2, Share(), start=2, workers=1)))
    assert not torch.equal(whole[0], images(3, Share())[0])


class Endless(IterableDataset):
    def __iter__(self):
        yield PIXELS[0], 0


class Breaks(Listed):
    def __getitem__(self, index):
        raise ValueError("no such file")


WRONG = {
    "is empty": listed([], []),
    "is a Endless; a torch.utils.data.Dataset with a length": Endless(),
    "is a set; a torch.utils.data.Dataset": {0},
    "item 0 of the training split of mine failed: ValueError: no such file": Breaks([1, 2]),
    "item 0 of the training split of mine is a dict; a pair": Listed([{"image": 1}]),
    "item 0 of .* has a str for an image": listed(["a.png"], [0]),
    "is an image of torch.uint8 [6]; uint8 or float": listed(PIXELS[:, 0, :, 0]),
    "is an image of torch.int64 [3, 6, 5]": listed(PIXELS.long()),
    "is an image of torch.uint8 [3, 0, 5]": listed(PIXELS[:, :, :0]),
    "has the label 'cat'; a whole number": listed(PIXELS[:1], ["cat"]),
    "has the label 0.5": listed(PIXELS[:1], [0.5]),
    "item 1 of .* has the label -1": listed(PIXELS[:2], [0, -1]),
    "labels go up to 3 but no training image has label 1": listed(PIXELS[:2], [0, 3]),
    "there is a label 3, and 2 classes": listed(PIXELS, classes=["a", "b"]),
    "has 20 items and 2 labels": listed(PIXELS, targets=[0, 1]),
    "3 images are too few to set a fifth apart": listed(PIXELS[:3], [0, 1, 2]),
}


@pytest.mark.parametrize("complaint", WRONG)
def test_what_is_wrong_is_one_sentence(complaint):
    pattern = re.escape(complaint).replace(r"\.\*", ".*")
    with pytest.raises(DataError, match=pattern):
        make_dataset("mine", WRONG[complaint], None)


@pytest.mark.parametrize(
    ("test", "complaint"),
    [
        (listed(PIXELS[:1], [4]), r"a test image has the label 4, and there are 4 classes"),
        (listed(PIXELS[:1, :1], [0]), r"test images torch\.uint8 \[1, 6, 5\]"),
        (listed(PIXELS[:1].float(), [0]), r"test images torch\.float32 \[3, 6, 5\]"),
        (listed([], []), "the test split of mine is empty"),
    ],
)
def test_a_test_split_that_does_not_fit_is_one_sentence(test, complaint):
    with pytest.raises(DataError, match=complaint):
        make_dataset("mine", listed(PIXELS), test)


@pytest.mark.parametrize("workers", [0, 1])
@pytest.mark.parametrize(
    ("images", "facts", "complaint"),
    [
        ([*FLOATS[:10], FLOATS[0, :, 1:], *FLOATS[11:]], {}, "item 10 .* all must be alike"),
        (FLOATS, {"targets": [*LABELS[:-1], 0]}, "has the label 3, and its `targets` say 0"),
    ],
)
def test_an_item_that_differs_is_found_when_it_is_read(images, facts, complaint, workers):
    dataset = make_dataset("mine", listed(images, **facts), listed(FLOATS))
    batches = data.training_batches(dataset, batch_size=4, seed=0, workers=workers)
    with pytest.raises(DataError, match=complaint):
        list(batches.epoch(0))


USERS = """
import torch
from torch.utils.data import TensorDataset
def make(n): return TensorDataset(torch.zeros(n, 1, 4, 4, dtype=torch.uint8), torch.arange(n) % 2)
def by_split(split): return make(12 if split == "train" else 6)
def by_train(train=True): return make(12 if train else 6)
def pair(): return make(12), make(6)
def one(): return make(15)
def needs(root, split): return make(3)
def three(): return 1, 2, 3
def breaks(): raise OSError("no disk")
"""


@pytest.fixture
def users(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "users_data.py").write_text(USERS)


def test_a_function_makes_both_splits(users):
    for name, sizes in (("by_split", (12, 6)), ("by_train", (12, 6)), ("pair", (12, 6))):
        dataset = data.load(f"users_data:{name}", train_size=4)
        assert (len(dataset.train), len(dataset.test)) == (4, sizes[1])
    dataset = data.load("users_data:one")
    assert (len(dataset.train), len(dataset.test)) == (12, 3)


@pytest.mark.parametrize(
    ("name", "complaint"),
    [
        ("users_data:needs", "also needs 'root'"),
        ("users_data:three", "returned 3 data sets"),
        ("users_data:breaks", "failed: OSError: no disk"),
        ("users_data:nosuch", "users_data has no 'nosuch'; its functions are make, by_split"),
        ("no_such_module:f", "no module 'no_such_module' for the data set"),
        ("users data:f", "does not name a data set"),
        ("nosuch", r"no data set 'nosuch'; known are .*datasets:PATH, package\.module:function"),
    ],
)
def test_a_function_that_makes_none_is_one_sentence(users, name, complaint):
    with pytest.raises(SkinnyError, match=complaint):
        data.load(name)
