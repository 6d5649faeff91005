"""Reading an image file: the same pixels for training and for packed models, and only images."""

import io

import numpy as np
import pytest
from PIL import Image

from skinny.errors import SkinnyError
from skinny.images import FORMATS, ImageError, read_image, shorter_side

PIXELS = np.random.default_rng(0).integers(256, size=(8, 12, 3), dtype=np.uint8)


@pytest.fixture
def path(tmp_path):
    Image.fromarray(PIXELS).save(tmp_path / "image.png")
    return tmp_path / "image.png"


def test_the_centre_is_cut(path):
    np.testing.assert_array_equal(read_image(path, resize=8, crop=6), PIXELS[1:7, 3:9])
    np.testing.assert_array_equal(read_image(path, crop=[2, 8]), PIXELS[3:5, 2:10])


def test_random_cuts_reach_every_place_and_follow_the_generator(path):
    def cut(seed):
        return read_image(path, resize=8, crop=6, random=np.random.default_rng(seed))

    cuts = {cut(seed).tobytes() for seed in range(200)}
    places = {PIXELS[i : i + 6, j : j + 6].tobytes() for i in range(3) for j in range(7)}
    assert cuts == places
    np.testing.assert_array_equal(cut(5), cut(5))


@pytest.mark.parametrize("size", [(640, 480), (480, 640), (256, 256), (100, 300), (3, 200)])
@pytest.mark.parametrize("suffix", [".jpg", ".png"])
def test_any_size_becomes_the_same(tmp_path, size, suffix):
    path = tmp_path / f"image{suffix}"
    Image.new("RGB", size, (200, 100, 50)).save(path)
    assert shorter_side(path) == min(size)
    pixels = read_image(path, resize=256, crop=227)
    assert pixels.shape == (227, 227, 3)
    assert pixels.dtype == np.uint8
    assert np.abs(pixels.mean((0, 1)) - [200, 100, 50]).max() < 3


@pytest.mark.parametrize("mode", ["L", "1", "P", "RGBA", "LA", "I;16"])
@pytest.mark.parametrize("channels", [1, 3, 4])
def test_every_kind_of_image_gets_the_channels_asked_for(tmp_path, mode, channels):
    Image.new(mode, (9, 7)).save(tmp_path / "image.png")
    assert read_image(tmp_path / "image.png", channels=channels).shape == (7, 9, channels)


def test_cmyk_jpegs_become_rgb(tmp_path):
    Image.new("CMYK", (9, 9)).save(tmp_path / "image.jpg")
    assert read_image(tmp_path / "image.jpg", resize=9, crop=9).shape == (9, 9, 3)


def test_an_image_that_is_smaller_than_the_crop_is_refused(path):
    with pytest.raises(ImageError, match="12 x 8 pixels is too small for a crop of 9 x 9"):
        read_image(path, crop=9)


@pytest.mark.parametrize("size", [(60_000, 1), (1, 60_000)])
def test_scaling_a_long_thin_image_is_refused(tmp_path, size):
    Image.new("L", size).save(tmp_path / "thin.png")
    with pytest.raises(ImageError, match="which is too large; crop it first"):
        read_image(tmp_path / "thin.png", resize=256, crop=227)


def test_a_large_image_may_be_scaled_down(tmp_path):
    Image.new("L", (5000, 4000)).save(tmp_path / "large.png")
    assert read_image(tmp_path / "large.png", resize=3990, crop=8).shape == (8, 8, 3)


def test_a_file_that_claims_too_many_pixels_is_not_decoded(tmp_path):
    Image.new("1", (10_000, 9_001)).save(tmp_path / "bomb.png")
    with pytest.raises(ImageError, match="claims 10000 x 9001 pixels"):
        read_image(tmp_path / "bomb.png")


@pytest.mark.parametrize("format", ["DDS", "BLP", "SPIDER", "PPM", "ICO"])
def test_unusual_formats_are_not_opened(tmp_path, format):
    mode = {"BLP": "P", "SPIDER": "F"}.get(format, "RGB")
    Image.new(mode, (16, 16)).save(tmp_path / f"image.{format.lower()}", format=format)
    with pytest.raises(ImageError, match="it is none of JPEG, PNG, WEBP, BMP, GIF, TIFF"):
        read_image(tmp_path / f"image.{format.lower()}")


@pytest.mark.parametrize("format", FORMATS)
def test_damaged_files_are_read_or_refused_in_a_sentence(tmp_path, format):
    rng = np.random.default_rng(1)
    whole = io.BytesIO()
    Image.fromarray(PIXELS.repeat(4, 0)).save(whole, format=format)
    path = tmp_path / "damaged"
    refused = []
    for _ in range(60):
        contents = bytearray(whole.getvalue())
        for _ in range(rng.integers(1, 6)):
            contents[rng.integers(len(contents))] = rng.integers(256)
        path.write_bytes(contents[: len(contents) - int(rng.integers(2) * rng.integers(40))])
        try:
            read_image(path, resize=16, crop=8)
        except ImageError as error:
            refused.append(str(error))
    assert refused
    assert all(message.startswith(f"{path} cannot be read as an image: ") for message in refused)


@pytest.mark.parametrize(
    ("name", "message"),
    [("none.png", "there is no such file"), ("", "directory"), ("empty", "none of JPEG")],
)
def test_what_is_no_image_file_is_told_so(tmp_path, name, message):
    (tmp_path / "empty").touch()
    for read in (read_image, shorter_side):
        with pytest.raises(ImageError, match=message):
            read(tmp_path / name)


def test_channels_that_no_image_has_are_refused(path):
    with pytest.raises(SkinnyError, match="2 channels is not possible"):
        read_image(path, channels=2)
