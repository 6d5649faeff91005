"""What a network accepts, and what it says of the rest."""

import numpy as np
import pytest
from PIL import Image
from runtime_builder import Builder
from tests.packing.reseal import put_together, take_apart

from skinny import packing
from skinny.packing import FormatError
from skinny.runtime import InputError, load

PREPROCESSING = {"mean": [0.1, 0.2, 0.3], "std": [0.5, 0.6, 0.7]}


@pytest.fixture
def path(tmp_path):
    builder = Builder(3, 5, 4)
    builder.conv(3, 6, (3, 3), padding=(1, 1))
    builder.add("adaptive_avg_pool", size=[1, 1])
    builder.add("flatten", start=1, end=-1)
    packing.write(tmp_path / "plain", builder.tensors, graph=builder.graph())
    for layout in ("NCHW", "NHWC"):
        record = {**PREPROCESSING, "layout": layout}
        packing.write(
            tmp_path / layout, builder.tensors, graph=builder.graph(), preprocessing=record
        )
    return tmp_path


@pytest.fixture
def pixels():
    return np.random.default_rng(0).integers(0, 256, (19, 3, 5, 4), dtype=np.uint8)


def prepared(pixels):
    mean, std = (np.array(PREPROCESSING[key])[:, None, None] for key in ("mean", "std"))
    return ((pixels / 255 - mean) / std).astype(np.float32)


@pytest.mark.parametrize("images", [1, 19])
def test_bytes_go_through_the_stored_preprocessing(path, pixels, images):
    net = load(path / "NCHW")
    np.testing.assert_allclose(
        net(pixels[:images]),
        net(prepared(pixels[:images]), preprocessed=True),
        rtol=1e-4,
        atol=1e-6,
    )


def test_channels_last_images_are_turned(path, pixels):
    expected = load(path / "NCHW")(pixels)
    turned = np.ascontiguousarray(pixels.transpose(0, 2, 3, 1))
    np.testing.assert_array_equal(load(path / "NHWC")(turned), expected)


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_floats_are_not_mistaken_for_preprocessed_images(path, pixels, layout):
    """Floats in [0, 1] look like a batch, and would give a wrong answer without a word."""
    net = load(path / layout)
    for call in (net, net.predict, net.probabilities):
        with pytest.raises(InputError, match="float32, but the file's preprocessing takes uint8"):
            call((pixels / 255).astype(np.float32))
        with pytest.raises(InputError, match="the images are uint8, but preprocessed=True"):
            call(pixels, preprocessed=True)


def test_preprocessing_for_floats_is_applied_to_floats_only(path, pixels):
    with packing.open(path / "NCHW") as file:
        record = {**PREPROCESSING, "input": "float32", "scale": 1.0}
        tensors = {name: file.read(name) for name in file.names}
        packing.write(path / "floats", tensors, graph=file.graph, preprocessing=record)
    net = load(path / "floats")
    expected = load(path / "NCHW")(pixels)
    np.testing.assert_allclose(net(pixels / 255), expected, rtol=1e-4, atol=1e-6)
    ready = net(prepared(pixels), preprocessed=True)
    np.testing.assert_allclose(ready, expected, rtol=1e-4, atol=1e-6)
    with pytest.raises(InputError, match="uint8, but the file's preprocessing takes float32"):
        net(pixels)


@pytest.mark.parametrize("channels", [1, 2, 4])
def test_a_mean_of_other_channels_than_the_input_is_refused_at_load(path, channels):
    record = {"mean": [0.5] * channels, "std": [1.0] * channels}
    fields, manifest, parts = take_apart((path / "NCHW").read_bytes())
    manifest["preprocessing"].update(record)
    (path / "other").write_bytes(put_together(fields, manifest, parts))
    with pytest.raises(FormatError, match=f"mean of {channels} channels.* input has 3"):
        load(path / "other")
    with packing.open(path / "NCHW") as file, pytest.raises(FormatError, match="input has 3"):
        packing.write(path / "new", {}, graph={**file.graph, "nodes": [], "outputs": ["x"]},
                      preprocessing=record)  # fmt: skip
    assert not (path / "new").exists()


def test_images_of_another_size_are_resized_and_cropped_as_the_file_says(path):
    with packing.open(path / "NCHW") as file:
        record = {**PREPROCESSING, "resize": 6, "crop": [5, 4], "layout": "NHWC"}
        tensors = {name: file.read(name) for name in file.names}
        packing.write(path / "cropped", tensors, graph=file.graph, preprocessing=record)
    large = np.random.default_rng(1).integers(0, 256, (2, 24, 30, 3), dtype=np.uint8)
    small = [
        np.asarray(Image.fromarray(image).resize((8, 6), Image.Resampling.BILINEAR))
        for image in large
    ]
    cut = np.stack(small)[:, 0:5, 2:6]
    net = load(path / "cropped")
    np.testing.assert_array_equal(net(large), net(cut))


def test_other_floats_strides_and_lists_are_welcome(path, pixels):
    net = load(path / "plain")
    x = prepared(pixels)
    expected = net(x)
    np.testing.assert_array_equal(net(x.astype(np.float64)), expected)
    np.testing.assert_array_equal(net(np.asfortranarray(x)), expected)
    np.testing.assert_array_equal(net(np.repeat(x, 2, axis=0)[::2]), expected)
    np.testing.assert_array_equal(net(x.tolist()), expected)


@pytest.mark.parametrize(
    ("x", "message"),
    [
        (np.zeros((1, 3, 5, 4), np.uint8), "says nothing of preprocessing"),
        (np.zeros((1, 3, 5, 4), np.int32), "are int32; a network takes uint8 or floats"),
        (np.zeros((1, 3, 5, 4), np.complex64), "are complex64"),
        (np.zeros((3, 5, 4), np.float32), r"takes \[batch, 3, 5, 4\]; for one image use x\[None\]"),
        (np.zeros((1, 5, 4, 3), np.float32), r"the input is \[1, 5, 4, 3\]"),
        (np.zeros((1, 3, 5), np.float32), r"the input is \[1, 3, 5\]"),
        (np.zeros((0, 3, 5, 4), np.float32), "the batch is empty"),
        (np.zeros((), np.float32), r"the input is \[\]"),
    ],
)
def test_anything_else_is_an_error_before_any_kernel_starts(path, x, message):
    with pytest.raises(InputError, match=message):
        load(path / "plain")(x)


@pytest.mark.parametrize("x", [[[1.0, 2.0], [3.0]], [np.zeros((3, 5, 4)), np.zeros((3, 5, 5))]])
def test_a_ragged_list_is_refused(path, x):
    with pytest.raises(InputError, match="cannot be made an array of images"):
        load(path / "plain")(x)
