"""What `save_to_disk` of Hugging Face `datasets` wrote."""

import io
import sys

import datasets
import numpy as np
import pyarrow
import pytest
import torch
from PIL import Image

from skinny import data
from skinny.data import DataError

datasets.disable_progress_bars()

GREY = [np.full((6, 4), 10 * i, np.uint8) for i in range(20)]
COLOUR = [np.full((6 + i, 9, 3), 10 * i, np.uint8) for i in range(20)]
FEATURES = {"image": datasets.Image(), "label": datasets.ClassLabel(names=["cat", "dog"])}


def png(pixels):
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "PNG")
    return {"bytes": file.getvalue(), "path": None}


def table(images, labels=None, features=FEATURES):
    """With a fingerprint: computing one pickles the table, which some versions cannot."""
    schema = datasets.Features(features).arrow_schema
    cells = [png(image) if isinstance(image, np.ndarray) else image for image in images]
    columns = [cells, [i % 2 for i in range(len(cells))] if labels is None else labels]
    arrow = pyarrow.table(dict(zip(features, columns, strict=True)), schema=schema)
    return datasets.Dataset(datasets.table.InMemoryTable(arrow), fingerprint=str(len(images)))


def save(folder, **splits):
    datasets.DatasetDict(splits).save_to_disk(str(folder))
    return f"datasets:{folder}"


def test_images_of_one_size_stay_as_they_are(tmp_path):
    dataset = data.load(save(tmp_path / "d", train=table(GREY), validation=table(GREY[:6])))
    assert (dataset.channels, dataset.image_size, dataset.classes) == (1, (6, 4), ("cat", "dog"))
    assert (len(dataset.train), len(dataset.test)) == (20, 6)
    image, label = dataset.train.read(3)
    assert torch.equal(image, torch.from_numpy(GREY[3])[None])
    assert label == 1
    batches = data.training_batches(dataset, batch_size=20, seed=0, workers=1)
    ((x, y),) = batches.epoch(0)
    assert x.shape == (20, 1, 6, 4)
    assert sorted(y.tolist()) == [0] * 10 + [1] * 10


def test_images_of_many_sizes_are_resized_and_cropped(tmp_path):
    table(COLOUR).save_to_disk(str(tmp_path / "d"))
    dataset = data.load(f"datasets:{tmp_path / 'd'}")
    assert (dataset.channels, dataset.image_size) == (3, (9, 9))
    assert (len(dataset.train), len(dataset.test)) == (16, 4)
    assert (dataset.train.resize, dataset.train.crop) == (9, 9)
    dataset = data.load(f"datasets:{tmp_path / 'd'}", resize=8, crop=5)
    assert dataset.image_size == (5, 5)


NUMBERS = {"text": datasets.Value("string"), "label": datasets.Value("int64")}


@pytest.mark.parametrize(
    ("splits", "complaint"),
    [
        ({"test": table(GREY)}, "has no split 'train'; its splits are test"),
        ({"train": table(GREY), "more": table(GREY)}, "of train, more, none is called test or"),
        ({"train": table(["a"], [0], NUMBERS)}, r"one column of type Image .* text \(Value\)"),
        ({"train": table([{"bytes": b"no image", "path": None}])}, "image 0: cannot be read as an"),
        ({"train": table([None])}, "image 0: there is none in its row"),
    ],
)
def test_what_cannot_be_trained_on_is_one_sentence(tmp_path, splits, complaint):
    with pytest.raises(DataError, match=complaint):
        data.load(save(tmp_path / "d", **splits))


def test_other_folders_and_a_missing_package_are_one_sentence(tmp_path, monkeypatch):
    with pytest.raises(DataError, match="no such folder"):
        data.load(f"datasets:{tmp_path / 'nosuch'}")
    with pytest.raises(DataError, match="not a folder that save_to_disk made"):
        data.load(f"datasets:{tmp_path}")
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(DataError, match=r"needs the package datasets: .*skinny-nn\[datasets\]"):
        data.load(f"datasets:{tmp_path}")
