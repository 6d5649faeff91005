"""One case: a file made from a seed, and what the runtime does with it.

`judge` loads the file, calls it with three batches and compares with the NumPy reference. Equal
outputs or a `SkinnyError` are right; anything else is a finding.
"""

import json
import os
import signal
import time
import traceback
import warnings
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any
from unittest import mock

import numpy as np
from tests.packing.reseal import format_of, put_together, take_apart
from tests.runtime.fuzzing.general import general_network
from tests.runtime.fuzzing.mutations import Parts, mutate
from tests.runtime.fuzzing.networks import network, preprocessing

from skinny import packing
from skinny.errors import SkinnyError
from skinny.graph.specialize import evaluate
from skinny.runtime import load, reference

BATCHES = (1, 3, 17, 1)  # the second 1: what was planned for the others changes nothing
MAX_MEMORY = 1 << 25
LARGEST_INPUT = 1 << 22  # floats of a batch the fuzzer itself makes
SANITIZED = "libasan" in os.environ.get("LD_PRELOAD", "")  # which takes its time, and terabytes
MOST_SECONDS = 100 if SANITIZED else 10  # of processor time, to load a file and to run one batch
LONG_CALL = 0.5  # seconds; after a call that long, larger batches would only repeat it
REFERENCE_SECONDS = 3
TAME = 1e15  # squares of such values are still finite
LONGEST_MESSAGE = 600
Outcome = dict[str, Any]


class FindingError(Exception):
    """What a file must not do."""


def make(seed: int, path: Path, skip: Collection[int] = ()) -> list[str]:
    """Writes the file of a seed, without the changes at the indices in `skip`; the changes."""
    rng = Random(seed)
    values = rng.choice(["exact", "exact", "fp16", "bf16", "int8", "int3", "codebook4"])
    if rng.random() < 0.35:
        tensors, graph = general_network(rng)
        packing.write(path, tensors, graph=graph, format=2, values=values)
        format_, counts = "2", [0, 0, 1, 1, 2, 3]
    else:
        builder, graph = network(rng)
        record = preprocessing(rng, builder.shape)
        packing.write(path, builder.tensors, graph=graph, preprocessing=record, values=values)
        format_, counts = rng.choice("12"), [0, 1, 1, 1, 2, 2, 3]
    parts = Parts(*take_apart(path.read_bytes()), format_)
    count = rng.choice(counts)
    changes = [mutate(f"{seed}/{at}", parts) for at in range(count) if at not in skip]
    write(path, parts)
    return changes


def write(path: Path, parts: Parts) -> None:
    path.write_bytes(put_together(*parts[:3], format=parts.format))


def read(path: Path) -> Parts:
    data = path.read_bytes()
    return Parts(*take_apart(data), format_of(data))


def judge(path: Path, seed: int) -> Outcome:
    """`outcome` is ran, refused or finding; `what` says how."""
    rng = Random(f"call {seed}")
    options = {"threads": rng.randint(1, 3), "low_memory": rng.random() < 0.15}
    try:
        with warnings.catch_warnings(action="ignore"):  # operations without a kernel
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
    sides = rng.randint(1, 9)  # of sizes that the caller chooses, beside the batch
    for batch in BATCHES:
        x = _inputs(net, batch, sides, seed=rng.randrange(1 << 30) if batch > 1 else 1)
        if x is None:
            break
        started = time.process_time()
        results = _arrays(net(**x))
        _check_time("run", started)
        if batch == 1:
            if first is not None and not all(map(_identical, first, results)):
                raise FindingError("another output when the same image is given again")
            first = results
        compared += _compare(path, plain, x, results)
        if time.process_time() - started > LONG_CALL:
            break
    what = f"format {read(path).format}, {'compared' if compared else 'not compared'}"
    return {"outcome": "ran", "what": what}


def _arrays(result: Any) -> list[np.ndarray]:
    """The outputs one after the other, however they are nested."""
    if isinstance(result, dict):
        result = tuple(result.values())
    if isinstance(result, tuple):
        return [array for own in result for array in _arrays(own)]
    return [np.asarray(result)]


def _check_time(what: str, started: float) -> None:
    if time.process_time() - started > MOST_SECONDS:
        raise FindingError(f"more than {MOST_SECONDS} seconds to {what}")


def _inputs(net: Any, batch: int, sides: int, seed: int) -> dict[str, np.ndarray] | None:
    """Random inputs by name; None if they are too large for the fuzzer itself to make."""
    rng = np.random.default_rng(seed)
    record = None if net._images is None else net._images.preprocessing
    declared = getattr(net._graph, "inputs", ())  # of a graph of format 2
    types = {value.name: value.dtype for value in declared}
    made = {}
    for name, shape in net.inputs.items():
        sizes = [{"batch": batch}.get(s, sides) if isinstance(s, str) else s for s in shape]
        if int(np.prod(sizes, dtype=object)) > LARGEST_INPUT:
            return None
        dtype = types.get(name, "float32")
        if record is not None:
            last = record["layout"] == "NHWC" and len(sizes) > 1
            sizes = [sizes[0], *sizes[2:], sizes[1]] if last else sizes
            dtype = record["input"]
        made[name] = _random(rng, sizes, dtype)
    return made


