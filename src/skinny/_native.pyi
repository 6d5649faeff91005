"""The compiled kernels (sources in native/). Import them through `skinny.native`, which tells what
to do when they were not built; the planner (`skinny.runtime.plan` and what it imports) is loaded
only where they exist. A test compares the names here with those of the module."""

import enum
from collections.abc import Sequence
from typing import Protocol, overload

import numpy as np
from numpy.typing import NDArray

# One-dimensional and contiguous, unless said otherwise.
_Bytes = NDArray[np.uint8]
_Floats = NDArray[np.float32]
_Ints = NDArray[np.int32]

def isa() -> str: ...
def isas() -> list[str]: ...

# Codecs (native/{adaptive,bitmask,entropy,symbols}.cpp); their callers are in skinny.packing.
def bitmask_find(
    dense: _Bytes, width: int, signed_zeros: bool, mask: _Bytes, threads: int
) -> int: ...
def bitmask_ones(mask: _Bytes, count: int, threads: int) -> int: ...
def bitmask_gather(
    dense: _Bytes, width: int, mask: _Bytes, values: _Bytes, threads: int
) -> None: ...
def bitmask_scatter(
    values: _Bytes, width: int, mask: _Bytes, dense: _Bytes, threads: int
) -> None: ...
def adaptive_encode(mask: _Bytes, symbols: _Bytes, rows: int, columns: int) -> bytes: ...
def adaptive_decode(
    stream: _Bytes, rows: int, columns: int, mask: _Bytes, symbols: _Bytes
) -> bool: ...
def entropy_histogram(mask: _Bytes, out: NDArray[np.uint64], threads: int) -> None: ...
def entropy_encode(
    mask: _Bytes,
    frequencies: NDArray[np.uint32],
    states: NDArray[np.uint64],
    word_counts: NDArray[np.uint16],
    threads: int,
) -> bytes: ...
def entropy_decode(
    words: NDArray[np.uint32],
    states: NDArray[np.uint64],
    word_counts: NDArray[np.uint16],
    frequencies: NDArray[np.uint32],
    mask: _Bytes,
    threads: int,
) -> bool: ...
def symbols_split(
    values: _Bytes, width: int, symbols: _Bytes, rest: _Bytes, threads: int
) -> None: ...
def symbols_join(
    symbols: _Bytes, rest: _Bytes, width: int, values: _Bytes, threads: int
) -> None: ...
def symbols_encode(
    bytes: _Bytes,
    frequencies: NDArray[np.uint32],
    states: NDArray[np.uint64],
    word_counts: NDArray[np.uint16],
    threads: int,
) -> bytes: ...
def symbols_decode(
    words: NDArray[np.uint32],
    states: NDArray[np.uint64],
    word_counts: NDArray[np.uint16],
    frequencies: NDArray[np.uint32],
    bytes: _Bytes,
    threads: int,
) -> bool: ...

# The runtime (native/runtime/); its caller is skinny.runtime.

TILE_VECTORS: int  # at most, in one tile
MAX_BYTE_TAPS: int  # of a block whose tap indices are bytes
MAX_LRN_IN_PLACE: int  # channels of a window
MAX_TAPS: int  # of a block of a sparse convolution
MAX_INT8_TAPS: int  # of a layer in int8
MAX_MAP_REGISTERS: int  # of elementwise code
MAX_MAP_SOURCES: int  # of elementwise code
MAX_OFFSET: int  # positions of an arena, and floats to a tap
MAX_THREADS: int
MOST_CACHED: int
STRIP_FLOATS: int  # of tiles that run together
CHAIN_STRIP_TILES: int  # at most, of a chain

class Mode(enum.IntEnum):
    """The batch mode a program is planned for."""

    single = 0
    prefix = 1
    interleaved = 2
    tail = 3

