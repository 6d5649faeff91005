"""What a network accepts, and what it says of the rest."""

import numpy as np
import pytest
from runtime_builder import Builder

from skinny import packing
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
        net(pixels[:images]), net(prepared(pixels[:images])), rtol=1e-4, atol=1e-6
    )


def test_channels_last_images_are_turned(path, pixels):
    expected = load(path / "NCHW")(pixels)
    turned = np.ascontiguousarray(pixels.transpose(0, 2, 3, 1))
    np.testing.assert_array_equal(load(path / "NHWC")(turned), expected)


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
