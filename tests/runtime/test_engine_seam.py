"""The engine refuses programs and batches that do not fit (test_seam.py: steps)."""

import numpy as np
import pytest

from skinny.runtime.layout import compact, padded

native = pytest.importorskip("skinny._native", reason="the native extension was not built")

POSITIONS = 4096
HUGE = (2**31, 2**32, 2**62, 2**63, 2**64 - 1)  # products and sums of these overflow
IMAGE = compact((4, 8, 8))
PADDED = padded((4, 8, 8), (1, 1))


def begun():
    engine = native.Engine()
    target = compact((10,))._replace(offset=1024)
    engine.begin(mode=native.Mode.single, positions=POSITIONS, source=IMAGE, target=target)
    return engine


def floats(count):
    return np.zeros(count, np.float32)


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        *(({"positions": huge}, "too large to address") for huge in HUGE),
        ({"positions": 255}, "in the arena"),
        ({"source": IMAGE._replace(offset=POSITIONS)}, "in the arena"),
        ({"target": IMAGE._replace(offset=POSITIONS)}, "in the arena"),
        ({"target": PADDED}, "compact"),
        ({"source": PADDED, "mode": native.Mode.tail}, "compact"),
    ],
)
def test_a_program_that_does_not_fit_its_arena_is_refused(wrong, reason):
    right = {
        "mode": native.Mode.single,
        "positions": POSITIONS,
        "source": IMAGE,
        "target": compact((10,)),
    }
    with pytest.raises(ValueError, match=reason):
        native.Engine().begin(**{**right, **wrong})


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        ({"y": np.zeros((2, 9), np.float32)}, "outputs"),
        ({"y": np.zeros((0, 10), np.float32)}, "outputs"),
        ({"y": np.zeros((3, 10), np.float32)}, "whole images"),
        ({"x": floats(2 * 256 - 1)}, "whole images"),
        ({"x": floats(0)}, "whole images"),
        *(({"threads": threads}, "1 to 1024") for threads in (0, 1025, *HUGE)),
    ],
)
def test_a_batch_that_does_not_fit_is_refused(wrong, reason):
    engine = begun()
    ten = compact((10,))
    engine.begin(mode=native.Mode.tail, positions=64, source=ten, target=ten)
    right = {"x": floats(2 * 256), "y": np.zeros((2, 10), np.float32), "threads": 1, "timed": False}
    engine.run_floats(**right)
    with pytest.raises(ValueError, match=reason):
        engine.run_floats(**{**right, **wrong})


@pytest.mark.parametrize(("scale", "shift"), [(3, 3), (4, 3), (3, 4), (0, 0)])
def test_preprocessing_has_a_scale_and_a_shift_for_each_channel(scale, shift):
    engine = begun()
    engine.begin(mode=native.Mode.tail, positions=64, source=compact((10,)), target=compact((10,)))
    x, y = np.zeros(256, np.uint8), np.zeros((1, 10), np.float32)
    arguments = {"x": x, "y": y, "threads": 1, "timed": False}
    engine.run_bytes(**arguments, scale=floats(4), shift=floats(4))
    with pytest.raises(ValueError, match=r"(is|are) needed"):
        engine.run_bytes(**arguments, scale=floats(scale), shift=floats(shift))


@pytest.mark.parametrize(("made", "read"), [(10, 12), (12, 10)])
def test_a_vector_begins_with_what_the_prefix_makes(made, read):
    engine, ten = begun(), compact((10,))
    engine.begin(mode=native.Mode.prefix, positions=1024, source=IMAGE, target=compact((made,)))
    engine.begin(mode=native.Mode.interleaved, positions=64, source=compact((read,)), target=ten)
    engine.begin(mode=native.Mode.tail, positions=64, source=ten, target=ten)
    y = np.zeros((16, 10), np.float32)
    with pytest.raises(ValueError, match="whole images"):
        engine.run_floats(x=floats(16 * 256), y=y, threads=2, timed=False)


def test_a_batch_for_a_network_without_programs_is_refused():
    y = np.zeros((1, 1), np.float32)
    with pytest.raises(ValueError, match="outputs"):
        native.Engine().run_floats(x=floats(1), y=y, threads=1, timed=False)