class ActivationKind(enum.Enum):
    none = 0
    clamp = 1
    leaky_relu = 2
    elu = 3
    sigmoid = 4
    tanh = 5
    silu = 6
    gelu = 7
    gelu_tanh = 8
    hardswish = 9
    hardsigmoid = 10

class _View(Protocol):
    """`skinny.runtime.layout.View`; native code reads its attributes by name."""

    @property
    def offset(self) -> int: ...
    @property
    def channels(self) -> int: ...
    @property
    def height(self) -> int: ...
    @property
    def width(self) -> int: ...
    @property
    def channel_stride(self) -> int: ...
    @property
    def row_stride(self) -> int: ...
    @property
    def origin(self) -> int: ...

class _Axis(Protocol):
    """`skinny.runtime.windows.Axis`; native code reads its attributes by name."""

    @property
    def begin(self) -> NDArray[np.int32]: ...
    @property
    def end(self) -> NDArray[np.int32]: ...
    @property
    def scale(self) -> _Floats: ...
    @property
    def dilation(self) -> int: ...

class _Tensor(Protocol):
    """`skinny.runtime.strided.Tensor`; native code reads its attributes by name. A stride of 0
    broadcasts; offsets, shapes and strides count cells of four bytes."""

    @property
    def storage(self) -> int: ...  # 0: the arena; i: the program's constant i
    @property
    def offset(self) -> int: ...
    @property
    def shape(self) -> Sequence[int]: ...
    @property
    def strides(self) -> Sequence[int]: ...

class ConvWeights:
    def __init__(
        self,
        *,
        weights: _Floats,  # [outputs, taps]
        groups: int,
        block_taps: int,
        ranges: int,
        dense: bool,
    ) -> None: ...
    @property
    def bytes(self) -> int: ...

class DirectWeights:
    """Of a dense convolution with output channels as the lanes of vectors."""

    def __init__(self, *, weights: NDArray[np.float32]) -> None: ...  # [out, in, rows, columns]
    @property
    def bytes(self) -> int: ...

class CodeForm:
    def __init__(self, rows: int, vectors: int, row_stride: int) -> None: ...  # of one channel
    @staticmethod
    def six_channels(by_four: bool) -> CodeForm: ...
    @staticmethod
    def many_channels() -> CodeForm: ...
    @property
    def channels(self) -> int: ...
    @property
    def rows(self) -> int: ...
    @property
    def vectors(self) -> int: ...
    @property
    def lanes(self) -> int: ...

