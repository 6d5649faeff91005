"""A tensor program refuses a planner's mistakes: no step that is added can make a kernel leave its
memory. For each `add_*` a call that is right, and the same call with one argument wrong."""

import numpy as np
import pytest
from runtime_tensors import Tensor

from skinny import _native
from skinny._native import Opcode
from skinny.runtime.layout import compact
from skinny.runtime.windows import Axis

CELLS = 4096
HUGE = (2**31, 2**32, 2**62, 2**63, 2**64 - 1)  # products and sums of these overflow
NONE = _native.Activation(_native.ActivationKind.none)


def tensor(*shape, offset=0, storage=0):
    strides = [int(np.prod(shape[axis + 1 :])) for axis in range(len(shape))]
    return Tensor(storage, offset, shape, tuple(strides))


def floats(count):
    return np.zeros(count, np.float32)


BOX, RESULT = tensor(4, 6, 5), tensor(4, 6, 5, offset=1000)
IMAGE, OUT = compact((2, 6, 6)), compact((2, 6, 6))._replace(offset=1000)
SAMPLES = {"samples": 3, "source_sample_stride": 100, "target_sample_stride": 100}
HALVES = Axis(np.array([0, 2, 4], np.int32), np.array([2, 4, 6], np.int32), floats(3), 1)
STAGE = _native.Stage(
    weights=_native.ConvWeights(
        weights=np.ones((2, 2), np.float32), groups=1, block_taps=2, ranges=1, dense=False
    ),
    offsets=np.array([0, 36], np.int32),
    group_stride=0,
    bias=floats(2),
    low=-1,
    high=1,
    activation=NONE,
)
RIGHT = {
    "add_input": {"target": BOX, "dtype": "float32"},
    "add_output": {"source": BOX},
    "add_copy": {"source": BOX, "target": RESULT},
    "add_fill": {"target": RESULT, "value": 1.0},
    "add_map": {
        "sources": [BOX, tensor(5, storage=1)],
        "target": RESULT,
        "code": [(Opcode.add, 3, 0, 1, 0), (Opcode.mul, 4, 3, 2, 0)],
        "numbers": [2.0],
    },
    "add_norm": {
        "source": BOX,
        "target": RESULT,
        "weight": floats(6),
        "bias": None,
        "eps": 1e-5,
        "subtract_mean": True,
    },
    "add_softmax": {"source": BOX, "target": RESULT, "log": False},
    "add_reindex": {
        "source": tensor(2, 3),
        "target": tensor(2, 4, offset=1000),
        "index": [np.array([1, 0], np.int32), np.array([0, 2, 1, 0], np.int32)],
    },
    "add_reduce": {
        "kind": _native.ReduceKind.sum,
        "source": BOX,
        "target": tensor(4, 5, offset=1000),
    },
    "add_gather": {
        "table": tensor(5, 8, storage=1),
        "index": tensor(3, 2),
        "target": tensor(3, 2, 8, offset=1000),
    },
    "add_linear": {
        "source": tensor(3, 8),
        "target": tensor(3, 2, offset=1000),
        "weights": _native.LinearWeights(dense=np.ones((2, 8), np.float32)),
        "bias": floats(2),
        "activation": NONE,
    },
    "add_conv": {
        **SAMPLES,
        "source": IMAGE,
        "target": OUT,
        "height": 6,
        "width": 6,
        "first": 0,
        "flat": False,
        "tile_rows": 1,
        "tile_vectors": 1,
        "split_channels": False,
        "stages": [STAGE],
    },
    "add_pool": {
        **SAMPLES,
        "source": IMAGE,
        "target": compact((2, 3, 3))._replace(offset=1000),
        "pool": _native.Pool(max=True, rows=HALVES, columns=HALVES),
    },
    "add_lrn": {
        **SAMPLES,
        "source": IMAGE,
        "target": IMAGE._replace(offset=1000),
        "size": 3,
        "alpha": 1.0,
        "beta": 0.75,
        "k": 1.0,
    },
    "add_space_to_depth": {
        **SAMPLES,
        "source": IMAGE,
        "target": OUT,
        "stride": (1, 1),
        "rows": [0],
        "columns": [0],
    },
    "add_depthwise": {
        **SAMPLES,
        "source": IMAGE,
        "target": OUT,
        "weights": np.ones((2, 3, 3), np.float32),
        "stride": (1, 1),
        "padding": (1, 1),
        "dilation": (1, 1),
        "bias": floats(2),
        "low": -1,
        "high": 1,
        "activation": NONE,
    },
    "add_direct_conv": {
        **SAMPLES,
        "source": IMAGE,
        "target": OUT,
        "weights": _native.DirectWeights(weights=np.ones((2, 2, 3, 3), np.float32)),
        "stride": (1, 1),
        "padding": (1, 1),
        "bias": floats(2),
        "low": -1,
        "high": 1,
        "activation": NONE,
    },
    "add_matmul": {
        "a": tensor(2, 3, 4),
        "b": tensor(2, 4, 5, offset=100),
        "target": tensor(2, 3, 5, offset=1000),
        "scale": 1.0,
    },
    "add_recurrent": {  # a GRU
        "projected": tensor(3, 2, 6),
        "h": tensor(2, 2, offset=100),
        "c": None,
        "target": tensor(3, 2, 2, offset=1000),
        "last_h": tensor(2, 2, offset=1100),
        "last_c": None,
        "weights": _native.LinearWeights(dense=np.ones((6, 2), np.float32)),
        "bias": floats(6),
        "reverse": False,
    },
    "add_attention": {
        "q": tensor(2, 2, 3, 4),
        "k": tensor(2, 2, 5, 4, offset=100),
        "v": tensor(2, 2, 5, 4, offset=200),
        "mask": None,
        "mask_is_bool": False,
        "causal": False,
        "scale": 1.0,
        "target": tensor(2, 2, 3, 4, offset=1000),
    },
}


