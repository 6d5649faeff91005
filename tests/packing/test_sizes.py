import gzip
import lzma
import math
import os

import numpy as np
import pytest
from tests.packing import samples

from skinny import packing
from skinny.packing.sizes import mask_bound


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.skinny"


def test_the_report_adds_up(path):
    packing.write(path, samples.tensors(), graph=samples.GRAPH)
    report = packing.size(path)
    assert report.total.packed == os.path.getsize(path)
    assert report.total.packed == sum(t.packed for t in report.tensors) + report.overhead
    for field in ("weights", "kept", "dense", "bound", "gzip", "xz"):
        assert getattr(report.total, field) == sum(getattr(t, field) for t in report.tensors)
    assert [t.name for t in report.tensors] == [n for n in samples.tensors() if n != "again"]
    assert report.total.ratio == report.total.dense / report.total.packed


def test_a_tensors_numbers_are_what_they_say(path, rng):
    weight = np.where(rng.random((200, 100)) < 0.1, rng.standard_normal((200, 100)), 0)
    weight = weight.astype(np.float32)
    packing.write(path, {"w": weight})
    (row,) = packing.size(path).tensors
    kept = np.count_nonzero(weight)
    assert (row.weights, row.kept, row.dense) == (20_000, kept, 80_000)
    assert row.bound == math.ceil(mask_bound(20_000, kept) / 8) + 4 * kept
    assert 0.8 * row.bound < row.packed < row.bound  # the values are coded as well
    assert row.xz == len(lzma.compress(weight.tobytes()))
    assert row.gzip == len(gzip.compress(weight.tobytes(), 6))
    assert row.packed < row.xz < row.gzip


def test_the_bound_is_the_binary_entropy():
    assert mask_bound(1000, 500) == 1000
    assert mask_bound(1000, 100) == pytest.approx(468.9956)
    assert mask_bound(1000, 0) == mask_bound(1000, 1000) == mask_bound(0, 0) == 0


@pytest.mark.parametrize("values", ["fp16", "int8"])
def test_rounded_values_are_measured_with_their_own_width(path, rng, values):
    weight = np.where(rng.random((64, 500)) < 0.1, rng.random((64, 500)), 0).astype(np.float32)
    packing.write(path, {"w": weight}, values=values)
    (row,) = packing.size(path, compare=False).tensors
    width, scales = (2, 0) if values == "fp16" else (1, 64 * 4)
    kept = np.count_nonzero(weight)
    assert row.bound == math.ceil(mask_bound(32_000, kept) / 8) + width * kept + scales
    assert row.error > 0
    assert row.gzip is row.xz is None


def test_negative_zeros_are_not_counted_as_kept(path):
    packing.write(path, {"w": np.array([-0.0, 0.0, 1.0])}, signed_zeros=True)
    assert packing.size(path, compare=False).total.kept == 1


def test_negative_zeros_that_are_stored_as_values_are_not_counted_as_kept(path, rng):
    weight = np.where(rng.random((60, 500)) < 0.1, rng.random((60, 500)), 0).astype(np.float32)
    weight[0, np.flatnonzero(weight[0] == 0)[:3]] = -0.0
    packing.write(path, {"w": weight}, signed_zeros=True)
    with packing.open(path) as file:
        assert file.kept("w") == np.count_nonzero(weight) + 3
    assert packing.size(path, compare=False).total.kept == np.count_nonzero(weight)