def _random(rng: np.random.Generator, sizes: list[int], dtype: str) -> np.ndarray:
    if dtype == "float32":
        return rng.standard_normal(sizes).astype(np.float32)
    most = {"bool": 2, "uint8": 256}.get(dtype, 5)
    return rng.integers(0, most, sizes).astype(dtype)


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


def _compare(path: Path, plain: Any, x: dict[str, np.ndarray], results: list[np.ndarray]) -> bool:
    """Whether the reference could run; a finding if its outputs are others."""
    try:
        with _time_limit(REFERENCE_SECONDS), np.errstate(all="ignore"):
            wanted = _arrays(_without_kernels(plain, x))
            if [(r.shape, r.dtype) for r in results] != [(w.shape, w.dtype) for w in wanted]:
                raise FindingError("an output of another shape or type than the reference's")
            if all(map(_close, results, wanted)):
                return True
            slack = _sensitivity(path, plain, x, wanted)
            if slack is None:
                return False
    except (TimeoutError, SkinnyError):
        return False
    for result, right, own in zip(results, wanted, slack, strict=True):
        if not _close(result, right, own):
            worst = np.nanmax(np.abs(result.astype(float) - right))
            raise FindingError(
                f"another output than the reference's ({len(results)} outputs, largest difference "
                f"{worst:.3g} of values up to {np.abs(right.astype(float)).max():.3g})"
            )
    return True


def _without_kernels(plain: Any, x: dict[str, np.ndarray], **options: Any) -> Any:
    with mock.patch("skinny.native.extension", return_value=None):  # plans are made when it runs
        return plain(**x, **options)


def _close(result: np.ndarray, wanted: np.ndarray, slack: float = 0.0) -> bool:
    result, wanted = result.astype(float), wanted.astype(float)
    scale = max(float(np.abs(wanted).max(initial=0)), 1e-6)
    return np.allclose(result, wanted, rtol=1e-4, atol=1e-5 * scale + slack, equal_nan=True)


def _sensitivity(
    path: Path, plain: Any, x: dict[str, np.ndarray], wanted: list[np.ndarray]
) -> list[float] | None:
    """By how much each output may differ because rounding does: what changing the input by a
    millionth does to it, thirtyfold. None where a value or an attribute is infinite in float32, not
    a number or nearly so: there the kernels may differ (docs/runtime.md)."""
    with packing.open(path) as file:
        operations = {node["op"] for node in file.graph["nodes"]}
        attributes = [value for node in file.graph["nodes"] for value in node.values()]
    numbers = [np.array(value) for value in attributes if isinstance(value, float)]
    if plain._images is not None:
        floats = {n: plain._images.floats(plain._images.check(own)) for n, own in x.items()}
    else:
        floats = x
    rng = np.random.default_rng(0)
    moved = {
        name: own * (1 + rng.choice([-1e-6, 1e-6], own.shape).astype(np.float32))
        if own.dtype == np.float32
        else own
        for name, own in floats.items()
    }
    with _watched_values() as values:
        others = _arrays(_without_kernels(plain, moved, preprocessed=True))
    if not all((np.abs(value) < TAME).all() for value in [*values, *numbers]):
        return None
    changes = [a.astype(float) - b for a, b in zip(others, wanted, strict=True)]
    # The kernel of GELU computes 1 + erf(x) to some units in the last place of one, as torch does.
    lost = 5e-7 * max(map(float, values), default=0.0) if "gelu" in operations else 0.0
    return [30 * float(np.abs(change).max(initial=0)) + lost for change in changes]


@contextmanager
def _watched_values() -> Iterator[list[np.ndarray]]:
    """All that the references compute meanwhile, as the largest magnitude of each value."""
    values: list[np.ndarray] = []

    def watch(function: Any) -> Any:
        def watched(*arguments: Any) -> Any:
            made = function(*arguments)
            arrays = made if isinstance(made, tuple) else (made,)
            values.extend(np.abs(array.astype(float)).max(initial=0) for array in arrays)
            return made

        return watched

    with (
        mock.patch("skinny.runtime.reference.run_node", watch(reference.run_node)),
        mock.patch("skinny.runtime.mixed.evaluate", watch(evaluate)),
    ):
        yield values


def describe(path: Path) -> str:
    """The manifest of a file, to be read, if its header can be."""
    try:
        book = read(path).book
    except SkinnyError as broken:
        return str(broken)
    return json.dumps({name: book[name] for name in ("graph", "preprocessing", "labels")}, indent=1)