class Assembler:
    """Registers by number; index 4 and scale 0: an address without index."""

    def __init__(self, *, wide: bool) -> None: ...
    @property
    def code(self) -> bytes: ...
    def mov(self, to: int, from_: int) -> None: ...
    def add(self, to: int, from_: int) -> None: ...
    def add_value(self, to: int, value: int) -> None: ...
    def lea(self, to: int, base: int, disp: int, index: int, scale: int) -> None: ...
    def mov_load(self, to: int, base: int, disp: int, index: int, scale: int) -> None: ...
    def prefetcht0(self, base: int, disp: int, index: int, scale: int) -> None: ...
    def prefetcht1(self, base: int, disp: int, index: int, scale: int) -> None: ...
    def prefetchw(self, base: int, disp: int, index: int, scale: int) -> None: ...
    def jnz(self, target: int) -> None: ...
    def vzeroupper(self) -> None: ...
    def ret(self) -> None: ...
    def vmovups_load(self, to: int, base: int, disp: int, index: int, scale: int) -> None: ...
    def vmovups_store(self, from_: int, base: int, disp: int, index: int, scale: int) -> None: ...
    def vmovaps(self, to: int, from_: int) -> None: ...
    def vbroadcastss(self, to: int, base: int, disp: int, index: int, scale: int) -> None: ...
    def vbroadcastf128(self, to: int, base: int, disp: int, index: int, scale: int) -> None: ...
    def vpermilps(self, to: int, from_: int, number: int) -> None: ...
    def vaddps(self, to: int, a: int, base: int, disp: int, index: int, scale: int) -> None: ...
    def vmaxps(self, to: int, a: int, b: int) -> None: ...
    def vminps(self, to: int, a: int, b: int) -> None: ...
    def vfmadd231ps(self, to: int, a: int, b: int) -> None: ...
    def vfmadd231ps_memory(
        self, to: int, a: int, base: int, disp: int, index: int, scale: int
    ) -> None: ...
    def vfmadd231ps_broadcast(
        self, to: int, a: int, base: int, disp: int, index: int, scale: int
    ) -> None: ...
    def vinserti32x8_upper(
        self, to: int, a: int, base: int, disp: int, index: int, scale: int
    ) -> None: ...
    def vpdpbusd_broadcast(
        self, to: int, a: int, base: int, disp: int, index: int, scale: int
    ) -> None: ...
    def vaddps_broadcast(
        self, to: int, a: int, base: int, disp: int, index: int, scale: int
    ) -> None: ...
    def vmulps_broadcast(
        self, to: int, a: int, base: int, disp: int, index: int, scale: int
    ) -> None: ...
    def vmulps(self, to: int, a: int, b: int) -> None: ...
    def vcvtdq2ps(self, to: int, from_: int) -> None: ...
    def vcvtps2dq(self, to: int, from_: int) -> None: ...
    def vpackssdw(self, to: int, a: int, b: int) -> None: ...
    def vpackuswb(self, to: int, a: int, b: int) -> None: ...
    def vpaddsw(self, to: int, a: int, b: int) -> None: ...
    def vpshufb(self, to: int, a: int, b: int) -> None: ...

def fma_peak() -> float: ...  # GFLOP/s of one core; 0 where it cannot be measured
def generate_block(
    *,
    form: CodeForm,
    weights: _Floats,  # [rows, taps]
    offsets: NDArray[np.int32],  # of each tap, in floats
    bias: _Floats | None,  # [rows]; None: sums begin at those in memory
    last: bool,
    low: float,
    high: float,
    residual: bool = False,
    patches: int = 0,  # that a function is run for before the next one, which it prefetches
    ahead_in: int = 0,  # bytes from what a patch reads to what it prefetches; 0: nothing
    ahead_out: bool = False,  # whether it prefetches what the next one writes and adds
) -> tuple[bytes, list[float], list[tuple[int, int, int, int, int, int]]]: ...
def run_generated(
    *,
    form: CodeForm,
    weights: _Floats,
    groups: int,
    block_taps: int,
    offsets: NDArray[np.int32],
    group_stride: int,
    bias: _Floats,
    low: float,
    high: float,
    x: _Floats,
    first: int,
    row_stride: int,
    rows: int,
    vectors: int,
    max_bytes: int,
    y: _Floats,  # [outputs, rows * vectors * lanes], filled
) -> bool: ...

class LinearWeights:
    @overload
    def __init__(self, *, mask: _Bytes, values: _Floats, rows: int, columns: int) -> None: ...
    @overload
    def __init__(self, *, dense: _Floats) -> None: ...  # [rows, columns]
    @staticmethod
    def most_strip_bytes(*, kept: int) -> int: ...
    @property
    def form(self) -> str: ...
    @property
    def bytes(self) -> int: ...

class Int8Weights:
    """Of a layer in int8, [outputs, taps * 4]: a tap is four neighbouring input channels."""

    def __init__(
        self, *, quads: NDArray[np.int8], zero: int, scale: _Floats, bias: _Floats
    ) -> None: ...
    def integers(self) -> NDArray[np.int8]: ...  # the quads that it was made of
    @property
    def quads(self) -> int: ...  # that are not zero
    @property
    def bytes(self) -> int: ...

