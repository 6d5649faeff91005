"""Generated kernels: what they compute, and where they are chosen (test_x86.py: instructions).

What the processor cannot run (AVX-512, mostly) is decoded and interpreted (emulator.py).
"""

import numpy as np
import pytest
from runtime_builder import Builder

from skinny import packing
from skinny.runtime import load, reference

_native = pytest.importorskip("skinny._native", reason="the native extension was not built")
pytest.importorskip("capstone")
from tests.runtime.emulator import Machine, disassemble  # noqa: E402


def sparse(rng, rows: int, taps: int, density: float) -> np.ndarray:
    weights = rng.standard_normal((rows, taps)).astype(np.float32)
    weights[rng.random((rows, taps)) >= density] = 0
    return weights


ROW_STRIDE = 40  # so that the patches of taps overlap, in rows and in columns
FORMS = [_native.CodeForm(1, 8, ROW_STRIDE), _native.CodeForm(2, 3, ROW_STRIDE),
         _native.CodeForm(8, 1, ROW_STRIDE), _native.CodeForm.six_channels(by_four=True),
         _native.CodeForm.six_channels(by_four=False),
         _native.CodeForm.many_channels()]  # fmt: skip
NAMES = ["1 x 1x8", "1 x 2x3", "1 x 8x1", "6 x 1x2 by four", "6 x 1x2", "31 x 1x1"]


