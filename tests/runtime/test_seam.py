"""The engine refuses a planner's mistakes: no step that is added can make a kernel leave the arena.

For each `add_*` a call that is right, and the same call with one argument wrong.
"""

import numpy as np
import pytest

from skinny.runtime.layout import compact, padded
from skinny.runtime.windows import Axis

native = pytest.importorskip("skinny._native", reason="the native extension was not built")

POSITIONS = 4096
HUGE = (2**31, 2**32, 2**62, 2**63, 2**64 - 1)  # products and sums of these overflow
IMAGE = compact((4, 8, 8))
PADDED = padded((4, 8, 8), (1, 1))
SIX = compact((6, 8, 8))._replace(offset=1024)
RESULT = compact((4, 8, 8))._replace(offset=2048)
NONE = native.Activation(native.ActivationKind.none)


def begun(mode=native.Mode.single):
    engine = native.Engine()
    target = compact((10,))._replace(offset=1024)
    engine.begin(mode=mode, positions=POSITIONS, source=IMAGE, target=target)
    return engine


def ints(*values):
    return np.array(values, np.int32)


def floats(count):
    return np.zeros(count, np.float32)


def axis(begin=(0, 2, 4, 6), end=(2, 4, 6, 8), scale=4, dilation=1):
    return Axis(ints(*begin), ints(*end), floats(scale), dilation)


def pool(rows=None, columns=None):
    return native.Pool(max=True, rows=rows or axis(), columns=columns or axis())


def conv(outputs=6, taps=4, **arguments):
    given = {"groups": 1, "block_taps": taps, "ranges": 1, "dense": False}
    given["weights"] = np.ones((outputs, taps), np.float32)
    return native.ConvWeights(**{**given, **arguments})


def stage(weights=None, bias=6, offsets=(0, 1, 2, 3), group_stride=0, **arguments):
    return native.Stage(
        weights=weights or conv(**arguments),
        offsets=ints(*offsets),
        group_stride=group_stride,
        bias=floats(bias),
        low=-1,
        high=1,
        activation=NONE,
    )


def direct(*shape):
    return native.DirectWeights(weights=np.ones(shape, np.float32))


def linear(rows=3, columns=8, mask=(255, 255, 255), values=24):
    mask = np.array(mask, np.uint8)
    return native.LinearWeights(mask=mask, values=floats(values), rows=rows, columns=columns)


CHAIN = {
    "source": PADDED,
    "target": SIX,
    "height": 8,
    "width": 8,
    "first": 0,
    "flat": False,
    "tile_rows": 2,
    "tile_vectors": 1,
    "split_channels": False,
    "stages": [stage()],
    "pool": None,
    "residual": None,
    "low": 0.0,
    "high": 1.0,
}
POOLED = {"target": compact((6, 4, 4))._replace(offset=1024), "tile_rows": 1, "pool": pool()}
LONG = compact((6, 1, 64))._replace(offset=1024)
ONE_ROW = {
    **{"source": compact((4, 1, 96)), "target": LONG, "height": 1, "width": 64, "tile_rows": 1},
    "image_rows": (8, 7, 8),
}
RIGHT = {
    "add_chain": CHAIN,
    "add_depthwise": {
        "source": IMAGE,
        "target": RESULT,
        "weights": np.ones((4, 3, 3), np.float32),
        **dict.fromkeys(("stride", "padding", "dilation"), (1, 1)),
        "bias": floats(4),
        "low": -1,
        "high": 1,
        "activation": NONE,
    },
    "add_direct_conv": {
        "source": IMAGE,
        "target": RESULT,
        "weights": direct(4, 4, 3, 3),
        **dict.fromkeys(("stride", "padding"), (1, 1)),
        "bias": floats(4),
        "low": -1,
        "high": 1,
        "activation": NONE,
    },
    "add_linear": {
        "source": compact((8,)),
        "target": compact((3,))._replace(offset=64),
        "weights": linear(),
        "bias": floats(3),
        "activation": NONE,
    },
    "add_pool": {
        "source": PADDED,
        "target": compact((4, 4, 4))._replace(offset=1024),
        "pool": pool(),
    },
    "add_space_to_depth": {
        "source": IMAGE,
        "target": compact((16, 4, 4))._replace(offset=1024),
        "stride": (2, 2),
        "rows": [0, 0, 1, 1],
        "columns": [0, 1, 0, 1],
    },
    "add_activate": {"source": IMAGE, "target": RESULT, "activation": NONE},
    "add_scale": {
        "source": IMAGE,
        "target": RESULT,
        "scale": floats(4),
        "shift": floats(4),
        "activation": NONE,
    },
    "add_lrn": {"source": IMAGE, "target": RESULT, "size": 5, "alpha": 1.0, "beta": 0.75, "k": 1.0},
    "add_add": {
        "left": IMAGE,
        "right": compact((4,))._replace(offset=512),
        "target": RESULT,
        "shape": (1, 1, 4, 64),
        "left_strides": (0, 0, 64, 1),
        "right_strides": (0, 0, 1, 0),
    },
    "add_concat": {
        "sources": [IMAGE, compact((2, 8, 8))._replace(offset=512)],
        "target": SIX,
        "outer": 1,
    },
    "add_softmax": {
        "source": IMAGE,
        "target": RESULT,
        "outer": 1,
        "axis": 4,
        "inner": 64,
        "log": False,
    },
}
COMPACT = {"add_linear", "add_activate", "add_scale", "add_lrn", "add_add", "add_softmax"}