class Int8Matrix:
    """Of a fully connected layer in int8 for few rows, [outputs, columns]."""

    def __init__(
        self, *, weights: NDArray[np.int8], zero: int, scale: _Floats, bias: _Floats
    ) -> None: ...
    def integers(self) -> NDArray[np.int8]: ...  # the weights that it was made of
    @property
    def bytes(self) -> int: ...

class Int8Table:
    """Of an embedding in int8, [rows, columns] with a scale for each row."""

    def __init__(self, *, integers: NDArray[np.int8], scale: _Floats) -> None: ...
    def integers(self) -> NDArray[np.int8]: ...  # those that it was made of
    @property
    def bytes(self) -> int: ...

class Activation:
    def __init__(self, kind: ActivationKind, a: float = ..., b: float = ...) -> None: ...

class Stage:
    """One convolution of a chain."""

    def __init__(
        self,
        *,
        weights: ConvWeights,
        offsets: NDArray[np.int32],
        group_stride: int,
        bias: _Floats,
        low: float,
        high: float,
        activation: Activation,
    ) -> None: ...

class Pool:
    """The windows of a pooling layer."""

    def __init__(self, *, max: bool, rows: _Axis, columns: _Axis) -> None: ...

class Engine:
    """The programs of a network. Every step is checked against its program's arena when it is
    added: a ValueError tells what does not fit."""

    def __init__(self) -> None: ...
    @staticmethod
    def lanes() -> int: ...
    @staticmethod
    def scratch_stride() -> int: ...  # floats, of the channels of a tile
    def singles(self, images: int) -> int: ...
    def workspace_bytes(self, *, images: int, threads: int) -> int: ...
    def generate(self, *, mode: Mode, max_bytes: int) -> list[int]: ...
    def begin(
        self, *, mode: Mode, positions: int, source: _View, target: _View, read_once: bool = False
    ) -> None: ...
    def add_chain(
        self,
        *,
        mode: Mode,
        source: _View,
        target: _View,
        height: int,
        width: int,
        first: int,
        flat: bool,
        tile_rows: int,
        tile_vectors: int,
        split_channels: bool,
        stages: Sequence[Stage],
        pool: Pool | None,
        residual: _View | None,
        low: float,
        high: float,
        image_rows: tuple[int, int, int] | None = None,  # how many, their width and stride
    ) -> None: ...
    def add_depthwise(
        self,
        *,
        mode: Mode,  # single
        source: _View,  # needs no padding
        target: _View,
        weights: NDArray[np.float32],  # [output channels, kernel rows, kernel columns]
        stride: tuple[int, int],
        padding: tuple[int, int],  # before the first row and column
        dilation: tuple[int, int],
        bias: _Floats,
        low: float,
        high: float,
        activation: Activation,
    ) -> None: ...
    def add_direct_conv(
        self,
        *,
        mode: Mode,  # single or prefix
        source: _View,  # needs no padding
        target: _View,
        weights: DirectWeights,
        stride: tuple[int, int],
        padding: tuple[int, int],  # before the first row and column
        bias: _Floats,
        low: float,
        high: float,
        activation: Activation,
    ) -> None: ...
    def add_linear(
        self,
        *,
        mode: Mode,
        source: _View,
        target: _View,
        weights: LinearWeights,
        bias: _Floats,
        activation: Activation,
    ) -> None: ...
    def add_pool(self, *, mode: Mode, source: _View, target: _View, pool: Pool) -> None: ...
    def add_space_to_depth(
        self,
        *,
        mode: Mode,
        source: _View,
        target: _View,
        stride: Sequence[int],
        rows: Sequence[int],
        columns: Sequence[int],
    ) -> None: ...
    def add_activate(
        self, *, mode: Mode, source: _View, target: _View, activation: Activation
    ) -> None: ...
    def add_scale(
        self,
        *,
        mode: Mode,
        source: _View,
        target: _View,
        scale: _Floats,
        shift: _Floats,
        activation: Activation,
    ) -> None: ...
    def add_lrn(
        self,
        *,
        mode: Mode,
        source: _View,
        target: _View,
        size: int,
        alpha: float,
        beta: float,
        k: float,
    ) -> None: ...
    def add_add(
        self,
        *,
        mode: Mode,
        left: _View,
        right: _View,
        target: _View,
        shape: Sequence[int],
        left_strides: Sequence[int],
        right_strides: Sequence[int],
    ) -> None: ...
    def add_concat(
        self, *, mode: Mode, sources: Sequence[_View], target: _View, outer: int
    ) -> None: ...
    def add_softmax(
        self,
        *,
        mode: Mode,
        source: _View,
        target: _View,
        outer: int,
        axis: int,
        inner: int,
        log: bool,
    ) -> None: ...
    def run_floats(
        self, *, x: _Floats, y: _Floats, threads: int, timed: bool
    ) -> list[list[float]]: ...
    def run_bytes(
        self,
        *,
        x: _Bytes,
        scale: _Floats,
        shift: _Floats,
        y: _Floats,
        threads: int,
        timed: bool,
    ) -> list[list[float]]: ...

