import json
import os
import subprocess
import sys
import zlib

import numpy as np
import pytest
from PIL import Image

from skinny import packing
from skinny.cli import predict
from skinny.errors import SkinnyError
from skinny.images import read_image
from skinny.runtime import load


@pytest.fixture
def model(tmp_path):
    """Which third of an 6 x 4 image is brightest: the upper, the middle or the lower one."""
    weight = np.zeros((3, 3, 6, 4), np.float32)
    for i in range(3):
        weight[i, :, 2 * i : 2 * i + 2] = 1
    nodes = [
        {"op": "conv", "inputs": ["x"], "output": "a", "weight": "w", "bias": None,
         "stride": [1, 1], "padding": [0, 0], "dilation": [1, 1], "groups": 1},
        {"op": "flatten", "inputs": ["a"], "output": "y", "start": 1, "end": -1},
    ]  # fmt: skip
    graph = {
        "inputs": [{"name": "x", "shape": [None, 3, 6, 4], "dtype": "float32"}],
        "nodes": nodes,
        "outputs": ["y"],
    }
    packing.write(
        tmp_path / "net.skinny",
        {"w": weight},
        graph=graph,
        labels=["upper", "middle", "lower"],
        preprocessing={"mean": [0.0] * 3, "std": [1.0] * 3},
    )
    packing.write(tmp_path / "bare.skinny", {"w": weight}, graph=graph)
    return tmp_path / "net.skinny"


def save(path, third, size=(4, 6)):
    pixels = np.zeros((6, 4, 3), np.uint8)
    pixels[2 * third : 2 * third + 2] = 255
    Image.fromarray(pixels).resize(size, Image.Resampling.NEAREST).save(path)
    return str(path)


def test_labels_and_probabilities_of_each_file(model, tmp_path, capsys):
    images = [save(tmp_path / f"{i}.png", i) for i in (2, 0)]
    assert predict.main([str(model), *images]) == 0
    first, second = capsys.readouterr().out.splitlines()
    assert first.split() == [images[0], "lower", "100.0%"]
    assert second.split() == [images[1], "upper", "100.0%"]


def test_json_has_the_most_likely_classes_first(model, tmp_path, capsys):
    image = save(tmp_path / "a.png", 1)
    assert predict.main([str(model), image, "--top", "2", "--json"]) == 0
    (record,) = json.loads(capsys.readouterr().out)
    assert record["image"] == image
    assert [found["label"] for found in record["classes"]] == ["middle", "upper"]


def test_images_of_another_size_or_kind_are_brought_to_the_networks(model, tmp_path, capsys):
    large = save(tmp_path / "large.bmp", 2, size=(40, 60))
    Image.open(large).convert("P").save(tmp_path / "palette.gif")
    assert predict.main([str(model), large, str(tmp_path / "palette.gif")]) == 0
    assert capsys.readouterr().out.count("lower") == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["{model}", "{folder}/none.png"], "there is no such file"),
        (["{model}", "{model}"], "cannot be read as an image"),
        (["{model}", "{image}", "--top", "0"], "must be 1 or more"),
        (["{folder}/bare.skinny", "{image}"], "says nothing of preprocessing"),
        (["{folder}/none.skinny", "{image}"], "cannot open"),
    ],
)
def test_mistakes_are_one_clear_sentence(model, tmp_path, arguments, message):
    names = {"model": model, "folder": tmp_path, "image": save(tmp_path / "a.png", 0)}
    with pytest.raises(SkinnyError, match=message):
        predict.main([argument.format(**names) for argument in arguments])


def chunk(kind, contents):
    check = zlib.crc32(kind + contents).to_bytes(4, "big")
    return len(contents).to_bytes(4, "big") + kind + contents + check


def thin_png(path, width):
    """An image of one row in a file of some hundred bytes."""
    header = width.to_bytes(4, "big") + (1).to_bytes(4, "big") + b"\x08\x00\x00\x00\x00"
    pixels = zlib.compress(b"\0" * (width + 1), 9)
    chunks = chunk(b"IHDR", header) + chunk(b"IDAT", pixels) + chunk(b"IEND", b"")
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + chunks)
    return str(path)


def test_a_long_thin_image_is_refused_before_it_is_made_enormous(model, tmp_path):
    with packing.open(model) as file:
        record = {**file.preprocessing, "resize": 256, "crop": [6, 4]}
        packing.write(
            tmp_path / "scaled.skinny", {"w": file.read("w")}, graph=file.graph,
            preprocessing=record,
        )  # fmt: skip
    image = thin_png(tmp_path / "thin.png", 60_000)
    assert os.path.getsize(image) < 150
    script = (
        "import resource, sys; from skinny.cli.main import main; from PIL import Image; "
        "resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30)); "
        "sys.exit(main(['predict', *sys.argv[1:]]))"
    )
    run = subprocess.run(
        [sys.executable, "-c", script, tmp_path / "scaled.skinny", image],
        capture_output=True,
        text=True,
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
    )
    assert run.returncode == 1
    assert "60000 x 1 pixels would become 15360000 x 256" in run.stderr
    assert len(run.stderr.splitlines()) == 1


def test_the_command_and_the_library_see_the_same_in_a_jpeg_as_training(model, tmp_path, capsys):
    """Also where a JPEG is so large that its decoder scales it down itself."""
    with packing.open(model) as file:
        packing.write(
            tmp_path / "scaled.skinny", {"w": file.read("w")}, graph=file.graph,
            preprocessing={**file.preprocessing, "resize": 7, "crop": [6, 4]},
        )  # fmt: skip
    noise = np.random.default_rng(0).integers(0, 256, (90, 80, 3), np.uint8)
    photo = tmp_path / "photo.jpg"
    Image.fromarray(noise).save(photo, quality=95)
    trained_on = read_image(photo, channels=3, resize=7, crop=(6, 4))
    net = load(tmp_path / "scaled.skinny")
    expected = net.probabilities(trained_on.transpose(2, 0, 1)[None])
    np.testing.assert_array_equal(net.probabilities([photo]), expected)
    predict.main([str(tmp_path / "scaled.skinny"), str(photo), "--top", "3", "--json"])
    (record,) = json.loads(capsys.readouterr().out)
    shown = sorted((found["probability"] for found in record["classes"]), reverse=True)
    assert shown == sorted(map(float, expected[0]), reverse=True)


def test_predicting_needs_neither_torch_nor_anything_that_trains(model, tmp_path):
    script = (
        "import sys; from skinny.cli import predict; predict.main(sys.argv[1:]); "
        "bad = {'torch', 'sklearn', 'matplotlib', 'scipy', 'onnx'} & set(sys.modules); "
        "bad |= {m for m in sys.modules if m.startswith(('skinny.training', 'skinny.iht'))}; "
        "sys.exit(f'loaded {bad}' if bad else 0)"
    )
    image = save(tmp_path / "a.png", 0)
    run = subprocess.run(
        [sys.executable, "-c", script, model, image], capture_output=True, text=True
    )
    assert run.returncode == 0, run.stderr