def call(method, mode=native.Mode.single, **arguments):
    getattr(begun(mode), method)(mode=mode, **{**RIGHT[method], **arguments})


@pytest.mark.parametrize("method", RIGHT)
def test_a_right_step_is_added(method):
    call(method)


def test_a_pooled_chain_and_one_of_a_long_row_are_added():
    call("add_chain", **POOLED)
    call("add_chain", **ONE_ROW)


def test_every_way_to_add_a_step_is_tested():
    assert set(RIGHT) == {name for name in dir(native.Engine) if name.startswith("add_")}


VIEWS = [
    (method, name)
    for method, arguments in RIGHT.items()
    for name in arguments
    if name in ("source", "target", "left", "right")
]


@pytest.mark.parametrize(("method", "name"), VIEWS)
def test_a_view_that_leaves_the_arena_is_refused(method, name):
    view = RIGHT[method][name]
    last = view.origin + (view.height - 1) * view.row_stride + view.width - 1
    wrong = [
        view._replace(offset=POSITIONS),
        view._replace(offset=POSITIONS - view.positions + 1),
        view._replace(channels=0),
        view._replace(height=0),
        view._replace(width=0),
        view._replace(row_stride=view.width - 1, height=2, channel_stride=10**6),
        view._replace(channel_stride=last),
        view._replace(width=view.channel_stride + 1),
        # channels * stride and rows * stride that wrap around to something small
        view._replace(channels=2**32, channel_stride=2**32),
        view._replace(height=2**32 + 1, row_stride=2**32, channel_stride=10**6),
    ]
    wrong += [view._replace(**{field: huge}) for field in view._fields for huge in HUGE]
    for bad in wrong:
        with pytest.raises(ValueError, match="a view"):
            call(method, **{name: bad})


@pytest.mark.parametrize(
    ("method", "name"), [pair for pair in VIEWS if pair[1] in ("source", "left", "right")]
)
def test_a_step_that_writes_what_it_reads_is_refused(method, name):
    target = RIGHT[method]["target"]
    with pytest.raises(ValueError, match="must not write what it reads"):
        call(method, **{name: RIGHT[method][name]._replace(offset=target.offset + 1)})


@pytest.mark.parametrize(("method", "name"), [pair for pair in VIEWS if pair[0] in COMPACT])
def test_a_step_on_compact_values_refuses_padding(method, name):
    view = RIGHT[method][name]
    with pytest.raises(ValueError, match="compact"):
        call(method, **{name: view._replace(channel_stride=view.channel_stride + 1)})


