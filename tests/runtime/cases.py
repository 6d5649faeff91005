"""Networks that between them use every operation and every shape of kernel, by name."""

from collections.abc import Callable

from runtime_builder import Builder

CASES: dict[str, Callable[[], Builder]] = {}


def case(make: Callable[[], Builder]) -> Callable[[], Builder]:
    CASES[make.__name__] = make
    return make


def _convolutions() -> None:
    table = {
        # name: shape, outputs, kernel, and what is not plain about it
        "plain 3x3": ((3, 9, 9), 5, (3, 3), {}),
        "padded 5x5": ((4, 16, 16), 7, (5, 5), {"padding": (2, 2)}),
        "padding on one side only": ((4, 8, 13), 7, (1, 3), {"padding": (0, 1)}),
        "more padding than kernel": ((3, 5, 6), 4, (2, 2), {"padding": (3, 2)}),
        "strided": ((3, 23, 19), 6, (3, 3), {"stride": (2, 2), "padding": (1, 1)}),
        "strided like AlexNet": ((3, 35, 35), 8, (11, 11), {"stride": (4, 4)}),
        "first layer": ((3, 33, 31), 32, (7, 7), {"stride": (2, 2), "padding": (3, 3),
                                                  "sparsity": 0.0}),
        "first layer like AlexNet's": ((3, 67, 67), 48, (11, 11), {"stride": (4, 4),
                                                                   "sparsity": 0.0}),
        "uneven strides": ((2, 17, 30), 6, (4, 3), {"stride": (3, 5), "padding": (1, 0)}),
        "stride beyond the kernel": ((6, 14, 15), 9, (1, 1), {"stride": (2, 2)}),
        "dilated": ((3, 15, 14), 6, (3, 3), {"dilation": (2, 3), "padding": (2, 3)}),
        "dilated and strided": (
            (2, 20, 21), 6, (3, 2), {"dilation": (3, 2), "stride": (2, 3), "padding": (1, 2)},
        ),
        "two groups": ((8, 13, 13), 12, (3, 3), {"groups": 2, "padding": (1, 1)}),
        "depthwise": ((9, 11, 7), 9, (3, 3), {"groups": 9, "padding": (1, 1)}),
        "wide depthwise": ((9, 11, 17), 9, (3, 3), {"groups": 9, "padding": (1, 1)}),
        "strided depthwise": ((9, 11, 7), 18, (5, 3), {"groups": 9, "padding": (2, 1),
                                                        "stride": (2, 2)}),
        "strided groups": ((6, 12, 12), 10, (3, 3), {"groups": 2, "stride": (2, 2)}),
        "one pixel": ((40, 1, 1), 33, (1, 1), {}),
        "one row": ((5, 1, 70), 6, (1, 5), {"padding": (0, 2)}),
        "one column": ((5, 70, 1), 6, (5, 1), {"padding": (2, 0)}),
        "one output": ((12, 8, 8), 1, (3, 3), {"padding": (1, 1)}),
        "no bias": ((5, 7, 7), 11, (3, 3), {"bias": False}),
        "many channels": ((200, 6, 6), 70, (3, 3), {"padding": (1, 1), "sparsity": 0.9}),
        "wide": ((2, 3, 131), 5, (3, 3), {"padding": (1, 1)}),
    }  # fmt: skip
    for name, (shape, outputs, kernel, extra) in table.items():

        def make(shape=shape, outputs=outputs, kernel=kernel, extra=extra) -> Builder:
            builder = Builder(*shape)
            builder.conv(shape[0], outputs, kernel, **extra)
            return builder

        CASES[f"conv: {name}"] = make
    for sparsity in (0.0, 0.5, 0.9, 0.99, 1.0):

        def make(sparsity=sparsity) -> Builder:
            builder = Builder(20, 10, 11)
            builder.conv(20, 30, (3, 3), padding=(1, 1), sparsity=sparsity)
            builder.add("relu")
            builder.conv(30, 40, sparsity=sparsity)
            builder.conv(40, 13, (5, 3), groups=1, sparsity=sparsity)
            return builder

        CASES[f"conv: {sparsity:.0%} sparse"] = make