def call(method, **arguments):
    program = _native.TensorProgram(cells=CELLS)
    assert program.add_constant(values=floats(40)) == 1
    getattr(program, method)(**{**RIGHT[method], **arguments})


@pytest.mark.parametrize("method", RIGHT)
def test_a_right_step_is_added(method):
    call(method)


IN_INT8 = {  # test_int8_seam.py has mistakes of each of these
    *("add_conv_int8", "add_linear_int8", "add_quantize", "add_quantize_rows", "add_dequantize"),
    *("add_move_cells", "add_pool_cells", "add_gather_int8"),
}


def test_every_way_to_add_to_a_program_is_tested():
    methods = {name for name in dir(_native.TensorProgram) if name.startswith("add_")}
    assert methods - {"add_constant"} - IN_INT8 == set(RIGHT)


TENSORS = [
    (method, name)
    for method, arguments in RIGHT.items()
    for name, value in arguments.items()
    if isinstance(value, Tensor)
]
OUTPUTS = [(method, name) for method, name in TENSORS if name == "target"]


@pytest.mark.parametrize(("method", "name"), TENSORS)
def test_a_tensor_that_leaves_its_storage_is_refused(method, name):
    right = RIGHT[method][name]
    size = CELLS if right.storage == 0 else 40
    last = sum((n - 1) * s for n, s in zip(right.shape, right.strides, strict=True))
    wrong = [
        right._replace(offset=size - last),
        right._replace(shape=(0, *right.shape[1:])),
        right._replace(shape=(size + 1, *right.shape[1:])),
        right._replace(strides=(size, *right.strides[1:])),
        right._replace(storage=2),
        right._replace(shape=(1,) * 9, strides=(1,) * 9),
        right._replace(shape=(2**16,) * 4, strides=(0,) * 4),
    ]
    wrong += [right._replace(offset=huge) for huge in HUGE]
    wrong += [right._replace(storage=huge) for huge in HUGE]
    wrong += [right._replace(shape=(huge, *right.shape[1:])) for huge in HUGE]
    wrong += [right._replace(strides=(huge, *right.strides[1:])) for huge in HUGE]
    for bad in wrong:
        with pytest.raises(ValueError, match="a tensor"):
            call(method, **{name: bad})