class Opcode(enum.Enum):
    """What an instruction of elementwise code computes of its registers a, b, c."""

    add = 0
    sub = 1
    mul = 2
    div = 3
    pow = 4
    minimum = 5
    maximum = 6
    neg = 7
    abs = 8
    sqrt = 9
    rsqrt = 10
    reciprocal = 11
    exp = 12
    expm1 = 13
    log = 14
    log1p = 15
    erf = 16
    sin = 17
    cos = 18
    floor = 19
    ceil = 20
    round = 21
    trunc = 22
    sign = 23
    clamp = 24  # b, c: low and high
    leaky_relu = 25  # b: slope
    elu = 26  # b: alpha
    prelu = 27  # b: slope
    softplus = 28  # b: beta, c: threshold
    sigmoid = 29
    tanh = 30
    silu = 31
    gelu = 32
    gelu_tanh = 33
    hardswish = 34
    hardsigmoid = 35
    mish = 36
    eq = 37
    ne = 38
    lt = 39
    le = 40
    gt = 41
    ge = 42
    logical_not = 43
    logical_and = 44
    logical_or = 45
    logical_xor = 46
    where = 47  # b where a, else c
    from_int = 48  # of a 32-bit integer

class ReduceKind(enum.Enum):
    sum = 0
    mean = 1
    max = 2
    min = 3