def _activations() -> None:
    table = {
        "relu": {},
        "relu6": {},
        "leaky_relu": {"slope": 0.1},
        "elu": {"alpha": 1.3},
        "sigmoid": {},
        "tanh": {},
        "silu": {},
        "gelu": {"approximate": "none"},
        "hardswish": {},
        "hardsigmoid": {},
        "hardtanh": {"min": -0.4, "max": 0.7},
    }
    for op, attributes in [*table.items(), ("gelu", {"approximate": "tanh"})]:

        def make(op=op, attributes=attributes) -> Builder:
            builder = Builder(3, 7, 5)
            builder.add(op, **attributes)
            builder.conv(3, 6, (3, 3), padding=(1, 1))
            builder.add(op, **attributes)
            builder.add("flatten", start=1, end=-1)
            builder.linear(6 * 7 * 5, 9)
            builder.add(op, **attributes)
            return builder

        CASES[f"{op} {attributes.get('approximate', '')}".strip()] = make


def _pools() -> None:
    table = {
        "max: 2x2": ("max_pool", {}),
        "max: NIN's": ("max_pool", {"kernel": (3, 3), "stride": (2, 2), "ceil": True}),
        "max: padded": ("max_pool", {"kernel": (3, 3), "stride": (2, 2), "padding": (1, 1)}),
        "max: dilated": ("max_pool", {"kernel": (2, 3), "stride": (1, 2), "dilation": (3, 2)}),
        "max: uneven": (
            "max_pool",
            {"kernel": (5, 2), "stride": (3, 1), "padding": (2, 1), "ceil": True},
        ),
        "average: 2x2": ("avg_pool", {}),
        "average: NIN's": ("avg_pool", {"kernel": (3, 3), "stride": (2, 2), "ceil": True}),
        "average: padding counted": (
            "avg_pool",
            {"kernel": (3, 3), "stride": (2, 2), "padding": (1, 1), "ceil": True},
        ),
        "average: padding not counted": (
            "avg_pool",
            {"kernel": (3, 3), "padding": (1, 1), "ceil": True, "count_include_pad": False},
        ),
        "average: divisor": ("avg_pool", {"kernel": (3, 2), "padding": (1, 0), "divisor": 5}),
    }
    for name, (op, attributes) in table.items():

        def make(op=op, attributes=attributes) -> Builder:
            builder = Builder(3, 16, 13)
            getattr(builder, op)(**attributes)  # of the input
            builder.conv(3, 5, (3, 3), padding=(1, 1))
            getattr(builder, op)(**attributes)  # of a convolution, into another's padding
            builder.conv(5, 4, (3, 3), padding=(1, 1))
            return builder

        CASES[f"pool {name}"] = make
    for size in ([1, 1], [3, 4], [7, 6]):

        def make(size=size) -> Builder:
            builder = Builder(3, 7, 10)
            builder.add("adaptive_avg_pool", size=size)
            return builder

        CASES[f"pool adaptive: {size}"] = make


_convolutions()
_activations()
_pools()


@case
def nin() -> Builder:
    builder = Builder(3, 32, 32)
    builder.conv(3, 19, (5, 5), padding=(2, 2), sparsity=0.9)
    builder.add("relu")
    for outputs in ((19, 16), (16, 10)):
        builder.conv(*outputs, sparsity=0.8)
        builder.add("relu")
    builder.max_pool((3, 3), (2, 2), ceil=True)
    builder.conv(10, 20, (5, 5), padding=(2, 2), sparsity=0.9)
    builder.add("relu")
    builder.conv(20, 20, sparsity=0.9)
    builder.add("leaky_relu", slope=0.2)
    builder.avg_pool((3, 3), (2, 2), ceil=True)
    builder.conv(20, 10, (3, 3), padding=(1, 1), sparsity=0.5)
    builder.add("adaptive_avg_pool", size=[1, 1])
    builder.add("flatten", start=1, end=-1)
    return builder


