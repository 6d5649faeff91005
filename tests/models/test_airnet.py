import pytest
import torch

from skinny.errors import SkinnyError
from skinny.models import airnet, begin_whitened, nin_digits


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


@torch.no_grad()
def test_a_whitened_stem_gives_uncorrelated_channels_of_unit_variance():
    torch.manual_seed(0)
    smooth = torch.nn.functional.avg_pool2d(torch.randn(64, 3, 34, 34), 3, stride=1)
    images = 3 * smooth + smooth.mean(1, keepdim=True)  # pixels and colours are correlated
    model = airnet(width=0.1)
    begin_whitened(model, images)
    maps = model.stem(images)  # [64, 24, 31, 31]
    half = maps[:, :12].transpose(0, 1).flatten(1)
    found = half @ half.T / half.shape[1]
    torch.testing.assert_close(found, torch.eye(12), atol=0.02, rtol=0)
    torch.testing.assert_close(maps[:, 12:], -maps[:, :12])


def test_a_whitened_network_trains_all_but_its_stem_and_begins_with_identities():
    model = airnet(width=0.25)
    begin_whitened(model, torch.randn(16, 3, 32, 32))
    assert [n for n, p in model.named_parameters() if not p.requires_grad] == ["stem.weight"]
    x = torch.randn(1, 64, 7, 7)
    torch.testing.assert_close(model.conv3a(x), x)
    before, after = model.conv2a.weight.shape[1::-1]
    assert before < after  # channels beyond the identity keep their random weights
    y = torch.randn(1, before, 9, 9)
    torch.testing.assert_close(model.conv2a(y)[:, :before], y)
    assert model.conv2a(y)[:, before:].std() > 0.1


def test_fewer_patch_pixels_than_filters_leave_the_other_filters_as_they_were():
    model = airnet(channels=1, width=0.1)  # 4 principal components, 12 pairs of filters
    drawn = model.stem.weight.detach().clone()
    begin_whitened(model, torch.randn(16, 1, 32, 32))
    same = (model.stem.weight == drawn).flatten(1).all(1)
    assert same.tolist() == [False] * 4 + [True] * 8 + [False] * 4 + [True] * 8


def test_only_airnet_begins_whitened():
    with pytest.raises(SkinnyError, match="only airnet can begin whitened, not NIN"):
        begin_whitened(nin_digits(), torch.randn(4, 1, 8, 8))