@pytest.mark.parametrize(("method", "name"), TENSORS)
def test_what_is_no_tensor_is_refused(method, name):
    right = RIGHT[method][name]
    for bad in (
        None,
        right._replace(strides=right.strides[1:]),
        right._replace(offset=-1),
        right._replace(strides=(-1, *right.strides[1:])),
    ):
        with pytest.raises(TypeError):
            call(method, **{name: bad})


@pytest.mark.parametrize(("method", "name"), OUTPUTS)
def test_an_output_lies_in_the_arena_and_has_every_element_once(method, name):
    right = RIGHT[method][name]
    with pytest.raises(ValueError, match="in the arena"):
        call(method, **{name: Tensor(1, 0, (1,) * len(right.shape), right.strides)})
    for strides in ((0, *right.strides[1:]), (1,) * len(right.strides)):
        with pytest.raises(ValueError, match="must not overlap"):
            call(method, **{name: right._replace(strides=strides)})


READS_AND_WRITES = [
    (method, name)
    for method, name in TENSORS
    if name != "target" and "target" in RIGHT[method] and RIGHT[method][name].storage == 0
]


@pytest.mark.parametrize(("method", "name"), READS_AND_WRITES)
def test_a_step_that_writes_what_it_reads_is_refused(method, name):
    right = RIGHT[method][name]
    target = RIGHT[method]["target"]
    with pytest.raises(ValueError, match="must not write what it reads"):
        call(method, **{name: right._replace(offset=target.offset + 1)})


@pytest.mark.parametrize("method", ["add_norm", "add_softmax"])
def test_a_step_along_an_axis_works_in_place(method):
    call(method, target=BOX)


def test_ranges_of_channels_of_one_value_are_apart():
    """Rows of ten; five of each are read, the other five written."""
    left = Tensor(0, 0, (7, 5), (10, 1))
    right = left._replace(offset=5)
    call("add_copy", source=left, target=right)
    call("add_copy", source=right, target=left)
    for offset in (1, 4, 6, 9):
        with pytest.raises(ValueError, match="must not write what it reads"):
            call("add_copy", source=left, target=left._replace(offset=offset))