@case
def alexnet() -> Builder:
    builder = Builder(3, 67, 67)
    builder.conv(3, 16, (11, 11), stride=(4, 4), sparsity=0.7)
    builder.add("relu")
    builder.add("lrn", size=5, alpha=1e-1, beta=0.75, k=1.0)
    builder.max_pool((3, 3), (2, 2))
    builder.conv(16, 24, (5, 5), padding=(2, 2), groups=2, sparsity=0.7)
    builder.add("relu")
    builder.add("lrn", size=4, alpha=2e-1, beta=0.6, k=2.0)
    builder.max_pool((3, 3), (2, 2))
    builder.add("flatten", start=1, end=-1)
    builder.linear(24 * 3 * 3, 130, sparsity=0.75)
    builder.add("relu")
    builder.linear(130, 70, sparsity=0.9)
    builder.add("relu")
    builder.linear(70, 11, sparsity=0.0)
    builder.add("softmax", axis=1)
    return builder


@case
def vgg() -> Builder:
    builder = Builder(3, 16, 16)
    for inputs, outputs in ((3, 8), (8, 12)):
        builder.conv(inputs, outputs, (3, 3), padding=(1, 1), sparsity=0.0)
        builder.add("relu")
        builder.conv(outputs, outputs, (3, 3), padding=(1, 1), sparsity=0.6)
        builder.batch_norm(outputs)
        builder.add("relu")
        builder.max_pool()
    builder.add("reshape", shape=[None, -1])
    builder.linear(12 * 4 * 4, 10, sparsity=0.0, bias=False)
    builder.add("log_softmax", axis=-1)
    return builder


@case
def normalised() -> Builder:
    """Batch norms that are folded, in a chain, grouped, of a weight that two layers share and with
    scales of zero; and one that is not, because the convolution before it has another reader."""
    builder = Builder(3, 12, 12)
    builder.conv(3, 12, (3, 3), padding=(1, 1), sparsity=0.5, bias=False)
    builder.batch_norm(12)
    builder.add("relu")
    builder.conv(12, 8, (1, 1), sparsity=0.5)
    builder.batch_norm(8)
    builder.tensors[builder.nodes[-1]["weight"]][:3] = 0
    builder.conv(8, 8, (3, 3), padding=(1, 1), groups=2)
    shared = builder.nodes[-1]["weight"]
    builder.batch_norm(8)
    builder.conv(8, 8, (3, 3), stride=(2, 2), groups=2)
    builder.nodes[-1]["weight"] = shared
    builder.batch_norm(8)
    builder.conv(8, 8, (3, 3))
    before = builder.last
    builder.batch_norm(8)
    builder.add("add", builder.last, before)
    return builder


@case
def resnet() -> Builder:
    builder = Builder(3, 15, 15)
    builder.conv(3, 8, (3, 3), padding=(1, 1))
    builder.add("relu")
    for inputs, outputs, step in ((8, 8, 1), (8, 16, 2)):
        start = builder.last
        builder.conv(inputs, outputs, (3, 3), padding=(1, 1), stride=(step, step))
        builder.add("relu")
        builder.conv(outputs, outputs, (3, 3), padding=(1, 1))
        main = builder.last
        if step != 1:
            builder.conv(inputs, outputs, stride=(step, step))
            builder.nodes[-1]["inputs"] = [start]
            start = builder.last
        builder.add("add", main, start)
        builder.add("relu")
    builder.add("adaptive_avg_pool", size=[1, 1])
    builder.add("flatten", start=1, end=-1)
    builder.linear(16, 10)
    return builder


