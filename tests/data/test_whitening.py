import os

import pytest
import torch

from skinny.data import whitening
from skinny.data.errors import DataError
from skinny.data.whitening import BIAS, SCALE, contrast_normalize, fit, fit_cached

SHAPE = (400, 3, 4, 4)


@pytest.fixture
def images():
    generator = torch.Generator().manual_seed(0)
    smooth = torch.rand(SHAPE[0], 3, 1, 1, generator=generator) * 200
    return (smooth + torch.rand(SHAPE, generator=generator) * 55).to(torch.uint8)


def test_contrast_is_normalised_to_mean_zero_and_norm_55(images):
    rows = contrast_normalize(images).double()
    torch.testing.assert_close(rows.mean(1), torch.zeros(400).double(), atol=1e-5, rtol=0)
    torch.testing.assert_close(
        rows.norm(dim=1), torch.full((400,), SCALE).double(), rtol=1e-5, atol=0
    )


def test_an_image_without_contrast_stays_zero():
    assert contrast_normalize(torch.full((1, 3, 4, 4), 9, dtype=torch.uint8)).abs().max() == 0


def test_the_formula_is_that_of_the_docstring(images):
    rows = contrast_normalize(images).double()
    centred = rows - rows.mean(0)
    values, vectors = torch.linalg.eigh(centred.T @ centred / len(rows))
    expected = centred @ vectors @ torch.diag(1 / (values + BIAS).sqrt()) @ vectors.T
    torch.testing.assert_close(
        fit(images)(images).double().flatten(1), expected, rtol=1e-3, atol=1e-3
    )


def test_whitened_training_images_are_uncorrelated(images):
    rows = fit(images)(images).flatten(1).double()
    covariance = rows.T @ rows / len(rows)
    assert (covariance - torch.diag(covariance.diagonal())).abs().max() < 0.05
    assert covariance.diagonal().max() <= 1.001


def test_it_is_symmetric_and_keeps_the_shape(images):
    fitted = fit(images)
    torch.testing.assert_close(fitted.matrix, fitted.matrix.T)
    assert fitted(images[:5]).shape == (5, 3, 4, 4)


def test_images_too_large_to_whiten_are_an_error():
    with pytest.raises(DataError, match="154,587 numbers"):
        fit(torch.zeros(1, 3, 227, 227, dtype=torch.uint8))


@pytest.fixture
def fits(monkeypatch):
    """How often a whitening was computed."""
    calls = []
    real = whitening.fit
    monkeypatch.setattr(whitening, "fit", lambda images: calls.append(1) or real(images))
    return calls


def test_the_second_time_it_comes_from_the_cache(images, fits, cache):
    first, second = fit_cached(images), fit_cached(images)
    assert len(fits) == 1
    assert torch.equal(first.matrix, second.matrix)
    assert torch.equal(first.mean, second.mean)
    assert [path.suffix for path in (cache / "whitening").iterdir()] == [".safetensors"]


def test_other_images_and_other_constants_are_other_files(images, fits, tmp_path, monkeypatch):
    fit_cached(images, tmp_path)
    changed = images.clone()
    changed[3, 1, 2, 2] ^= 1
    fit_cached(changed, tmp_path)
    monkeypatch.setattr(whitening, "BIAS", 0.2)
    fit_cached(images, tmp_path)
    assert len(fits) == 3
    assert len(os.listdir(tmp_path)) == 3


@pytest.mark.parametrize(
    "damage",
    [
        lambda contents: contents[: len(contents) // 2],
        lambda contents: b"",
        lambda contents: b"\xff" * 100,
        lambda contents: contents[:-9] + bytes([contents[-9] ^ 1]) + contents[-8:],
    ],
    ids=["half", "empty", "rubbish", "one bit"],
)
def test_a_damaged_cache_is_computed_again_and_says_so(images, fits, tmp_path, damage):
    good = fit_cached(images, tmp_path)
    (path,) = tmp_path.iterdir()
    path.write_bytes(damage(path.read_bytes()))
    with pytest.warns(UserWarning, match=r"safetensors: damaged .*computed again"):
        again = fit_cached(images, tmp_path)
    assert torch.equal(again.matrix, good.matrix)
    assert len(fits) == 2
    fit_cached(images, tmp_path)
    assert len(fits) == 2


def test_a_cache_that_cannot_be_written_is_no_obstacle(images, tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("in the way")
    with pytest.warns(UserWarning, match="cannot be kept"):
        whitened = fit_cached(images, blocked / "folder")
    assert whitened.matrix.shape == (48, 48)