_IMAGE_STEPS = ("conv", "depthwise", "direct_conv", "lrn", "pool", "space_to_depth")
IMAGES = [f"add_{name}" for name in _IMAGE_STEPS]
ADD = (Opcode.add, 3, 0, 1, 0)
MISTAKES = [
    ("add_input", {"dtype": "float64"}, "must be of float32"),
    ("add_copy", {"source": tensor(4, 5, 6)}, "the same shape"),
    ("add_copy", {"source": tensor(120)}, "the same shape"),
    ("add_map", {"sources": [BOX, tensor(6, storage=1)]}, "broadcast to the target's shape"),
    ("add_map", {"sources": [BOX, tensor(1, 4, 6, 5)]}, "broadcast to the target's shape"),
    ("add_map", {"sources": [BOX, RESULT._replace(offset=1001)]}, "must not write what it reads"),
    ("add_map", {"sources": [BOX] * 24}, "at most 23 sources"),
    ("add_map", {"numbers": [1.0] * 62}, "64 registers"),
    ("add_map", {"code": []}, "at least one instruction"),
    ("add_map", {"code": [(Opcode.add, 2, 0, 1, 0)]}, "must write a temporary"),
    ("add_map", {"code": [(Opcode.add, 64, 0, 1, 0)]}, "must write a temporary"),
    ("add_map", {"code": [ADD, (Opcode.neg, 2**63, 3, 0, 0)]}, "must write a temporary"),
    ("add_map", {"code": [(Opcode.add, 3, 0, 3, 0)]}, "must read a register that was written"),
    ("add_map", {"code": [ADD, (Opcode.where, 4, 0, 1, 5)]}, "must read a register"),
    ("add_map", {"code": [(Opcode.neg, 3, 2**64 - 1, 0, 0)]}, "must read a register"),
    ("add_norm", {"weight": floats(5)}, "one value for each entry"),
    ("add_norm", {"bias": floats(4)}, "one value for each entry"),
    ("add_norm", {"target": tensor(4, 5, 6, offset=1000)}, "the same shape"),
    ("add_norm", {"source": tensor(24, 5)}, r"\[outer, axis, inner\]"),
    ("add_softmax", {"target": tensor(4, 5, 6, offset=1000)}, "the same shape"),
    ("add_softmax", {"source": tensor(120)}, r"\[outer, axis, inner\]"),
    ("add_reduce", {"source": tensor(24, 5)}, r"\[outer, axis, inner\]"),
    ("add_reduce", {"target": tensor(4, 6, offset=1000)}, r"\[outer, inner\]"),
    ("add_reduce", {"target": tensor(20, offset=1000)}, r"\[outer, inner\]"),
    ("add_gather", {"table": tensor(40, storage=1)}, r"\[rows, columns\]"),
    ("add_gather", {"target": tensor(3, 2, 7, offset=1000)}, r"\[index..., columns\]"),
    ("add_gather", {"index": tensor(2, 3)}, r"\[index..., columns\]"),
    ("add_gather", {"index": tensor(6)}, r"\[index..., columns\]"),
    ("add_linear", {"source": tensor(3, 8)._replace(strides=(8, 2))}, "contiguous rows"),
    ("add_linear", {"source": tensor(3, 8, storage=1)}, "in the arena"),
    ("add_linear", {"source": tensor(24)}, "contiguous rows"),
    ("add_linear", {"source": tensor(2, 8)}, "sizes must agree"),
    ("add_linear", {"source": tensor(3, 9)}, "sizes must agree"),
    ("add_linear", {"bias": floats(3)}, "sizes must agree"),
    *(
        (method, {field: huge}, "samples must lie in the arena")
        for method in IMAGES
        for field in SAMPLES
        for huge in (CELLS, *HUGE)
    ),
    *((method, {"samples": 0}, "samples must lie in the arena") for method in IMAGES),
    ("add_conv", {"target_sample_stride": 71}, "samples must not overlap"),
    ("add_conv", {"source": IMAGE._replace(offset=CELLS - 271)}, "samples must lie in the arena"),
    ("add_conv", {"source": IMAGE._replace(offset=CELLS - 272), "first": 1}, "a tap must lie"),
    ("add_conv", {"factors": tensor(2, 2, offset=2000)}, "one row in the arena for each sample"),
    ("add_conv", {"factors": tensor(3, 3, offset=2000)}, "one number for each input channel"),
    ("add_conv", {"factors": tensor(3, 2, storage=1)}, "one row in the arena for each sample"),
    ("add_conv", {"factors": tensor(3, 2, offset=1271)}, "must not write what it reads"),
    ("add_conv", {"factors": tensor(3, 2, offset=995)}, "must not write what it reads"),
    ("add_conv", {"factors": tensor(3, 2, offset=CELLS)}, "must lie in its storage"),
    ("add_reindex", {"index": [np.zeros(2, np.int32)]}, "entries for each axis"),
    ("add_reindex", {"index": [np.zeros(2, np.int32)] * 2}, "an entry for each of the target"),
    ("add_reindex", {"index": [np.full(n, 2, np.int32) for n in (2, 4)]}, "lie in the source"),
    ("add_reindex", {"index": [np.full(n, -1, np.int32) for n in (2, 4)]}, "lie in the source"),
    ("add_reindex", {"source": tensor(2, 3, 1)}, "entries for each axis"),
    ("add_reindex", {"target": tensor(2, 4, offset=5)}, "must not write what it reads"),
    ("add_recurrent", {"c": tensor(2, 2, offset=200)}, "a first and a last cell state"),
    ("add_recurrent", {"last_c": tensor(2, 2, offset=200)}, "a first and a last cell state"),
    ("add_recurrent", {"projected": tensor(3, 2, 8)}, "sizes of a recurrent layer must agree"),
    ("add_recurrent", {"projected": tensor(2, 2, 6)}, "sizes of a recurrent layer must agree"),
    ("add_recurrent", {"h": tensor(3, 2, offset=100)}, "sizes of a recurrent layer must agree"),
    ("add_recurrent", {"last_h": tensor(4, offset=1100)}, "sizes of a recurrent layer must agree"),
    ("add_recurrent", {"bias": floats(5)}, "sizes of a recurrent layer must agree"),
    ("add_recurrent", {"h": Tensor(0, 100, (2, 2), (4, 2))}, "must be neighbours"),
    ("add_recurrent", {"last_h": tensor(2, 2, offset=1001)}, "must not write what it reads"),
    ("add_pool", {"source": IMAGE._replace(offset=900)}, "must not write what it reads"),
    ("add_lrn", {"source": IMAGE._replace(offset=950)}, "must not write what it reads"),
    ("add_lrn", {"target": IMAGE, "size": 33}, "must not write what it reads"),
    ("add_lrn", {"target": compact((2, 3, 3))._replace(offset=1000)}, "keeps the shape"),
    ("add_lrn", {"size": 0}, "keeps the shape"),
    ("add_space_to_depth", {"target": OUT._replace(offset=150)}, "must not write what it reads"),
]