@case
def sums_after_convolutions() -> Builder:
    """Sums that a convolution adds by itself, and sums that it must not."""
    builder = Builder(5, 19, 21)
    first = builder.conv(5, 6, (3, 3), padding=(1, 1), sparsity=0.5)
    builder.conv(6, 6, (3, 3), padding=(1, 1), sparsity=0.5)
    builder.add("add", first, builder.last)  # read by a padded convolution, and by another sum
    summed = builder.last
    builder.conv(6, 9, (3, 3), padding=(1, 1), sparsity=0.7)
    builder.conv(9, 6, (1, 1), sparsity=0.7)  # chained
    builder.add("add", builder.last, summed)
    builder.add("relu6")
    before = builder.last
    builder.conv(6, 6, (1, 1))
    builder.add("relu")  # before the sum
    builder.add("add", builder.last, before)
    builder.add("tanh")  # no clamping
    before = builder.last
    twice = builder.conv(6, 6, (1, 1))
    builder.add("add", twice, twice)
    builder.add("add", builder.last, before)
    builder.conv(6, 6, (1, 1))
    before = builder.last
    builder.max_pool((1, 1), stride=(1, 1))
    builder.add("add", before, builder.last)
    return builder


@case
def branches_joined() -> Builder:
    builder = Builder(4, 6, 6)
    builder.conv(4, 5, (3, 3), padding=(1, 1))
    left = builder.last
    builder.conv(5, 7)
    right = builder.last
    whole = builder.add("concat", left, right, "x", axis=1)
    builder.add("concat", whole, whole, axis=3)
    builder.add("softmax", axis=2)
    return builder


@case
def dense_block() -> Builder:
    """Each concatenation begins the next one; others read values too, and one comes twice."""
    builder = Builder(3, 10, 10)
    whole, channels = builder.conv(3, 4, (3, 3), padding=(1, 1)), 4
    for _ in range(3):
        builder.add("relu", whole)
        grown = builder.conv(channels, 5, (3, 3), padding=(1, 1))
        whole, channels = builder.add("concat", whole, grown, axis=1), channels + 5
    first = builder.conv(channels, 4, (1, 1))
    twice = builder.add("add", first, first)
    builder.add("concat", first, whole, twice, first, axis=1)
    pooled = builder.max_pool()
    builder.add("relu", whole)
    builder.add("concat", pooled, builder.max_pool(), axis=1)
    builder.conv(2 * channels + 12, 6, (3, 3), padding=(1, 1))
    return builder


@case
def flattened_in_a_concatenation() -> Builder:
    builder = Builder(1, 16, 17)
    half = builder.add("hardswish")
    whole = builder.add("concat", "x", half, axis=2)
    flat = [builder.add("flatten", name, start=1, end=-1) for name in (whole, half)]
    builder.add("concat", *flat, axis=1)
    return builder


@case
def sums_broadcast() -> Builder:
    builder = Builder(4, 6, 5)
    builder.add("adaptive_avg_pool", size=[1, 1])
    narrow = builder.last
    builder.add("adaptive_avg_pool", size=[1, 5])
    builder.nodes[-1]["inputs"] = ["x"]
    row = builder.last
    summed = builder.add("add", "x", narrow)
    summed = builder.add("add", row, summed)
    builder.add("add", summed, summed)
    builder.add("softmax", axis=-1)
    return builder


@case
def only_linear() -> Builder:
    builder = Builder(77)
    builder.linear(77, 130, sparsity=0.9)
    builder.add("relu")
    builder.batch_norm(130)
    builder.linear(130, 64, sparsity=0.5)
    builder.add("gelu", approximate="none")
    builder.linear(64, 3, sparsity=1.0)
    return builder


@case
def linear_in_the_middle() -> Builder:
    builder = Builder(3, 4, 6)
    builder.linear(6, 8)  # along the last axis
    builder.add("relu")
    builder.add("reshape", shape=[None, 12, 2, -1])
    builder.conv(12, 5, (2, 2), padding=(1, 1))
    builder.batch_norm(5)
    return builder


@case
def nothing_at_all() -> Builder:
    builder = Builder(3, 4, 6)
    builder.add("flatten", start=1, end=2)
    return builder