class TensorProgram:
    """Steps on strided tensors in an arena of `cells` cells. Every step is checked when it is
    added: a ValueError tells what does not fit. An output must not overlap an input, unless both
    are the same tensor and the step is said to work in place.

    A thread takes part in a step when it has at least `grain` nanoseconds of its work to do."""

    def __init__(self, *, cells: int, grain: float = ...) -> None: ...
    def add_constant(self, *, values: _Floats) -> int:
        """The number of the storage that holds these values from now on; they are not copied."""

    def add_input(self, *, target: _Tensor, dtype: str) -> None:
        """The next input: float32, or int64, int32, uint8 or bool stored as 32-bit integers."""

    def add_output(self, *, source: _Tensor) -> None: ...
    def add_copy(self, *, source: _Tensor, target: _Tensor) -> None: ...
    def add_reindex(self, *, source: _Tensor, target: _Tensor, index: Sequence[_Ints]) -> None:
        """target[i, j, ...] = source[index[0][i], index[1][j], ...]"""

    def add_fill(self, *, target: _Tensor, value: float) -> None: ...

    # Images in eight bits: a cell, four bytes, is four channels of a pixel. Views count cells.
    def add_quantize(
        self, *, source: _Tensor, target: _View, stride: int, scale: float, zero: int
    ) -> None:
        """Cells of floats [samples, channels, height, width]."""

    def add_quantize_rows(
        self, *, source: _Tensor, target: int, stride: int, scale: float, zero: int
    ) -> None:
        """Bytes of floats [rows, columns], the rows `stride` cells apart."""

    def add_dequantize(
        self, *, source: _View, stride: int, target: _Tensor, scale: float, zero: int
    ) -> None: ...
    def add_move_cells(
        self,
        *,
        samples: int,
        source: _View,
        source_stride: int,
        target: _View,
        target_stride: int,
        stride: tuple[int, int],
        rows: Sequence[int],
        columns: Sequence[int],
        zero: int,
    ) -> None:
        """As add_space_to_depth, with the zero point outside of the source."""

    def add_pool_cells(
        self,
        *,
        samples: int,
        source: _View,
        source_stride: int,
        target: _View,
        target_stride: int,
        pool: Pool,
        zero: int,
    ) -> None: ...
    def add_conv_int8(
        self,
        *,
        samples: int,
        source: _View,
        source_stride: int,
        height: int,
        width: int,
        first: int,
        offsets: _Ints,
        weights: Int8Weights,
        cells: _View | None,
        cells_stride: int,
        floats: _Tensor | None,
        scale: float,
        zero: int,
        low: float,
        high: float,
        added_cells: _View | None,
        added_stride: int,
        added_floats: _Tensor | None,
        added_scale: float,
        added_zero: int,
    ) -> None:
        """Writes cells of (scale, zero), limited to [low, high] from the zero point, or floats
        [samples, channels, height, width] limited to these; after adding a value."""

    def add_linear_int8(
        self,
        *,
        source: int,
        source_stride: int,
        target: _Tensor,
        weights: Int8Matrix,
        low: float,
        high: float,
    ) -> None: ...
    def add_map(
        self,
        *,
        sources: Sequence[_Tensor],
        target: _Tensor,
        code: Sequence[tuple[Opcode, int, int, int, int]],
        numbers: Sequence[float],
    ) -> None:
        """Elementwise code: instructions (what, destination, a, b, c) on registers, which are the
        sources, broadcast to the target's shape, then the numbers, then temporaries, up to 64. The
        last destination is the result. In place, too. Arguments that an instruction does not have
        are ignored."""

    def add_matmul(
        self,
        *,
        a: _Tensor,  # [.., rows, depth]
        b: _Tensor,  # [.., depth, columns], columns contiguous
        target: _Tensor,  # [.., rows, columns], columns contiguous
        scale: float = ...,
    ) -> None:
        """target = scale * a @ b; leading axes are the target's, broadcast by strides of 0."""

    def add_attention(
        self,
        *,
        q: _Tensor,  # [.., queries, features]
        k: _Tensor,  # [.., keys, features]
        v: _Tensor,  # [.., keys, value features]
        mask: _Tensor | None,  # [.., queries, keys]
        mask_is_bool: bool,  # cells, floats or integers, are zero where a query must not look
        causal: bool,
        scale: float,
        target: _Tensor,  # [.., queries, value features]
    ) -> None:
        """Any strides; neighbouring queries in q and target are the fast case."""

    def add_recurrent(
        self,
        *,
        projected: _Tensor,  # [length, batch, gates * size]: the input's product
        h: _Tensor,  # [batch, size]
        c: _Tensor | None,  # [batch, size] of an LSTM; a GRU has none
        target: _Tensor,  # [length, batch, size]
        last_h: _Tensor,
        last_c: _Tensor | None,
        weights: LinearWeights,  # of the state's product
        bias: NDArray[np.float32],
        reverse: bool,
    ) -> None:
        """The entries of a vector are neighbours."""

    def add_norm(
        self,
        *,
        source: _Tensor,  # [outer, axis, inner]
        target: _Tensor,
        weight: _Floats | None,  # one value for each entry of the axis
        bias: _Floats | None,
        eps: float,
        subtract_mean: bool,
    ) -> None:
        """weight (x - mean) / sqrt(variance + eps) + bias along the axis; RMS norm without the
        mean. In place, too."""

    def add_softmax(self, *, source: _Tensor, target: _Tensor, log: bool) -> None:
        """Along the axis of [outer, axis, inner]. In place, too."""

    def add_reduce(self, *, kind: ReduceKind, source: _Tensor, target: _Tensor) -> None:
        """[outer, axis, inner] to [outer, inner]."""

    def add_gather(self, *, table: _Tensor, index: _Tensor, target: _Tensor) -> None:
        """The rows of a table [rows, columns] that 32-bit integers name. An index that is negative
        or too large makes `run` raise an IndexError."""

    def add_gather_int8(self, *, table: Int8Table, index: _Tensor, target: _Tensor) -> None:
        """The same of a table in int8: a row's integers times its scale."""

    def add_linear(
        self,
        *,
        source: _Tensor,  # [vectors, columns], rows contiguous
        target: _Tensor,  # [vectors, rows], rows contiguous
        weights: LinearWeights,
        bias: _Floats,
        activation: Activation,
    ) -> None: ...
    def add_depthwise(
        self,
        *,
        samples: int,
        source_sample_stride: int,
        target_sample_stride: int,
        source: _View,  # of the first sample; needs no padding
        target: _View,  # as many channels, or a multiple
        weights: NDArray[np.float32],  # [output channels, kernel rows, kernel columns]
        stride: tuple[int, int],
        padding: tuple[int, int],  # before the first row and column
        dilation: tuple[int, int],
        bias: _Floats,
        low: float,
        high: float,
        activation: Activation,
    ) -> None:
        """Every output channel has one input channel; weights of zero cost nothing."""

    def add_direct_conv(
        self,
        *,
        samples: int,
        source_sample_stride: int,
        target_sample_stride: int,
        source: _View,  # of the first sample; needs no padding
        target: _View,
        weights: DirectWeights,
        stride: tuple[int, int],
        padding: tuple[int, int],  # before the first row and column
        bias: _Floats,
        low: float,
        high: float,
        activation: Activation,
    ) -> None:
        """A dense convolution with its output channels in the lanes of vectors: for few input
        channels, and any stride."""

    def add_conv(
        self,
        *,
        samples: int,
        source_sample_stride: int,
        target_sample_stride: int,
        source: _View,  # of the first sample
        target: _View,
        height: int,
        width: int,
        first: int,
        flat: bool,
        tile_rows: int,
        tile_vectors: int,
        split_channels: bool,
        stages: Sequence[Stage],
        factors: _Tensor | None = None,  # of input channels: [samples, channels]
    ) -> None: ...
    def add_pool(
        self,
        *,
        samples: int,
        source_sample_stride: int,
        target_sample_stride: int,
        source: _View,
        target: _View,
        pool: Pool,
    ) -> None: ...
    def add_lrn(
        self,
        *,
        samples: int,
        source_sample_stride: int,
        target_sample_stride: int,
        source: _View,
        target: _View,
        size: int,
        alpha: float,
        beta: float,
        k: float,
    ) -> None: ...
    def add_space_to_depth(
        self,
        *,
        samples: int,
        source_sample_stride: int,
        target_sample_stride: int,
        source: _View,
        target: _View,
        stride: Sequence[int],
        rows: Sequence[int],
        columns: Sequence[int],
    ) -> None: ...
    def workspace_bytes(self, *, samples: int = 1, threads: int) -> int: ...
    @property
    def has_pairs(self) -> list[bool]: ...
    def generate(self, *, max_bytes: int) -> list[int]: ...
    def run(
        self,
        *,
        inputs: Sequence[NDArray[np.generic]],
        outputs: Sequence[_Floats],  # of any rank
        samples: int = 1,
        threads: int,
        timed: bool,
    ) -> list[float]:
        """Runs the program for each sample; arrays have those of all, one after the other along
        the first axis. Each step's seconds, if `timed`. An IndexError tells of an index out of
        range."""
