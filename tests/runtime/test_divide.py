"""Heads that are divided: first layers image by image, the others in vectors of images."""

import numpy as np
import pytest
from runtime_builder import Builder
from runtime_cases import CASES

from skinny import packing
from skinny.runtime import load, plan
from skinny.runtime.divide import split_head
from skinny.runtime.fuse import fuse
from skinny.runtime.shapes import infer


def division(builder: Builder, most: int, one_by_one: str = "") -> tuple[int, str] | None:
    """one_by_one: the value of a layer that is faster on single images."""
    shapes = infer(builder.graph(), lambda name: builder.tensors[name].shape)
    layers = fuse(builder.graph())
    return split_head(
        layers, "x", builder.last, shapes, most, lambda layer: layer.output == one_by_one
    )


def shrinking() -> tuple[Builder, list[str]]:
    """Values of 512, 128 and 32 elements, and 32 once more."""
    builder = Builder(2, 8, 8)
    made = [builder.conv(2, 8)]
    made += [builder.conv(8, 8, stride=(2, 2)), builder.conv(8, 8, stride=(2, 2))]
    return builder, [*made, builder.conv(8, 8)]


@pytest.mark.parametrize(
    ("most", "expected"),
    [(639, (2, 1)), (640, (1, 0)), (160, (2, 1)), (159, (3, 2)), (63, None)],
)
def test_the_earliest_division_after_which_values_fit_is_taken(most, expected):
    builder, made = shrinking()
    wanted = None if expected is None else (expected[0], made[expected[1]])
    assert division(builder, most) == wanted


def test_layers_that_are_faster_on_single_images_come_before_the_division():
    builder, made = shrinking()
    assert division(builder, 10**6, made[1]) == (2, made[1])
    assert division(builder, 10**6, made[3]) is None


def test_a_residual_sum_is_not_divided():
    builder = Builder(2, 4, 4)
    first = builder.conv(2, 2)
    builder.conv(2, 2)
    builder.add("add", first, builder.last)
    assert division(builder, 10**6) == (1, first)
    assert division(builder, 95) is None


def test_an_activation_stays_with_its_sum():
    builder = Builder(2, 4, 4)
    first = builder.conv(2, 2)
    builder.conv(2, 2)
    builder.add("add", first, builder.last)
    active = builder.add("tanh")
    builder.conv(2, 2)
    assert division(builder, 64) == (4, active)


@pytest.mark.parametrize("name", ["resnet", "alexnet", "normalised", "sums_after_convolutions"])
@pytest.mark.parametrize("threads", [1, 3])
def test_divided_networks_compute_the_same(name, threads, tmp_path, monkeypatch):
    builder = CASES[name]()
    packing.write(tmp_path / "net.skinny", builder.tensors, graph=builder.graph())
    whole = load(tmp_path / "net.skinny", threads=threads)
    monkeypatch.setattr(plan, "MOST_CACHED", 0)
    monkeypatch.setattr(plan, "_DIVIDED", 1 << 40)
    monkeypatch.setattr(plan, "_DIVIDED_LANES", 1)
    divided = load(tmp_path / "net.skinny", threads=threads)
    for images in (1, 9, 16, 17, 33, 300):
        x = builder.batch(images)
        np.testing.assert_allclose(divided(x), whole(x), rtol=1e-4, atol=1e-5)
    modes = {row.runs_on for row in divided.profile(32, repeats=1).rows}
    assert {"one image", "images in vectors"} <= modes
