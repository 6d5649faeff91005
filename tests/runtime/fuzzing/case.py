"""One case: a file made from a seed, and what the runtime does with it.

`judge` loads the file, calls it with three batches and compares with the NumPy reference. Equal
outputs or a `SkinnyError` are right; anything else is a finding.
"""

import json
import signal
import time
import traceback
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any
from unittest import mock

import numpy as np
from tests.packing.reseal import put_together, take_apart
from tests.runtime.fuzzing.mutations import Parts, mutate
from tests.runtime.fuzzing.networks import network, preprocessing

from skinny import packing
from skinny.errors import SkinnyError
from skinny.runtime import load, reference
from skinny.runtime.weights import Weights

BATCHES = (1, 3, 17, 1)  # the second 1: what was planned for the others changes nothing
MAX_MEMORY = 1 << 25
LARGEST_INPUT = 1 << 22  # floats of a batch the fuzzer itself makes
MOST_SECONDS = 10  # of processor time, to load a file and to run one image
LONG_CALL = 0.5  # after one of so many seconds larger batches would only repeat it
REFERENCE_SECONDS = 3
TAME = 1e15  # squares of such values are still finite
LONGEST_MESSAGE = 600
Outcome = dict[str, Any]


class FindingError(Exception):
    """What a file must not do."""


def make(seed: int, path: Path, skip: Collection[int] = ()) -> list[str]:
    """Writes the file of a seed, without the changes at the indices in `skip`; the changes."""
    rng = Random(seed)
    builder, graph = network(rng)
    packing.write(
        path,
        builder.tensors,
        graph=graph,
        preprocessing=preprocessing(rng, builder.shape),
        values=rng.choice(["exact", "exact", "fp16", "bf16", "int8"]),
    )
    parts = Parts(*take_apart(path.read_bytes()))
    count = rng.choice([0, 1, 1, 1, 2, 2, 3])
    changes = [mutate(f"{seed}/{at}", parts) for at in range(count) if at not in skip]
    write(path, parts)
    return changes


def write(path: Path, parts: Parts) -> None:
    path.write_bytes(put_together(*parts))


def judge(path: Path, seed: int) -> Outcome:
    """`outcome` is ran, refused or finding; `what` says how, `compared` how many batches."""
    rng = Random(f"call {seed}")
    options = {"threads": rng.randint(1, 3), "low_memory": rng.random() < 0.15}
    try:
        return _judge(path, rng, options)
    except FindingError as found:
        return {"outcome": "finding", "what": str(found), "detail": str(options)}
    except SkinnyError as refused:
        return _refused(refused)
    except Exception as error:  # a traceback where one sentence should be
        frame = traceback.extract_tb(error.__traceback__)[-1]
        what = f"{type(error).__name__} in {Path(frame.filename).name}, {frame.name}"
        detail = f"{options}\n{traceback.format_exc()}"
        return {"outcome": "finding", "what": what, "detail": detail}


def _refused(error: SkinnyError) -> Outcome:
    name, text = type(error).__name__, str(error)
    if not text or "\n" in text or len(text) > LONGEST_MESSAGE:
        what = f"the message of a {name} is not one sentence"
        return {"outcome": "finding", "what": what, "detail": text}
    return {"outcome": "refused", "what": name}


def _judge(path: Path, rng: Random, options: dict[str, Any]) -> Outcome:
    started = time.process_time()
    net = load(path, max_memory=MAX_MEMORY, **options)
    _check_time("load", started)
    with mock.patch("skinny.native.extension", return_value=None):
        plain = load(path, max_memory=MAX_MEMORY)
    compared, first = 0, None
    for batch in BATCHES:
        if batch * int(np.prod(net.input_shape)) > LARGEST_INPUT:
            break
        x = _images(net, batch, seed=rng.randrange(1 << 30) if batch > 1 else 1)
        started = time.process_time()
        result = net(x)
        _check_time("run", started)
        results = _arrays(result)
        if batch == 1:
            if first is not None and not all(map(_identical, first, results)):
                raise FindingError("another output when the same image is given again")
            first = results
        compared += _compare(path, plain, x, results)
        if time.process_time() - started > LONG_CALL:
            break
    return {"outcome": "ran", "what": "compared" if compared else "only ran", "compared": compared}


