"""Where the head of a network is divided, for batches: images run one by one through the layers
before, whose values are large, and in vectors through those after, whose values fit the cache."""

import math
from collections.abc import Callable, Mapping

from skinny.runtime.fuse import Layer
from skinny.runtime.layout import Shape


def split_head(
    layers: list[Layer],
    start: str,
    end: str,
    shapes: Mapping[str, Shape],
    most: int,
    one_by_one: Callable[[Layer], bool],
) -> tuple[int, str] | None:
    """The index of the first layer after the division, and the one value that crosses it, an image:
    the earliest division after which no more than `most` elements are live at once. None where
    there is no such value.

    layers: from value `start` to value `end`. one_by_one: is a layer faster on single images?
    """

    def size(name: str) -> int:
        return math.prod(shapes[name])

    entering, total = {end}, size(end)  # what the layers from `at` on read and do not make
    found = None
    for at in range(len(layers) - 1, -1, -1):
        layer = layers[at]
        if one_by_one(layer):
            break
        before = set(layer.inputs) - entering
        made = size(layer.output)
        total += sum(map(size, before))
        if total + (0 if layer.output in entering else made) > most:
            break
        if layer.output in entering:
            entering.remove(layer.output)
            total -= made
        entering |= before
        # An activation joins the layer before it.
        if len(entering) == 1 and start not in entering and layer.op != "activate":
            (value,) = entering
            if len(shapes[value]) == 3:
                found = (at, value)
    return found