@pytest.mark.parametrize(("method", "wrong", "reason"), MISTAKES)
def test_a_step_that_does_not_fit_is_refused(method, wrong, reason):
    with pytest.raises(ValueError, match=reason):
        call(method, **wrong)


@pytest.mark.parametrize("cells", HUGE[:4])
def test_an_arena_beyond_any_address_is_refused(cells):
    with pytest.raises(ValueError, match="too large to address"):
        _native.TensorProgram(cells=cells)


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        ({"inputs": []}, "for each input and output"),
        ({"outputs": []}, "for each input and output"),
        ({"inputs": [floats(5)]}, "the shape that was planned"),
        ({"inputs": [np.zeros((2, 3), np.float64)]}, "the type that was planned"),
        ({"inputs": [np.zeros((3, 2), np.float32).T]}, "contiguous array"),
        ({"inputs": [[1, 2, 3]]}, "contiguous array"),
        ({"outputs": [floats(5)]}, "the shape that was planned"),
        ({"outputs": [np.zeros((2, 3))]}, "contiguous, writable array of float32"),
        ({"outputs": [np.zeros((3, 2), np.float32).T]}, "contiguous, writable array"),
        ({"outputs": [np.broadcast_to(np.float32(0), (2, 3))]}, "contiguous, writable array"),
        ({"threads": 0}, "1 to 1024"),
        ({"threads": 1025}, "1 to 1024"),
    ],
)
def test_arrays_that_were_not_planned_are_refused(wrong, reason):
    program = _native.TensorProgram(cells=CELLS)
    program.add_input(target=tensor(2, 3), dtype="float32")
    program.add_output(source=tensor(2, 3))
    right = {"inputs": [np.ones((2, 3), np.float32)], "outputs": [np.zeros((2, 3), np.float32)]}
    right |= {"threads": 1, "timed": False}
    program.run(**right)
    assert (right["outputs"][0] == 1).all()
    with pytest.raises(ValueError, match=reason):
        program.run(**{**right, **wrong})
