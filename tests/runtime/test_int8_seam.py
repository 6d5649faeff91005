"""Steps in int8 that would leave the arena, or write what they read, are refused when added."""

import numpy as np
import pytest

from skinny.runtime.layout import compact, padded
from skinny.runtime.strided import Tensor, row_major
from skinny.runtime.windows import Axis

native = pytest.importorskip("skinny._native")
Int8Matrix, Int8Table, Int8Weights = native.Int8Matrix, native.Int8Table, native.Int8Weights
Pool, TensorProgram = native.Pool, native.TensorProgram

CELLS = 1000


def view(offset, *shape, around=0):
    made = padded(shape, (around, around)) if around else compact(shape)
    return made._replace(offset=offset)


def floats(offset, *shape):
    return Tensor(0, offset, shape, row_major(shape))


def weights(outputs=4, taps=2):
    ones = np.ones(outputs, np.float32)
    return Int8Weights(quads=np.ones((outputs, 4 * taps), np.int8), zero=0, scale=ones, bias=ones)


def conv(**given):
    usual = {
        "samples": 1, "source": view(0, 2, 5, 5), "source_stride": 0, "height": 5, "width": 5,
        "first": 0, "offsets": np.array([0, 25], np.int32), "weights": weights(),
        "cells": view(100, 1, 5, 5), "cells_stride": 0, "floats": None, "scale": 1.0, "zero": 0,
        "low": 0.0, "high": 255.0, "added_cells": None, "added_stride": 0, "added_floats": None,
        "added_scale": 1.0, "added_zero": 0,
    }  # fmt: skip
    TensorProgram(cells=CELLS).add_conv_int8(**{**usual, **given})


def test_a_convolution_that_fits_is_taken():
    conv()
    conv(cells=None, floats=floats(100, 1, 4, 5, 5), low=-np.inf, high=np.inf)


@pytest.mark.parametrize("given", [
    {"cells": None},
    {"floats": floats(200, 1, 4, 5, 5)},
    {"samples": 3, "source_stride": 50, "cells_stride": 25, "cells": view(40, 1, 5, 5)},
    {"samples": 99, "source_stride": 50},
    {"samples": 2, "source_stride": 10},
    {"source": view(980, 2, 5, 5)},
    {"cells": view(20, 1, 5, 5)},
    {"cells": view(990, 1, 5, 5)},
    {"cells": view(100, 2, 5, 5)},
    {"cells": view(100, 1, 4, 5)},
    {"offsets": np.array([0], np.int32)},
    {"offsets": np.array([0, -1], np.int32)},
    {"offsets": np.array([0, 2000], np.int32)},
    {"first": 1 << 20},
    {"width": 6},
    {"height": 0},
    {"scale": 0.0},
    {"scale": np.nan},
    {"zero": 256},
    {"low": -1.0},
    {"high": 256.0},
    {"low": np.nan},
    {"added_cells": view(110, 1, 5, 5)},
    {"added_cells": view(200, 1, 5, 4)},
    {"added_cells": view(200, 1, 5, 5), "added_floats": floats(300, 1, 4, 5, 5)},
    {"added_floats": floats(100, 1, 4, 5, 5)},
    {"added_floats": floats(950, 1, 4, 5, 5)},
], ids=str)  # fmt: skip
def test_a_convolution_that_does_not_fit_is_refused(given):
    with pytest.raises((ValueError, TypeError)):
        conv(**given)


@pytest.mark.parametrize(("name", "given"), [
    ("add_quantize", {"source": floats(0, 1, 4, 5, 5), "target": view(90, 1, 5, 5), "stride": 0,
                      "scale": 1.0, "zero": 0}),
    ("add_quantize", {"source": floats(0, 1, 5, 5, 5), "target": view(200, 1, 5, 5), "stride": 0,
                      "scale": 1.0, "zero": 0}),
    ("add_quantize_rows", {"source": floats(0, 2, 64), "target": 200, "stride": 15, "scale": 1.0,
                           "zero": 0}),
    ("add_quantize_rows", {"source": floats(0, 2, 64), "target": 980, "stride": 16, "scale": 1.0,
                           "zero": 0}),
    ("add_dequantize", {"source": view(0, 1, 5, 5), "stride": 0,
                        "target": floats(20, 1, 4, 5, 5), "scale": 1.0, "zero": 0}),
    ("add_move_cells", {"samples": 1, "source": view(0, 1, 5, 5), "source_stride": 0,
                        "target": view(100, 3, 5, 5), "target_stride": 0, "stride": (1, 1),
                        "rows": [0], "columns": [0], "zero": 0}),
    ("add_move_cells", {"samples": 1, "source": view(0, 1, 5, 5), "source_stride": 0,
                        "target": view(20, 1, 5, 5), "target_stride": 0, "stride": (1, 1),
                        "rows": [0], "columns": [0], "zero": 0}),
    ("add_linear_int8", {"source": 0, "source_stride": 8, "target": floats(100, 1, 3),
                         "weights": "matrix", "low": 0.0, "high": 1.0}),
    ("add_linear_int8", {"source": 90, "source_stride": 16, "target": floats(100, 1, 3),
                         "weights": "matrix", "low": 0.0, "high": 1.0}),
])  # fmt: skip
def test_other_steps_that_do_not_fit_are_refused(name, given):
    if given.get("weights") == "matrix":
        ones = np.ones(3, np.float32)
        made = Int8Matrix(weights=np.ones((3, 40), np.int8), zero=0, scale=ones, bias=ones)
        given = {**given, "weights": made}
    with pytest.raises(ValueError):  # noqa: PT011
        getattr(TensorProgram(cells=CELLS), name)(**given)


@pytest.mark.parametrize(("index", "target"), [((2,), (2, 4)), ((2,), (3, 3)), ((2, 1), (2, 3))])
def test_rows_of_a_table_go_where_their_shape_fits(index, target):
    table = Int8Table(integers=np.ones((5, 3), np.int8), scale=np.ones(5, np.float32))
    program = TensorProgram(cells=CELLS)
    program.add_gather_int8(table=table, index=floats(0, 2), target=floats(100, 2, 3))
    with pytest.raises(ValueError, match="gathered rows"):
        program.add_gather_int8(table=table, index=floats(0, *index), target=floats(100, *target))
    with pytest.raises(ValueError, match="reads"):
        program.add_gather_int8(table=table, index=floats(0, 2), target=floats(1, 2, 3))
    with pytest.raises(ValueError, match="scale for each row"):
        Int8Table(integers=np.ones((5, 3), np.int8), scale=np.ones(4, np.float32))


def test_pooling_windows_outside_of_the_cells_are_refused():
    axis = Axis(np.array([0, 4], np.int32), np.array([2, 6], np.int32), np.ones(2, np.float32), 1)
    inside = Axis(np.array([0, 2], np.int32), np.array([2, 4], np.int32), np.ones(2, np.float32), 1)
    for rows, columns, fits in ((inside, inside, True), (axis, inside, False)):
        program = TensorProgram(cells=CELLS)
        given = {
            "samples": 1, "source": view(0, 1, 5, 5), "source_stride": 0,
            "target": view(100, 1, 2, 2, around=1), "target_stride": 0,
            "pool": Pool(max=True, rows=rows, columns=columns), "zero": 3,
        }  # fmt: skip
        if fits:
            program.add_pool_cells(**given)
        else:
            with pytest.raises(ValueError, match="window"):
                program.add_pool_cells(**given)