TAIL = native.Mode.tail
INTERLEAVED = native.Mode.interleaved
MISTAKES = [
    ("add_chain", {"mode": TAIL}, "belongs to a head"),
    ("add_depthwise", {"mode": TAIL}, "one image at a time"),
    ("add_depthwise", {"mode": native.Mode.interleaved}, "one image at a time"),
    ("add_depthwise", {"weights": np.ones((3, 3, 3), np.float32)}, "a kernel and a bias"),
    ("add_depthwise", {"bias": floats(3)}, "a kernel and a bias"),
    ("add_depthwise", {"target": IMAGE}, "must not write what it reads"),
    ("add_direct_conv", {"mode": TAIL}, "one image at a time"),
    ("add_direct_conv", {"mode": native.Mode.interleaved}, "one image at a time"),
    ("add_direct_conv", {"weights": direct(4, 3, 3, 3)}, "a kernel for each pair"),
    ("add_direct_conv", {"bias": floats(3)}, "a bias for each output channel"),
    ("add_direct_conv", {"target": IMAGE}, "must not write what it reads"),
    ("add_chain", {"first": POSITIONS}, "read from the arena"),
    ("add_chain", {"residual": SIX._replace(offset=POSITIONS)}, "in the arena"),
    ("add_chain", {"residual": SIX}, "what it reads"),
    ("add_chain", {"residual": SIX._replace(offset=0, channels=5)}, "the shape"),
    ("add_chain", {**POOLED, "residual": SIX._replace(offset=0)}, "before pooling"),
    ("add_chain", {"image_rows": (8, 8, 8)}, "one long row"),
    ("add_chain", {**ONE_ROW, "mode": INTERLEAVED}, "one long row"),
    ("add_chain", {**ONE_ROW, "residual": LONG._replace(offset=0)}, "one long row"),
    *(
        ("add_chain", {**ONE_ROW, "image_rows": rows}, "lie in the long one")
        for rows in [
            (0, 7, 8),
            (9, 7, 8),
            (8, 9, 8),
            (8, 0, 8),
            (2, 7, 58),
            (1, 7, 8),
            (2**62, 1, 8),
            (2, 1, 2**62),
        ]
    ),
    *(("add_chain", {"first": huge}, "in the arena") for huge in HUGE),
    *(("add_chain", {**POOLED, "height": huge}, "arena") for huge in (0, POSITIONS, *HUGE)),
    *(("add_chain", {**POOLED, "width": huge}, "arena") for huge in (0, POSITIONS, *HUGE)),
    ("add_chain", {"height": 7}, "fill its output"),
    ("add_chain", {"width": 7}, "fill its output"),
    *(("add_chain", {"tile_rows": rows}, "fit the registers") for rows in (0, 9, *HUGE)),
    *(("add_chain", {"tile_vectors": count}, "fit the registers") for count in (0, 5, *HUGE)),
    ("add_chain", {"tile_rows": 3, "tile_vectors": 3}, "fit the registers"),
    ("add_chain", {"tile_rows": 2**63, "tile_vectors": 2}, "fit the registers"),
    ("add_chain", {"flat": True, "mode": INTERLEAVED}, "laid out flat"),
    ("add_chain", {"flat": True, "source": compact((4, 8, 7))}, "laid out flat"),
    ("add_chain", {"stages": []}, "one stage"),
    ("add_chain", {"stages": [stage(), stage()], "split_channels": True}, "one stage"),
    ("add_chain", {"stages": [stage(offsets=(0, 1, 2, POSITIONS))]}, "in the arena"),
    ("add_chain", {"stages": [stage(offsets=(0, 1, 2, 2**31 - 1))]}, "in the arena"),
    ("add_chain", {"stages": [stage(groups=2, group_stride=POSITIONS)]}, "in the arena"),
    ("add_chain", {"stages": [stage(groups=3, group_stride=2**31 - 1)]}, "in the arena"),
    ("add_chain", {"stages": [stage(), stage(offsets=(0, 1, 2, 10**4))]}, "scratch buffer"),
    ("add_chain", {"stages": [stage(outputs=5, bias=5)]}, "output's channels"),
    ("add_chain", {**POOLED, "tile_rows": 2}, "row by row"),
    ("add_chain", {**POOLED, "flat": True}, "row by row"),
    ("add_chain", {**POOLED, "split_channels": True}, "row by row"),
    ("add_chain", {**POOLED, "pool": pool(rows=axis(end=(2, 4, 6, 9)))}, "lie in its input"),
    ("add_chain", {**POOLED, "pool": pool(columns=axis(end=(2, 4, 6, 9)))}, "lie in its input"),
    ("add_chain", {**POOLED, "pool": pool(axis((0,), (8,), 1))}, "for each output"),
    ("add_chain", {**POOLED, "pool": pool(None, axis((0,), (8,), 1))}, "for each output"),
    ("add_linear", {"source": compact((7,))}, "sizes must agree"),
    ("add_linear", {"target": compact((4,))._replace(offset=64)}, "sizes must agree"),
    ("add_linear", {"bias": floats(2)}, "sizes must agree"),
    ("add_linear", {"weights": linear(8, 3)}, "sizes must agree"),
    ("add_pool", {"mode": TAIL}, "belongs to a head"),
    ("add_pool", {"target": compact((5, 4, 4))._replace(offset=1024)}, "keeps the channels"),
    ("add_pool", {"pool": pool(rows=axis(end=(2, 4, 6, 9)))}, "lie in its input"),
    ("add_pool", {"pool": pool(columns=axis(end=(2, 4, 6, 9)))}, "lie in its input"),
    ("add_pool", {"pool": pool(axis((0,), (8,), 1))}, "for each output"),
    ("add_pool", {"pool": pool(None, axis((0,), (8,), 1))}, "for each output"),
    *(("add_space_to_depth", {"stride": (s, 2)}, "stride") for s in (0, -1, 2**31, 2**63 - 1)),
    *(("add_space_to_depth", {"stride": (2, s)}, "stride") for s in (0, -1, 2**31, 2**63 - 1)),
    ("add_space_to_depth", {"rows": [], "columns": []}, "a row and a column"),
    ("add_space_to_depth", {"rows": [0, 0, 1]}, "a row and a column"),
    ("add_space_to_depth", {"rows": [0], "columns": [0]}, "a row and a column"),
    ("add_space_to_depth", {"rows": [0, 0, 1, 2**62]}, "too far away"),
    ("add_space_to_depth", {"columns": [0, 0, 1, -(2**63)]}, "too far away"),
    ("add_activate", {"target": compact((4, 8, 7))._replace(offset=2048)}, "keeps the size"),
    ("add_scale", {"scale": floats(3)}, "for each channel"),
    ("add_scale", {"shift": floats(5)}, "for each channel"),
    ("add_scale", {"target": compact((8, 4, 8))._replace(offset=2048)}, "for each channel"),
    ("add_scale", {"target": compact((4, 8, 7))._replace(offset=2048)}, "for each channel"),
    ("add_lrn", {"size": 0}, "keeps the shape"),
    ("add_lrn", {"target": compact((8, 4, 8))._replace(offset=2048)}, "keeps the shape"),
    ("add_lrn", {"target": compact((4, 8, 7))._replace(offset=2048)}, "keeps the shape"),
    ("add_add", {"shape": (1, 0, 4, 64)}, "sizes must lie"),
    ("add_add", {"shape": (1, 1, 4, 63)}, "in its operands"),
    ("add_add", {"shape": (2, 1, 4, 64)}, "in its operands"),
    ("add_add", {"left_strides": (0, 0, 65, 1)}, "in its operands"),
    ("add_add", {"right_strides": (0, 0, 2, 0)}, "in its operands"),
    ("add_add", {"left_strides": (0, 0, 2**63, 1)}, "sizes must lie"),
    ("add_add", {"right_strides": (0, 0, 2**63, 1)}, "sizes must lie"),
    ("add_add", {"shape": (2**32, 2**32, 1, 1), "left_strides": (0,) * 4}, "sizes must lie"),
    (
        "add_add",  # the product of the shape wraps around to the target's size
        {"shape": (2**30, 2**30, 2**4 + 1, 256), "left_strides": (0,) * 4},
        "too large",
    ),
    ("add_concat", {"sources": []}, "fill the output"),
    ("add_concat", {"sources": [IMAGE]}, "fill the output"),
    ("add_concat", {"sources": [IMAGE, SIX]}, "must not write what it reads"),
    ("add_concat", {"sources": [IMAGE, PADDED]}, "compact"),
    ("add_concat", {"sources": [IMAGE, RESULT._replace(offset=POSITIONS)]}, "in the arena"),
    *(("add_concat", {"outer": outer}, "divide evenly") for outer in (0, 3, *HUGE)),
    ("add_softmax", {"axis": 5}, "keeps the size"),
    ("add_softmax", {"axis": 0}, "keeps the size"),
    ("add_softmax", {"target": compact((4, 8, 7))._replace(offset=2048)}, "keeps the size"),
    ("add_softmax", {"outer": 2**32, "axis": 2**32, "inner": 1}, "too large"),
    ("add_softmax", {"outer": 2**63, "axis": 4, "inner": 64}, "too large"),
]