def _arrays(result: Any) -> list[np.ndarray]:
    return list(result) if isinstance(result, tuple) else [result]


def _check_time(what: str, started: float) -> None:
    if time.process_time() - started > MOST_SECONDS:
        raise FindingError(f"more than {MOST_SECONDS} seconds to {what}")


def _images(net: Any, batch: int, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    shape, record = net.input_shape, net.preprocessing
    if record is not None and record["layout"] == "NHWC":
        shape = (*shape[1:], *shape[:1])
    if record is not None and record["input"] == "uint8":
        return rng.integers(0, 256, (batch, *shape), dtype=np.uint8)
    return rng.standard_normal((batch, *shape)).astype(np.float32)


def _identical(a: np.ndarray, b: np.ndarray) -> bool:
    return np.array_equal(a, b, equal_nan=True)


@contextmanager
def _time_limit(seconds: float) -> Iterator[None]:
    """Raises `TimeoutError` in Python code that computes for longer."""

    def stop(*_: object) -> None:
        raise TimeoutError

    before = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def _compare(path: Path, plain: Any, x: np.ndarray, results: list[np.ndarray]) -> bool:
    """Whether the reference could run; a finding if its outputs are others."""
    try:
        with _time_limit(REFERENCE_SECONDS), np.errstate(all="ignore"):
            wanted = _arrays(plain(x))
            if [r.shape for r in results] != [w.shape for w in wanted]:
                raise FindingError("an output of another shape than the reference's")
            if all(map(_close, results, wanted)):
                return True
            slack = _sensitivity(path, plain, x, wanted)
            if slack is None:
                return False
    except (TimeoutError, SkinnyError):
        return False
    for result, right, own in zip(results, wanted, slack, strict=True):
        if not _close(result, right, own):
            worst = np.nanmax(np.abs(result - right))
            raise FindingError(
                f"another output than the reference's (batch {len(x)}, largest difference "
                f"{worst:.3g} of values up to {np.abs(right).max():.3g})"
            )
    return True


def _close(result: np.ndarray, wanted: np.ndarray, slack: float = 0.0) -> bool:
    scale = max(float(np.abs(wanted).max(initial=0)), 1e-6)
    return np.allclose(result, wanted, rtol=1e-4, atol=1e-5 * scale + slack, equal_nan=True)


def _sensitivity(
    path: Path, plain: Any, x: np.ndarray, wanted: list[np.ndarray]
) -> list[float] | None:
    """By how much each output may differ because rounding does: what changing the input by a
    millionth does to it, thirtyfold. None where a value or an attribute is infinite in float32, not
    a number or nearly so: there the kernels may differ (docs/runtime.md)."""
    with packing.open(path) as file:
        graph = dict(file.graph)
        names = [value["name"] for value in graph["inputs"]]
        graph["outputs"] = names + [node["output"] for node in graph["nodes"]]
        floats = plain._images.floats(plain._images.check(x))
        values = reference.run(graph, Weights(file).dense, floats)
        attributes = [value for node in graph["nodes"] for value in node.values()]
        numbers = [np.array(value) for value in attributes if isinstance(value, float)]
        if not all((np.abs(value) < TAME).all() for value in [*values, *numbers]):
            return None
        noise = np.random.default_rng(0).choice([-1e-6, 1e-6], floats.shape).astype(np.float32)
        graph["outputs"] = file.graph["outputs"]
        moved = reference.run(graph, Weights(file).dense, floats * (1 + noise))
    return [30 * float(np.abs(a - b).max(initial=0)) for a, b in zip(moved, wanted, strict=True)]


def describe(path: Path) -> str:
    """The manifest of a file, to be read."""
    _, book, _ = take_apart(path.read_bytes())
    return json.dumps({name: book[name] for name in ("graph", "preprocessing", "labels")}, indent=1)
