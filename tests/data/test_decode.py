import numpy as np
import pytest
from PIL import Image

from skinny.data.decode import decode, shorter_side

PIXELS = np.random.default_rng(0).integers(256, size=(8, 12, 3), dtype=np.uint8)


@pytest.fixture
def path(tmp_path):
    Image.fromarray(PIXELS).save(tmp_path / "image.png")
    return tmp_path / "image.png"


def test_the_centre_is_cut(path):
    pixels = decode(path, resize=8, crop=6, random=None, mirror=False)
    np.testing.assert_array_equal(pixels, PIXELS[1:7, 3:9].transpose(2, 0, 1))


def test_a_mirrored_image_is_the_image_mirrored(path):
    plain, mirrored = (decode(path, resize=8, crop=8, random=None, mirror=m) for m in (0, 1))
    np.testing.assert_array_equal(mirrored, plain[:, :, ::-1])


def test_random_cuts_reach_every_place_and_follow_the_generator(path):
    def cut(seed):
        random = np.random.default_rng(seed)
        return decode(path, resize=8, crop=6, random=random, mirror=False)

    cuts = {cut(seed).tobytes() for seed in range(200)}
    places = {
        PIXELS[i : i + 6, j : j + 6].transpose(2, 0, 1).tobytes()
        for i in range(3)
        for j in range(7)
    }
    assert cuts == places
    np.testing.assert_array_equal(cut(5), cut(5))


@pytest.mark.parametrize("size", [(640, 480), (480, 640), (256, 256), (100, 300), (3, 200)])
@pytest.mark.parametrize("suffix", [".jpg", ".png"])
def test_any_size_becomes_the_same(tmp_path, size, suffix):
    path = tmp_path / f"image{suffix}"
    Image.new("RGB", size, (200, 100, 50)).save(path)
    assert shorter_side(path) == min(size)
    pixels = decode(path, resize=256, crop=227, random=None, mirror=False)
    assert pixels.shape == (3, 227, 227)
    assert pixels.dtype == np.uint8
    assert np.abs(pixels.mean((1, 2)) - [200, 100, 50]).max() < 3


@pytest.mark.parametrize("mode", ["L", "1", "P", "RGBA", "LA", "I;16"])
def test_every_kind_of_image_becomes_rgb(tmp_path, mode):
    Image.new(mode, (9, 9)).save(tmp_path / "image.png")
    pixels = decode(tmp_path / "image.png", resize=9, crop=9, random=None, mirror=False)
    assert pixels.shape == (3, 9, 9)


def test_cmyk_jpegs_become_rgb(tmp_path):
    Image.new("CMYK", (9, 9)).save(tmp_path / "image.jpg")
    pixels = decode(tmp_path / "image.jpg", resize=9, crop=9, random=None, mirror=False)
    assert pixels.shape == (3, 9, 9)


def test_other_formats_are_not_opened(tmp_path):
    Image.new("RGB", (9, 9)).save(tmp_path / "image.png", format="GIF")
    with pytest.raises(OSError, match="cannot identify"):
        decode(tmp_path / "image.png", resize=9, crop=9, random=None, mirror=False)
