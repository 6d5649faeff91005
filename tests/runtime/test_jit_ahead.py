"""Generated kernels prefetch values that are larger than a second-level cache."""

import numpy as np
import pytest
from runtime_builder import Builder

from skinny import packing
from skinny.runtime import load, reference

_native = pytest.importorskip("skinny._native", reason="the native extension was not built")
pytest.importorskip("capstone")
from tests.runtime.emulator import Machine  # noqa: E402

FORM = _native.CodeForm.many_channels()


@pytest.mark.parametrize("rows", [1, 31, 80])
@pytest.mark.parametrize("block", ["only", "first", "last"])
@pytest.mark.parametrize("patches", [0, 4])  # 4: the next function is prefetched as well
def test_each_patch_prefetches_what_later_ones_read_write_and_add(rows, block, patches):
    rng = np.random.default_rng(rows)
    taps, runs, ahead, at = 90, 3, 7 * 64, 1 << 40
    weights = rng.standard_normal((rows, taps)).astype(np.float32)
    floats = runs * FORM.lanes
    x, residual = (rng.standard_normal((n, floats)).astype(np.float32) for n in (taps, rows))
    out, bias = np.zeros_like(residual), rng.standard_normal(rows).astype(np.float32)
    first, last = block != "last", block != "first"
    code, stream, chunks = _native.generate_block(
        form=FORM, weights=weights, offsets=np.arange(taps, dtype=np.int32) * floats,
        bias=bias if first else None, last=last, low=-np.inf, high=np.inf, residual=True,
        patches=patches, ahead_in=ahead, ahead_out=True,
    )  # fmt: skip
    memory = {
        at: x.reshape(-1),
        2 * at: out.reshape(-1),
        3 * at: np.array(stream, np.float32),
        4 * at: residual.reshape(-1),
    }
    machine = Machine(FORM.lanes, memory)
    for begin, size, values, row, *_ in chunks:
        machine.call(
            code[begin : begin + size], at, 2 * at + row * floats * 4, floats * 4,
            3 * at + 4 * values, runs, 2 * at, 5 * at, 6 * at,
        )  # fmt: skip
    sums = weights @ x + (bias[:, None] if first else 0) + (residual if last else 0)
    np.testing.assert_allclose(out, sums, rtol=1e-4, atol=1e-4)
    wanted = [
        at + 4 * floats * tap + 64 * run + ahead for tap in range(taps) for run in range(runs)
    ]
    for base, does in ((2 * at, first), (4 * at, last)):
        lines = range(1, runs + 1) if does else ()
        wanted += [base + 4 * floats * row + 64 * line for row in range(rows) for line in lines]
    found = [address for address in machine.prefetched if address < 5 * at]
    assert set(found) <= set(wanted)
    assert len(found) == len(set(found))
    # Evenly, so that what comes after the last multiplication is left out.
    assert len(found) >= len(wanted) - 2 * runs * len(chunks)


@pytest.mark.parametrize("options", [{"ahead_in": -64}, {"ahead_in": 1 << 14}], ids=str)
def test_code_does_not_prefetch_what_lies_far_away(options):
    with pytest.raises(ValueError, match="nearby"):
        generate(FORM, **options)


@pytest.mark.parametrize("options", [{"ahead_in": 64}, {"ahead_out": True}], ids=str)
def test_code_for_avx2_prefetches_no_values(options):
    with pytest.raises(ValueError, match="no values"):
        generate(_native.CodeForm.six_channels(by_four=False), **options)


def generate(form, **options):
    _native.generate_block(
        form=form, weights=np.ones((1, 1), np.float32), offsets=np.zeros(1, np.int32), bias=None,
        last=False, low=0, high=0, **options,
    )  # fmt: skip


@pytest.mark.parametrize("images", [1, 16])
@pytest.mark.parametrize("side", [(72, 80), (61, 67)], ids=str)
@pytest.mark.parametrize("inputs", [40, 150])
def test_large_values_and_their_sums_equal_the_reference(tmp_path, images, side, inputs):
    """Rows of whole vectors and others, of one block of taps and of several."""
    builder = Builder(inputs, *side)
    builder.conv(inputs, 70, (1, 1), sparsity=0.9)
    builder.add("relu")
    builder.conv(70, 70, (3, 3), padding=(1, 1), sparsity=0.95)
    builder.conv(70, inputs, (1, 1), sparsity=0.9)
    builder.add("add", builder.last, "x")
    path = tmp_path / "large.skinny"
    packing.write(path, builder.tensors, graph=builder.graph())
    x = builder.batch(images)
    wanted = reference.run(builder.graph(), builder.tensors.__getitem__, x)[0]
    for threads in (1, 3):
        np.testing.assert_allclose(load(path, threads=threads)(x), wanted, rtol=1e-3, atol=1e-3)
