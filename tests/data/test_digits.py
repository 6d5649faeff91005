import torch
from sklearn import datasets

from skinny.data.digits import load_digits


def test_every_digit_is_in_one_part_with_its_label():
    train, test = load_digits()
    assert train.images.shape == (1437, 1, 8, 8)
    assert test.images.shape == (360, 1, 8, 8)
    official = datasets.load_digits()
    expected = torch.from_numpy(official.data).mul(255 / 16).round().to(torch.uint8).numpy()
    ours = [*_pairs(train), *_pairs(test)]
    assert sorted(ours) == sorted(
        (row.tobytes(), label) for row, label in zip(expected, official.target, strict=True)
    )


def test_wherever_scikit_learn_keeps_them_they_are_the_same(monkeypatch):
    usual = load_digits()
    monkeypatch.setattr("skinny.data.digits.Path.exists", lambda path: False)
    for one, other in zip(usual, load_digits(), strict=True):
        assert torch.equal(one.images, other.images)
        assert torch.equal(one.labels, other.labels)


def test_pixels_use_the_full_range():
    train, _ = load_digits()
    assert train.images.min() == 0
    assert train.images.max() == 255
    assert len(train.images.unique()) == 17


def test_the_test_part_is_stratified_and_always_the_same():
    _, test = load_digits()
    assert test.labels.bincount().tolist() == [36, 37, 35, 37, 36, 36, 36, 36, 35, 36]
    torch.manual_seed(99)
    assert torch.equal(load_digits()[1].images, test.images)


def _pairs(split):
    return [
        (i.numpy().tobytes(), y) for i, y in zip(split.images, split.labels.tolist(), strict=True)
    ]
