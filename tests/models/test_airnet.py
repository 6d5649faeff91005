import pytest
import torch

from skinny.errors import SkinnyError
from skinny.models import airnet


@pytest.mark.parametrize(("width", "parameters"), [(1.0, 1_972_826), (0.5, 498_138)])
def test_parameter_count(width, parameters):
    assert sum(parameter.numel() for parameter in airnet(width=width).parameters()) == parameters


@torch.no_grad()
def test_any_image_from_9x9_pixels_on_gets_scores():
    model = airnet(classes=7, channels=1, width=0.1).eval()
    for size in ((9, 9), (32, 32), (33, 40)):
        assert model(torch.randn(2, 1, *size)).shape == (2, 7)
    with pytest.raises(SkinnyError, match="at least 9x9 pixels, got 8x9"):
        model(torch.randn(1, 1, 8, 9))


def test_every_parameter_gets_a_gradient():
    model = airnet(width=0.1)
    model(torch.randn(8, 3, 32, 32)).logsumexp(1).sum().backward()
    assert all(p.grad is not None and p.grad.any() for p in model.parameters())


def test_bad_arguments_are_one_sentence():
    with pytest.raises(SkinnyError, match="width is 0; it must be above 0"):
        airnet(width=0)
