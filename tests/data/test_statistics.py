import torch

from skinny.data.statistics import channel_statistics


def test_mean_and_deviation_are_those_of_the_scaled_pixels():
    images = torch.randint(256, (2500, 3, 4, 5), generator=torch.Generator().manual_seed(0))
    images[:, 1] //= 3
    mean, std = channel_statistics(images.to(torch.uint8))
    pixels = images.double() / 255
    torch.testing.assert_close(torch.tensor(mean).double(), pixels.mean((0, 2, 3)))
    torch.testing.assert_close(
        torch.tensor(std).double(), pixels.std((0, 2, 3), correction=0), rtol=1e-5, atol=0
    )


def test_a_channel_that_never_varies_can_be_divided_by():
    mean, std = channel_statistics(torch.full((3, 1, 2, 2), 51, dtype=torch.uint8))
    assert mean == (0.2,)
    assert std == (1 / 255,)
