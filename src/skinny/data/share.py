"""Which images of a batch are this process's, where several processes train together."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Share:
    """That of process `index` of `count`: every batch is split, in its order, into equal pieces.

    neighbours: how many of the processes run on this machine, and share its cores.
    """

    index: int = 0
    count: int = 1
    neighbours: int = 1

    def of(self, images: int) -> slice:
        """The part of a batch of `images`; shares differ by one image at most."""
        return slice(images * self.index // self.count, images * (self.index + 1) // self.count)


WHOLE = Share()