@pytest.mark.parametrize(("method", "wrong", "reason"), MISTAKES)
def test_a_step_that_does_not_fit_is_refused(method, wrong, reason):
    with pytest.raises(ValueError, match=reason):
        call(method, **wrong)


BROKEN = [
    (stage, {"bias": 5}, "one bias for each output"),
    (conv, {"groups": 4}, "sizes must agree"),
    (conv, {"groups": 0}, "sizes must agree"),
    (conv, {"block_taps": 0}, "sizes must agree"),
    (conv, {"ranges": 0}, "sizes must agree"),
    (conv, {"outputs": 0}, "sizes must agree"),
    (conv, {"taps": 0, "block_taps": 1}, "sizes must agree"),
    (conv, {"taps": 2**16, "outputs": 1}, "too many taps"),
    (stage, {"offsets": (0, 1, 2)}, "one offset for each tap"),
    (stage, {"offsets": (0, 1, 2, -1)}, "must not be negative"),
    (stage, {"offsets": (0, 1, 2, 4), "block_taps": 2}, "must be alike"),
    (stage, {"group_stride": -1, "groups": 2}, "groups must lie in the arena"),
    (stage, {"group_stride": 2**62, "groups": 6}, "groups must lie in the arena"),
    (linear, {"rows": 0}, "one bit for each weight"),
    (linear, {"mask": (255, 255)}, "one bit for each weight"),
    (linear, {"rows": 2**32, "columns": 2**32, "mask": ()}, "too large"),
    (linear, {"values": 23}, "one value for each one"),
    (linear, {"values": 25}, "one value for each one"),
    (linear, {"values": 2}, "one value for each one"),
    (linear, {"values": 2, "mask": (1, 0, 0)}, "one value for each one"),
    (pool, {"rows": axis(begin=(-1, 2, 4, 6))}, "must not be empty"),
    (pool, {"rows": axis(begin=(2, 2, 4, 6))}, "must not be empty"),
    (pool, {"columns": axis(begin=(0, 2, 4, 8))}, "must not be empty"),
    (pool, {"rows": axis(dilation=0)}, "for each output"),
    (pool, {"rows": axis(scale=3)}, "for each output"),
    (pool, {"columns": axis(end=(2, 4, 6))}, "for each output"),
    (pool, {"columns": axis((), (), 0)}, "for each output"),
]


@pytest.mark.parametrize(("make", "wrong", "reason"), BROKEN)
def test_weights_and_windows_that_do_not_fit_are_refused(make, wrong, reason):
    with pytest.raises(ValueError, match=reason):
        make(**wrong)


def test_a_step_for_a_program_that_was_not_begun_is_refused():
    for method, arguments in RIGHT.items():
        with pytest.raises(ValueError, match="in the arena"):
            getattr(native.Engine(), method)(mode=native.Mode.single, **arguments)
