"""Recognising local response normalisation, which torch takes apart into ten operations.

y = x / (k + alpha * mean of x^2 over `size` neighbouring channels)^beta
"""

from typing import Any, NamedTuple

from torch.fx import Node


class Lrn(NamedTuple):
    source: Node  # x
    inner: list[Node]  # the operations in between, which are not translated
    attributes: dict[str, Any]


def match_lrn(div: Node) -> Lrn | None:
    """The normalisation whose last operation is `div`, or None if `div` is just a division.

    The chain, from x: mul(x, x), view, pad, avg_pool3d, squeeze, view, mul(alpha), add(k),
    pow(beta), and div(x, that).
    """
    chain: list[Node] = []
    scalars: list[Any] = []

    def back(node: Any, operation: str) -> Any:
        if not isinstance(node, Node) or name(node) != operation or len(node.users) != 1:
            raise LookupError
        chain.append(node)
        return node.args

    try:
        if name(div) != "div" or len(div.args) != 2:
            return None
        source, power = div.args
        for operation in ("pow", "add", "mul"):  # pow(add(mul(., alpha), k), beta)
            power, scalar = back(power, operation)[:2]
            scalars.append(scalar)
        (view, *_) = back(power, "view")
        (squeeze, *_) = back(view, "squeeze")
        pooled, kernel, stride, *more = back(squeeze, "avg_pool3d")
        padded, padding, *fill = back(pooled, "pad")
        (view, *_) = back(padded, "view")
        square = back(view, "mul")
    except (LookupError, ValueError):
        return None
    size = kernel[0]
    beta, k, alpha = scalars
    fits = (
        isinstance(source, Node)
        and list(square) == [source, source]
        and all(isinstance(scalar, int | float) for scalar in scalars)
        and list(kernel) == [size, 1, 1]
        and list(stride) == [1, 1, 1]
        and list(padding) == [0, 0, 0, 0, size // 2, (size - 1) // 2]
        and not more
        and not any(fill)
        and len(source.meta["val"].shape) == 4
    )
    if not fits:
        return None
    assert isinstance(source, Node)
    return Lrn(source, chain, {"size": size, "alpha": alpha, "beta": beta, "k": k})


def name(node: Node) -> str:
    """The name of an ATen operation, without its overload; "" for other nodes."""
    schema = getattr(node.target, "_schema", None)
    return "" if schema is None else str(schema.name).split("::")[-1]