@pytest.mark.parametrize("form", FORMS[-3:], ids=NAMES[-3:])
@pytest.mark.parametrize("rows", [1, 7, 50])
def test_generated_instructions_add_a_residual_before_they_clamp(form, rows):
    rng = np.random.default_rng(rows)
    weights, patches = sparse(rng, rows, 40, 0.3), 2
    floats = patches * form.vectors * form.lanes
    x, residual = (rng.standard_normal((n, floats)).astype(np.float32) for n in (40, rows))
    out, bias = np.zeros_like(residual), rng.standard_normal(rows).astype(np.float32)
    code, stream, chunks = _native.generate_block(
        form=form, weights=weights, offsets=np.arange(40, dtype=np.int32) * floats, bias=bias,
        last=True, low=0.0, high=np.inf, residual=True,
    )  # fmt: skip
    values, at = np.array(stream, np.float32), 1 << 40
    memory = {
        at: x.reshape(-1),
        2 * at: out.reshape(-1),
        3 * at: values,
        4 * at: residual.reshape(-1),
    }
    for begin, size, first, row, *_ in chunks:
        Machine(form.lanes, memory).call(
            code[begin : begin + size], at, 2 * at + row * floats * 4, floats * 4,
            3 * at + 4 * first, patches, 2 * at,
        )  # fmt: skip
    wanted = np.maximum(weights @ x + bias[:, None] + residual, 0)
    np.testing.assert_allclose(out, wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("form", FORMS, ids=NAMES)
@pytest.mark.parametrize(("rows", "density"), [(1, 1.0), (5, 0.3), (24, 0.5), (50, 0.1), (7, 0.0)])
@pytest.mark.parametrize("block", ["only", "first", "middle", "last"])
def test_generated_instructions_compute_a_block(form, rows, density, block):
    rng = np.random.default_rng(rows)
    taps, row_stride, gap = 130, ROW_STRIDE, 3
    weights = sparse(rng, rows, taps, density)
    weights[rows // 2] = 0
    offsets = rng.permutation(taps).astype(np.int32) * gap  # unaligned, in any order
    bias = rng.standard_normal(rows).astype(np.float32) if block in ("only", "first") else None
    last = block in ("only", "last")
    patches = 3 if form.channels > 1 else 1
    floats = patches * form.vectors * form.lanes
    x = rng.standard_normal(offsets.max() + (form.rows - 1) * row_stride + floats)
    x = x.astype(np.float32)
    before = rng.standard_normal((rows, form.rows * floats)).astype(np.float32)
    out = before.copy()
    code, stream, chunks = _native.generate_block(
        form=form, weights=weights, offsets=offsets, bias=bias, last=last, low=-0.5, high=0.75
    )
    values, at = np.array(stream, np.float32), 1 << 40
    machine = Machine(form.lanes, {at: x, 2 * at: out.reshape(-1), 3 * at: values})
    for begin, size, first, row, *_ in chunks:
        machine.call(
            code[begin : begin + size],
            at,
            2 * at + row * out.shape[1] * 4,
            out.shape[1] * 4,
            3 * at + 4 * first,
            patches if form.channels > 1 else 4 * row_stride,
        )  # fmt: skip
    patch = np.stack(
        [
            np.concatenate([x[o + r * row_stride :][:floats] for r in range(form.rows)])
            for o in offsets
        ]
    )
    wanted = weights @ patch + (before if bias is None else bias[:, None])
    if last:
        wanted = wanted.clip(-0.5, 0.75)
    np.testing.assert_allclose(out, wanted, rtol=1e-4, atol=1e-4)
    # One multiplication for each weight and vector of the patch, and no more.
    kept = np.count_nonzero(weights)
    assert machine.executed.get("vfmadd231ps", 0) == kept * form.rows * form.vectors * patches
    assert len(stream) <= kept + 6 * rows  # biases, bounds, and fours that are filled up
    assert len(code) <= 100 * kept + 300 * rows + 128


@pytest.mark.parametrize("offsets", [[0, 8, 24, 32], [0, 40, 80, 120]], ids=["row", "column"])
@pytest.mark.parametrize("form", FORMS[:3], ids=NAMES[:3])
def test_vectors_that_several_taps_read_are_loaded_once(form, offsets):
    code, *_ = _native.generate_block(
        form=form, weights=np.ones((1, 4), np.float32), offsets=np.array(offsets, np.int32),
        bias=np.zeros(1, np.float32), last=False, low=0.0, high=0.0,
    )  # fmt: skip
    lines = disassemble(code)
    read = sum(name == "vfmadd231ps" and "[" in words[-1] for name, words in lines)
    read += sum(name == "vmovups" and "[" in words[-1] for name, words in lines)
    rows, columns = np.arange(form.rows) * ROW_STRIDE, np.arange(form.vectors) * 8
    assert read == len({o + r + c for o in offsets for r in rows for c in columns})


@pytest.mark.parametrize("form", FORMS[:2], ids=NAMES[:2])
def test_code_for_one_channel_prefetches_the_next_function(form):
    rng, at, tiles = np.random.default_rng(0), 1 << 40, 4
    weights = sparse(rng, 20, 100, 0.3)
    code, stream, [chunk] = _native.generate_block(
        form=form, weights=weights, offsets=np.arange(100, dtype=np.int32) * 3, bias=None,
        last=False, low=0.0, high=0.0, patches=tiles,
    )  # fmt: skip
    floats = form.rows * form.vectors * form.lanes
    memory = {
        at: np.zeros(300 + form.rows * ROW_STRIDE + floats, np.float32),
        2 * at: np.zeros(20 * floats, np.float32),
        3 * at: np.array(stream, np.float32),
    }
    machine = Machine(form.lanes, memory)
    machine.call(
        code, at, 2 * at, floats * 4, 3 * at, 4 * ROW_STRIDE, 0, 4 * at, 5 * at
    )  # fmt: skip
    _, size, *_, lines, _ = chunk
    assert machine.prefetched == [4 * at + 64 * line for line in range(lines)]
    assert size <= tiles * 64 * lines <= size + tiles * 64 * 2


@pytest.mark.parametrize("form", FORMS[-3:], ids=NAMES[-3:])
@pytest.mark.parametrize("patches", [1, 4, 1000])
def test_generated_instructions_prefetch_the_next_function(form, patches):
    rng = np.random.default_rng(patches)
    weights, runs, at = sparse(rng, 31, 300, 0.2), min(patches, 4), 1 << 40
    floats = runs * form.vectors * form.lanes
    x, out = rng.standard_normal((300, floats)).astype(np.float32), np.zeros((31, floats), "f4")
    code, stream, chunks = _native.generate_block(
        form=form, weights=weights, offsets=np.arange(300, dtype=np.int32) * floats,
        bias=np.zeros(31, np.float32), last=False, low=0.0, high=0.0, patches=patches,
    )  # fmt: skip
    memory = {at: x.reshape(-1), 2 * at: out.reshape(-1), 3 * at: np.array(stream, np.float32)}
    machine = Machine(form.lanes, memory)
    for begin, size, first, row, code_lines, stream_lines in chunks:
        machine.prefetched = []
        machine.call(
            code[begin : begin + size], at, 2 * at + row * floats * 4, floats * 4,
            3 * at + 4 * first, runs, 0, 4 * at, 5 * at,
        )  # fmt: skip
        lines = {4 * at: code_lines, 5 * at: stream_lines}
        wanted = [to + 64 * i for to, count in lines.items() for i in range(count * runs)]
        assert set(machine.prefetched) <= set(wanted)
        # Evenly, so that those after the last multiplication are left out.
        assert len(machine.prefetched) >= len(wanted) - runs
    np.testing.assert_allclose(out, weights @ x, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("form", FORMS, ids=NAMES)
def test_clamping_passes_nan_on(form):
    weights = np.ones((2, 1), np.float32)
    x = np.full(8 * 16, np.nan, np.float32)
    out = np.zeros((2, form.rows * form.vectors * form.lanes), np.float32)
    code, stream, ((begin, size, *_),) = _native.generate_block(
        form=form, weights=weights, offsets=np.zeros(1, np.int32), bias=np.zeros(2, np.float32),
        last=True, low=0.0, high=6.0,
    )  # fmt: skip
    machine = Machine(
        form.lanes, {0: x, 1 << 20: out.reshape(-1), 1 << 30: np.array(stream, np.float32)}
    )
    patches = int(form.channels > 1)
    machine.call(code[begin : begin + size], 0, 1 << 20, out.shape[1] * 4, 1 << 30, patches)
    assert np.isnan(out).all()


def test_offsets_that_cannot_be_addressed_are_refused():
    for offset in (1 << 30, -(1 << 30)):
        with pytest.raises(ValueError, match="too far away"):
            _native.generate_block(
                form=FORMS[0], weights=np.ones((1, 1), np.float32),
                offsets=np.array([offset], np.int32), bias=None, last=False, low=0, high=0,
            )  # fmt: skip


def runnable(form) -> bool:
    return _native.isa() == "avx512" or (_native.isa() == "avx2" and form.lanes == 8)


SHAPES = [(r, c) for r in range(1, 9) for c in range(1, 9) if r * c <= 8]


def forms_of(rows: int, vectors: int) -> list:
    """All that this machine can run for a tile."""
    forms = [_native.CodeForm(rows, vectors, 137), *FORMS[3:]]
    return [form for form in forms if runnable(form) and vectors % form.vectors == 0]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_code_that_runs_computes_every_shape_of_tile(shape):
    rows, vectors = shape
    forms = forms_of(rows, vectors)
    if not forms:
        pytest.skip(f"{_native.isa()} has no generated code")
    for form in forms:
        check_tile(form, rows, vectors)


@pytest.mark.parametrize(("rows", "vectors", "row_stride"), [(2, 3, 16), (4, 2, 8), (2, 4, 8)])
def test_a_tile_whose_own_rows_overlap(rows, vectors, row_stride):
    """As those of an image with more padding than its kernel reaches."""
    form = _native.CodeForm(rows, vectors, row_stride)
    if not runnable(form):
        pytest.skip("needs AVX2")
    check_tile(form, rows, vectors, row_stride, apart=8)


def check_tile(form, rows: int, vectors: int, row_stride: int = 137, apart: int = 5) -> None:
    rng = np.random.default_rng(rows * 10 + vectors)
    for density, groups, block in [(0.5, 1, 64), (0.1, 1, 200), (0.2, 2, 40), (1.0, 3, 300)]:
        outputs, taps = 30 * groups, 200
        weights = sparse(rng, outputs, taps, density)
        bias = rng.standard_normal(outputs).astype(np.float32)
        offsets = np.arange(taps, dtype=np.int32) * apart
        floats, group_stride = vectors * form.lanes, 11
        x = rng.standard_normal(2000 + rows * row_stride).astype(np.float32)
        y = np.empty((outputs, rows * floats), np.float32)
        assert _native.run_generated(
            form=form, weights=weights, groups=groups, block_taps=block, offsets=offsets,
            group_stride=group_stride, bias=bias, low=0.0, high=np.inf, x=x, first=7,
            row_stride=row_stride, rows=rows, vectors=vectors, max_bytes=1 << 24, y=y,
        )  # fmt: skip
        each = outputs // groups
        for group in range(groups):
            patch = np.stack(
                [
                    np.concatenate(
                        [
                            x[7 + o + group * group_stride + r * row_stride :][:floats]
                            for r in range(rows)
                        ]
                    )
                    for o in offsets
                ]
            )
            own = slice(group * each, (group + 1) * each)
            wanted = np.maximum(weights[own] @ patch + bias[own, None], 0)
            np.testing.assert_allclose(y[own], wanted, rtol=1e-3, atol=1e-3)


def test_code_larger_than_its_limit_is_not_made():
    form = FORMS[0]
    if not runnable(form):
        pytest.skip("needs AVX2")
    y = np.empty((4, 64), np.float32)
    weights, x = np.ones((4, 100), np.float32), np.zeros(10000, np.float32)
    assert not _native.run_generated(
        form=form, weights=weights, groups=1, block_taps=100,
        offsets=np.arange(100, dtype=np.int32), group_stride=0, bias=np.zeros(4, np.float32),
        low=0.0, high=1.0, x=x, first=0, row_stride=0, rows=1, vectors=8, max_bytes=4096, y=y,
    )  # fmt: skip


def network(tmp_path, sparsity: float, name: str = "net"):
    """A convolution and a chained one, wide enough that code is worth it, with remainders."""
    builder = Builder(16, 23, 29)
    builder.conv(16, 24, (3, 3), padding=(1, 1), sparsity=sparsity)
    builder.add("relu")
    builder.conv(24, 30, (1, 1), sparsity=sparsity)
    path = tmp_path / f"{name}.skinny"
    packing.write(path, builder.tensors, graph=builder.graph())
    return builder, path


# Layers in which a non-zero needs as much code as possible: what belongs to an output channel, to a
# group of the convolution and to a block of taps is shared by as few as possible.
WASTEFUL = {
    "one of many outputs": (64, 512, (1, 1), 1),
    "many blocks": (512, 64, (3, 3), 1),
    "groups of one output": (256, 64, (1, 1), 64),
    "groups of two outputs": (128, 64, (3, 3), 32),
    "large kernels": (8, 64, (9, 9), 1),
}


@pytest.mark.parametrize("kept", [1, 2, 3, 4])  # of an output channel
@pytest.mark.parametrize("layer", WASTEFUL)
def test_code_is_bounded_by_the_non_zeros_of_a_file(layer, kept, tmp_path):
    inputs, outputs, kernel, groups = WASTEFUL[layer]
    builder = Builder(inputs, 20, 20)
    builder.conv(inputs, outputs, kernel, groups=groups, sparsity=0)
    builder.add("relu6")
    weight = builder.tensors["t0.weight"].reshape(outputs, -1)
    for row in weight:
        row[builder.rng.permutation(weight.shape[1])[kept:]] = 0
    packing.write(tmp_path / "net.skinny", builder.tensors, graph=builder.graph())
    net = load(tmp_path / "net.skinny", threads=2)
    for batch in (1, 32):
        code = sum(row.code_bytes for row in net.profile(batch, 1).rows)
        each = 64 if _native.isa() == "avx512" else 128  # AVX2: eight FMAs each
        assert code <= each * np.count_nonzero(weight) + 4096  # a page
        assert code or kept < 2 or _native.isa() != "avx512"


@pytest.mark.parametrize("sparsity", [0.5, 0.8])
def test_networks_run_on_generated_code_and_say_so(tmp_path, monkeypatch, sparsity):
    builder, path = network(tmp_path, sparsity)
    for images in (1, 21):
        x = builder.batch(images)
        wanted = reference.run(builder.graph(), builder.tensors.__getitem__, x)[0]
        found = {}
        for jit in ("0", "1"):
            monkeypatch.setenv("SKINNY_JIT", jit)
            for threads in (1, 3):
                net = load(path, threads=threads)
                np.testing.assert_allclose(net(x), wanted, rtol=1e-4, atol=1e-4)
            found[jit] = net.profile(batch=images, repeats=1)
        assert not any(row.code_bytes for row in found["0"].rows)
        assert "generated" not in str(found["0"])
        if _native.isa() in ("avx2", "avx512"):
            assert any(row.code_bytes and row.of_peak for row in found["1"].rows)
            assert "generated" in str(found["1"])


def test_rows_that_no_window_looks_at_leave_the_others_alone(tmp_path):
    """The rows of a pooled layer share places where its windows have gaps between them."""
    builder = Builder(3, 4, 5)
    builder.conv(3, 4, (3, 3), padding=(1, 1))
    builder.add("tanh")
    builder.max_pool((1, 1), stride=(2, 1))
    path = tmp_path / "gaps.skinny"
    packing.write(path, builder.tensors, graph=builder.graph())
    for images in (1, 8, 16):
        x = builder.batch(images)
        wanted = reference.run(builder.graph(), builder.tensors.__getitem__, x)[0]
        np.testing.assert_allclose(load(path)(x), wanted, rtol=1e-4, atol=1e-5)
